"""Exports of a ledger give the same log as its events."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.ledger.events import when
from belated.logs import EventLog, Log, frame_log, json_files, read_log, read_log_file
from belated.logs.changes import Change
from support.refusals import refused

HEAD = "number,kind,at,round,decision,arm,propensity,loss,receipt,waited,key"
Event = tuple[str, int, int, Any, float]
"""Kind, time in microseconds, round, arm, loss."""


def row(number: int, event: Event) -> dict[str, Any]:
    kind, at, round, arm, loss = event
    is_decision = kind == "decision"
    return {
        "number": number,
        "kind": kind,
        "at": when(at),
        "round": round,
        "decision": f"d{round}",
        "arm": arm,
        "propensity": 0.5 if is_decision else None,
        "loss": None if is_decision else loss,
        "receipt": None if is_decision else "used",
        "waited": None,
        "key": None,
    }


def by_events(events: list[Event]) -> Log:
    log = EventLog()
    for kind, at, round, arm, loss in events:
        if kind == "decision":
            log.decided(round, arm, 0.5, at / 1_000_000)
        else:  # the first that came of a decision stays, so that what was settled later changes nothing
            log.came(round, loss, at / 1_000_000)
    return log.log()


def assert_same(log: Log, other: Log) -> None:
    assert repr(log.labels) == repr(other.labels)
    assert log.in_seconds == other.in_seconds
    for name in ("arms", "rewards", "propensities", "waits", "times", "durations"):
        np.testing.assert_array_equal(getattr(log, name), getattr(other, name), strict=True)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Decisions of some rounds, not in their order, and outcomes of those that were made; the clock may go back."""
    rounds = draw(st.lists(st.integers(1, 10**12), min_size=2, max_size=12, unique=True))
    labels: list[Any] = draw(st.sampled_from([["a", "b"], [2, 10], ["2", 10]]))
    events: list[Event] = []
    made: list[int] = []
    at = draw(st.integers(10**15, 2 * 10**15))
    while len(made) < len(rounds):
        at += draw(st.integers(-2_000_000, 5_000_000))
        kind = draw(st.sampled_from(["decision", "decision", "outcome", "default", "settled"]))
        if kind == "decision":
            made.append(rounds[len(made)])
            events.append((kind, at, made[-1], labels[len(made) % 2], 0.0))
        elif made:
            events.append((kind, at, draw(st.sampled_from(made)), labels[0], draw(st.sampled_from([0.0, 0.25, 1.0]))))
    return events


@settings(max_examples=15, deadline=None)
@given(histories())
def test_an_export_is_as_its_events(tmp_path_factory: pytest.TempPathFactory, events: list[Event]) -> None:
    rows = [row(number, event) for number, event in enumerate(events, 1)]
    expected = by_events(events)
    path = tmp_path_factory.getbasetemp() / "export.ndjson"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert_same(read_log(path), expected)
    rows = [each | {"arm": str(each["arm"])} for each in rows]
    expected = by_events([(*event[:3], str(event[3]), event[4]) for event in events])
    frame = polars.DataFrame(rows, infer_schema_length=None)
    assert_same(frame_log(frame), expected)
    frame.write_parquet(path.with_suffix(".parquet"))
    assert_same(read_log(path.with_suffix(".parquet")), expected)
    frame.write_csv(path.with_suffix(".csv"))
    assert_same(read_log(path.with_suffix(".csv")), expected)


def test_arms_that_came_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes count decisions; newcomers are the last labels. One arm leaves that was never chosen."""
    at = 10**15
    events: list[Event] = [("decision", at + k, k, "ab"[k % 2], 0.0) for k in range(1, 20)]
    events += [("add_arm", at + 20, 19, "z", 0.0), ("add_arm", at + 21, 19, "aa", 0.0)]
    events += [("decision", at + 30 + k, 20 + k, ["z", "aa", "b"][k % 3], 0.0) for k in range(9)]
    events += [("retire_arm", at + 50, 28, "c", 0.0), ("outcome", at + 51, 3, "b", 0.5)]
    events += [("retire_arm", at + 52, 28, "z", 0.0), ("decision", at + 53, 29, "aa", 0.0)]
    events += [("restore_arm", at + 54, 29, "z", 0.0)]
    expected = EventLog()
    for kind, moment, round, arm, loss in events:
        if kind == "decision":
            expected.decided(round, arm, 0.5, moment / 1_000_000)
        elif kind == "outcome":
            expected.came(round, loss, moment / 1_000_000)
        else:
            expected.changed(arm, kind != "retire_arm")
    path = tmp_path / "export.ndjson"
    path.write_text("".join(json.dumps(row(k, event)) + "\n" for k, event in enumerate(events)))
    for size in (400, 2**24):
        monkeypatch.setattr(json_files, "SIZE", size)
        log = read_log(path)
        assert_same(log, expected.log())
        assert log.changes == expected.log().changes
        assert log.labels == ("a", "b", "c", "z", "aa")
        assert log.changes[2:4] == (Change(28, 2, False), Change(28, 3, False))
    named = read_log(path, arms=["z", "b", "aa", "a", "c"])
    assert named.labels == ("b", "a", "c", "z", "aa")
    assert named.changes == (Change(19, 3, True), Change(19, 4, True), *(log.changes[2:]))


def test_outcomes_may_come_in_a_later_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = [("decision", 10**15 + k, k, "ab"[k % 2], 0.0) for k in range(50)]
    events += [("outcome", 10**15 + 100 + k, k, "a", 0.5) for k in range(0, 50, 3)]
    path = tmp_path / "export.ndjson"
    path.write_text("".join(json.dumps(row(k, event)) + "\n" for k, event in enumerate(events)))
    monkeypatch.setattr(json_files, "SIZE", 1000)
    assert_same(read_log(path), by_events(events))


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ("2,outcome,{t},2,y,a,,0.5,used,1,", ("round", "3", "'2'")),
        ("2,outcome,{t},1,x,a,,1.5,used,1,", ("loss", "3", "'1.5'")),
        ("2,outcome,{t},1,x,a,,,used,1,", ("loss", "3", "''")),
        ("2,outcome,{t},one,x,a,,0.5,used,1,", ("round", "3", "'one'")),
        ("2,decision,{t},1.5,x,a,,,,,", ("round", "3", "'1.5'")),
        ("2,decision,{t},1,x,a,0.5,,,,", ("round", "3", "'1'")),
        ("2,decision,{t},2,x,a,2,,,,", ("propensity", "3", "'2'")),
        ("2,decision,{t},2,x,,0.5,,,,", ("arm", "3")),
        ("2,decision,then,2,x,b,0.5,,,,", ("at", "3", "'then'")),
        (
            "2,decision,{t},2,x,c,0.5,,,,\n3,outcome,{t},3,z,c,,1,,,\n4,decision,{t},3,z,c,1,,,,",
            ("round", "4", "'3'"),
        ),
    ],
)
def test_events_that_cannot_be_are_named_by_line(rows: str, names: tuple[str | None, ...], tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    begin = f"{HEAD}\n1,decision,{{t}},1,x,b,0.5,,,,\n{rows}\n9,decision,{{t}},9,x9,a,0.5,,,,\n"
    path.write_text(begin.replace("{t}", "2026-01-01T00:00:00Z"))
    with refused(*names):
        read_log(path)
    read = read_log_file(path, bad_rows="leave out")
    assert read.rejections.total == 1
    assert read.columns == {}
    assert set(read.log.labels) >= {"a", "b"}


def test_other_events_are_passed_over_whatever_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    at = "2026-01-01T00:00:00Z"
    path.write_text(
        f"{HEAD}\n1,decision,{at},1,x,b,0.5,,,,\n2,pause,never,,,,9,9,,,\n3,decision,{at},2,y,a,,,,,\n,,,,,,,,,,\n"
    )
    log = read_log(path)
    assert log.labels == ("a", "b")
    np.testing.assert_array_equal(log.propensities, [0.5, np.nan])


def test_without_times_an_export_has_none(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(f"{HEAD}\n1,decision,,1,x,b,0.5,,,,\n2,decision,,2,y,a,0.5,,,,\n3,outcome,,1,x,b,,0,,,\n")
    log = read_log(path, arms=["b", "a"])
    assert log.times is None
    assert not log.in_seconds
    assert log.labels == ("b", "a")
    np.testing.assert_array_equal(log.waits, [1, np.inf])
    path.write_text("kind,receipt,round\n")
    with refused("path", "arm"):
        read_log(path)
