"""Messages of logs: rows and columns that cannot be read, notes, ranges of values, public data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars

from belated.logs import EventLog, Log, frame_log, propose_scale, read_log, read_log_file
from belated.logs.public import find_data
from belated.logs.scale import Scale
from belated.logs.unscaled import read_values
from belated.replay import off_policy, value_of

Case = Callable[[Path], object]
EXPORT = "number,kind,at,round,decision,arm,propensity,loss,receipt,waited,key\n1,decision,,1,x,a,0.5,,,,\n"


def file(text: str | bytes, name: str = "log.csv", **options: Any) -> Case:
    """Return a case that reads a file; it says its notes and the rows that are left out, if it can be read."""

    def read(folder: Path) -> str:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = read_log_file(path, **options)
        if found.rejections.total:
            return "\n".join([found.rejections.sentence, *(each.reason for each in found.rejections)])
        return "\n".join(found.notes)

    return read


def worth(target: Any, means: Any = None, alpha: Any = 0.05, **changed: Any) -> Case:
    """Return a case that values a target on a log of eight rows; it says its warning, if it can be valued."""

    def value(_: Path) -> str | None:
        arms = ["a", "b"] * 3 + (["b", "b"] if "changes" in changed else ["a", "b"])
        columns: dict[str, Any] = {"rewards": [1.0, 0.0] * 4, "propensities": [0.5] * 8} | changed
        log = Log.from_arrays(arms, labels=["a", "b", "c"], **columns)
        return value_of(log, np.array(target), means=means, alpha=alpha).warning

    return value


def values(text: str, name: str = "log.csv", **options: Any) -> Case:
    def read(folder: Path) -> object:
        (folder / name).write_text(text)
        return read_values(folder / name, **options)

    return read


def proposed(given: list[float], *arms: Any, **options: Any) -> str:
    return "\n".join(propose_scale(given, *arms, **options).notes)


def changed(*changes: Any) -> Log:
    return Log(("a", "b"), np.array([0, 1]), np.ones(2), np.full(2, 0.5), changes=changes)


def events(*steps: tuple[str, Any]) -> None:
    log = EventLog()
    for name, given in steps:
        getattr(log, name)(*given)


BAD = "id,arm,reward,propensity\nx,a,1,0.5\ny,b,much,0.5\nx,b,1,0.5\nz,b,2,0.5\nu,,1,0.5\nv,b\nw,b,1,0\nt,b,0,0.5\n"
CASES: dict[str, Case] = {
    "rows: refused": file(BAD),
    "rows: left out": file(BAD, bad_rows="leave out"),
    "rows: none are left": file("arm,reward\na,x\nb,y\n", bad_rows="leave out"),
    "rows: none": file("arm,reward\n"),
    "rows: one arm": file("arm,reward\na,1\nb,y\n", bad_rows="leave out"),
    "rows: an unknown way": file(BAD, bad_rows="ignore"),
    "rows: an unknown arm": file("arm,reward\n1,1\n2,0\n7,1\n", arms=[2, 1, 3]),
    "rows: many arms": file("arm,reward\n1,1\n2,0\n7,1\n", arms=range(7)),
    "rows: quotes": file('arm,reward\na,1\n"b,0\nc,1\n'),
    "rows: not UTF-8": file(b"arm,reward\na,1\nb\xff,0\n"),
    "rows: NUL": file(b"arm,reward\na,1\nb\0,0\n"),
    "rows: too long": file(b"arm,reward\na,1\nb," + b"x" * 2**17 + b"\n"),
    "rows: not JSON": file('{"arm": "a", "reward": 1}\n{"arm": \n', "log.ndjson"),
    "rows: no object": file('{"arm": "a", "reward": 1}\n3\n', "log.ndjson"),
    "rows: no label": file('{"arm": "a", "reward": 1}\n{"arm": [1], "reward": 1}\n', "log.ndjson"),
    "rows: a time": file("arm,reward,time\na,1,5\nb,0,yesterday\n"),
    "rows: another kind of time": file("arm,reward,time\na,1,5\nb,0,2026-01-01\n"),
    "rows: an outcome too early": file("arm,reward,time,outcome_time\na,1,5,4\nb,0,6,7\n"),
    "rows: a reward without a time": file("arm,reward,time,outcome_time\na,1,5,\nb,0,6,7\n"),
    "rows: a time without a reward": file("arm,reward,time,outcome_time\na,,5,6\nb,0,6,7\n"),
    "columns: a suffix": file("", "log.txt"),
    "columns: no arm": file("x,reward\na,1\n"),
    "columns: a name that is not there": file("round,arm,reward\n1,a,1\n", arm="nix"),
    "columns: an unknown one": file("arm,reward\na,1\n", rewards="reward"),
    "columns: twice": file("arm,reward,reward\na,1,1\n"),
    "columns: reward and loss": file("arm,reward,loss\na,1,0\n"),
    "columns: a frame without rows": lambda _: frame_log(polars.DataFrame({"arm": [], "reward": []})),
    "notes: sorted": file("round,arm,reward\n3,a,0.3\n1,b,0.1\n3,b,0.4\n2,b,0.2\n"),
    "notes: not come": file(
        "arm,reward,time,converted_at\na,0,1,\nb,1,2,3\na,0.0,5,null\n", outcome_time="converted_at"
    ),
    "notes: one not come": file("arm,loss,delay\na,1,\nb,0,3\n"),
    "notes: clipped": file("variant,revenue\na,50\nb,250\nb,-1\n", scale=Scale(0, 200)),
    "notes: one clipped": file("variant,revenue\na,50\nb,250\nb,-1\n", scale=Scale(-1, 200)),
    "values: beyond the range": file("variant,revenue\na,50\nb,250\n", scale=Scale(0, 200, beyond="refuse")),
    "values: no range": file("variant,reward\na,50\nb,250\n"),
    "values: bad rows": values("visit,variant,revenue\nv1,a,much\nv2,b,3\nv3,b,\n"),
    "values: no column": values("visit,euros\nv1,3\n"),
    "exports: an outcome of no decision": file(EXPORT + "2,outcome,,2,y,a,,0.5,used,1,\n"),
    "exports: a loss": file(EXPORT + "2,outcome,,1,x,a,,1.5,used,1,\n"),
    "exports: a round": file(EXPORT + "2,decision,,1.5,x,a,,,,,\n"),
    "exports: a column": file("kind,receipt,round\n"),
    "ranges: few values": lambda _: proposed([0.0, 0.0, 0.0, 10.0, 30.0, 100.0], list("ababba"), quantile=0.5),
    "ranges: the narrowest": lambda _: proposed(
        [1.0] * 990 + [500.0] * 9 + [5000.0] + [4.0] * 1000, ["wild"] * 1000 + ["steady"] * 1000, quantile=0.99
    ),
    "ranges: the order of the arms": lambda _: proposed(
        [9.0] * 100 + [1.0] * 99 + [300.0] + [2.0] * 100, ["a"] * 100 + ["b"] * 100 + ["c"] * 100, quantile=0.95
    ),
    "ranges: tiny values": lambda _: proposed([1.0] * 1000 + [1000.0] * 10 + [float("nan")], quantile=0.999),
    "ranges: all alike": lambda _: propose_scale([3.0, 3.0]),
    "ranges: a quantile": lambda _: propose_scale([1.0, 2.0], quantile=99),
    "ranges: ends": lambda _: Scale(2, 1),
    "logs: no rewards": lambda _: Log.from_arrays([0, 1]),
    "logs: a reward": lambda _: Log.from_arrays([0, 1], [1.5, 0.0]),
    "logs: a propensity": lambda _: Log.from_arrays([0, 1], [1.0, 0.0], propensities=[0.5, 0.0]),
    "logs: parts of a decision": lambda _: Log.from_decisions([(1,)], rewards={}),
    "logs: a distribution without labels": lambda _: Log.from_decisions([(1, "a", 0.5, [0.5, 0.5])], rewards={}),
    "logs: a distribution of too few arms": lambda _: Log.from_decisions(
        [(1, "a", 0.5, [1.0])], rewards={}, labels=["a", "b"]
    ),
    "logs: a distribution": lambda _: Log.from_arrays([0, 1], [1.0, 0.0], distributions=[[0.5, 0.5], [0.5, 0.4]]),
    "logs: another propensity": lambda _: Log.from_arrays(
        [0, 1], [1.0, 0.0], propensities=[0.5, 0.25], distributions=[[0.5, 0.5], [0.5, 0.5]]
    ),
    "logs: floors": lambda _: Log.from_arrays([0, 1], [1.0, 0.0], floors=[0.5]),
    "logs: a shape": lambda _: Log.from_arrays([0, 1], [1.0, 0.0], waits=[0.0]),
    "logs: a deadline in time": lambda _: Log.from_arrays([0, 1], [1.0, 0.0]).with_deadline_after(5.0, 1.0),
    "changes: too few arms at first": lambda _: changed((1, 1, True)),
    "changes: an arm of no number": lambda _: changed((1, 3, True)),
    "changes: the last arms": lambda _: changed((1, 0, False)),
    "events: a decision twice": lambda _: events(("decided", (1, "a", 0.5)), ("decided", (1, "b", 0.5))),
    "events: an outcome of no decision": lambda _: events(("came", (9, 0.5))),
    "values of a target: an arm that was never chosen": worth([0.5, 0.2, 0.3]),
    "values of a target: an arm that has left": worth([0.4, 0.6, 0.0], changes=[(6, "a", False)]),
    "values of a target: another arm was certain": worth([0.5, 0.5, 0.0], propensities=[1.0, 0.5] * 4),
    "values of a target: an arm of no chance": worth([0.5, 0.5, 0.0], distributions=[[0.5, 0, 0.5], [0, 0.5, 0.5]] * 4),
    "values of a target: nothing in common": worth([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]] * 4),
    "values of a target: an outcome is missing": worth([0.5, 0.5, 0.0], rewards=[1.0] * 7 + [float("nan")]),
    "values of a target: a propensity is missing": worth([0.5, 0.5, 0.0], propensities=[0.5] * 7 + [float("nan")]),
    "values of a target: a probability": worth([1.5, -0.5, 0.0]),
    "values of a target: a sum": worth([0.5, 0.6, 0.0]),
    "values of a target: a shape": worth([0.5, 0.5]),
    "values of a target: propensities that are not true": worth([0.5, 0.5, 0.0], propensities=[0.9, 0.8] * 4),
    "values of a target: a reward": lambda _: off_policy(np.full(8, 1.5), np.ones(8), np.zeros(8)),
    "values of a target: a weight": lambda _: off_policy(np.ones(8), -np.ones(8), np.zeros(8)),
    "values of a target: one for each row": lambda _: off_policy(np.ones(8), np.ones(7), np.zeros(8)),
    "values of a target: the largest weight": lambda _: off_policy(np.ones(8), np.ones(8), np.zeros(8), largest=0.5),
    "values of a target: predictions": worth([0.5, 0.5, 0.0], means=np.array([0.0, float("nan"), 0.0])),
    "values of a target: no alpha": worth([0.5, 0.5, 0.0], alpha=0),
    "values of a target: a log of a learner": worth([0.5, 0.5, 0.0], propensities=[0.5, 0.5, 0.25, 0.75] * 2),
    "data: unknown": lambda _: find_data("rosi"),
    "data: nothing there": lambda folder: read_log(folder / "log.csv"),
}
