"""Messages of estimates, replays, trials, leagues, audits, delays and environments."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from belated import audit, bounds, simulate, trial
from belated.cli.main import main
from belated.delays import ByArm, ByLoss, Delays, Empirical
from belated.environments import Environment, Resampled
from belated.inference import estimates
from belated.inference.aipw import aipw
from belated.league import LeaguePlan, competitors, suite
from belated.league.suite import Cell
from belated.logs import Log
from belated.logs.scale import Scale
from belated.replay import Reproduced, replay_log
from belated.report.estimates import sentences
from belated.simulation.intervals import Interval
from belated.trial.accrual import InPatients

Case = Callable[[Path], object]
MINUTES = Scale(5, 45, better="lower")


def told(**options: Any) -> Callable[[Log], str]:
    """Return what estimates say in words, the verdict without the numbers that come with it."""

    def words(log: Log) -> str:
        found = estimates(log, **options)
        return "\n".join((found.verdict, *found.notes, *found.assumptions, sentences(found)))

    return words


CLEAR = Log.from_arrays(["a", "b", "c"] * 200, [0.0, 1.0, 0.0] * 200)
EQUAL = Log.from_arrays(["a", "b"] * 500, [1.0, 1.0, 0.0, 0.0] * 250)
CLOSE = Log.from_arrays(["a", "b", "c"] * 300, [0.0, 1.0, 1.0] * 300)
NEARLY = Log.from_arrays(
    ["a", "b"] * 100,
    [float(k % 20 < good) for k in range(100) for good in (11, 9)],
    propensities=[0.5] * 200,
)
LATE = Log.from_arrays(["a", "b"] * 50, [1.0, None, 1.0, 0.0] * 25)
NOTHING = Log.from_arrays([], [], labels=["a", "b"])
LEFT = Log.from_arrays(
    ["a", "b", "c"] * 40, [1.0, 0.0, 1.0] * 40, propensities=[1 / 3] * 120, labels=["a", "b", "c"],
    changes=[(120, "c", False)],
)  # fmt: skip
MANY = Log.from_arrays(list(range(30)) * 4, [0.0, 1.0] * 60)
TWICE = Log.from_arrays(
    ["a", "b"] * 600, [1.0, 0.0] * 300 + [0.0, 1.0] * 300, distributions=[[0.5, 0.5]] * 800 + [[0.6, 0.4]] * 400,
)  # fmt: skip
"""For 600 decisions a is better, then b is; the choice was not always as open."""
PARTLY = Log.from_arrays(
    ["a", "b", "c"] * 40, [1.0, 0.0, 0.0] * 40, distributions=[[0.25, 0.25, 0.5]] * 90 + [[np.nan] * 3] * 30,
)  # fmt: skip
ALONE = Log.from_arrays(
    ["a", "b", "c"] * 200, [1.0, 0.0, 0.0] * 200, distributions=[[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]] * 200,
)  # fmt: skip
EVEN = Log.from_arrays(["a", "b"] * 200, [1.0, 0.0, 0.0, 1.0] * 100, propensities=[0.5] * 400)


def slow(**options: Any) -> Log:
    """Return a log of which replays are refused."""
    return Log.from_arrays(["a", "b"] * 50, [1.0, 0.0] * 50, **options)


def replayed(log: Log, *learners: str) -> str:
    found = replay_log(log, learners or ["uniform"])
    return "\n".join([*found.warnings, *(str(each.refused or each.warning) for each in found.values)])


def reproduced(error: float, *faults: str) -> str:
    return Reproduced("ucb", 1200, error, faults).sentence


def titles(*specs: str) -> str:
    return "\n".join(Environment.find(each).title for each in specs)


def laws(*specs: str) -> str:
    return "\n".join(Delays.find(each).title for each in specs)


def split(learner: str, delays: str = "none", environment: str = "bernoulli:means=[0.3,0.6]") -> str:
    return audit.split(learner, environment, delays, rounds=1000, replications=10).verdict


def designed(**options: Any) -> trial.Design:
    return trial.design(**{"patients": 20, "simulations": 2} | options)


def powered(*more: float) -> str:
    """Return the verdict on a design with so much more power."""
    found = designed(rates=[0.2, 0.9], patients=4, simulations=1, stop="never")
    return dataclasses.replace(found, more_power=Interval(*(np.asarray(each) for each in more))).verdict


def observed(**changes: Any) -> Resampled:
    parts: dict[str, Any] = {"rewards": [0.0, 1.0, 1.0, 1.0], "waits": [1.0] * 4} | changes
    return Resampled(Log.from_arrays(["a", "b", "a", "b"], **parts))


def command(*words: str) -> Case:
    def run(folder: Path) -> None:
        main([*words, *([] if words[0] == "report" else ["--out", str(folder)])])

    return run


def empirical(text: str) -> Case:
    def read(folder: Path) -> object:
        (folder / "delays.txt").write_text(text)
        return Empirical(folder / "delays.txt")

    return read


def damaged(folder: Path) -> None:
    (folder / "league.json").write_text("{}")
    main(["report", str(folder)])


CASES: dict[str, Case] = {
    "estimates: a winner": lambda _: told(control="a")(CLEAR),
    "estimates: equal arms": lambda _: told()(EQUAL),
    "estimates: two better than the control": lambda _: told(control="a")(CLOSE),
    "estimates: not yet": lambda _: told()(NEARLY),
    "estimates: not yet, by betting": lambda _: told(method="betting")(NEARLY),
    "estimates: a winner, fixed shares": lambda _: told(control="a", assigned="uniform")(CLEAR),
    "estimates: a winner, open averages": lambda _: told()(TWICE.head(600)),
    "estimates: a winner that is no more": lambda _: told()(TWICE),
    "estimates: some shares are not known": lambda _: told()(PARTLY),
    "estimates: an arm that is not compared": lambda _: told()(ALONE),
    "estimates: aipw": lambda _: told(method="aipw")(
        Log((0, 1), NEARLY.arms, NEARLY.rewards, NEARLY.propensities, distributions=np.full((200, 2), 0.5))
    ),
    "estimates: settled": lambda _: told()(LATE),
    "estimates: arrived": lambda _: told(outcomes="arrived")(LATE),
    "estimates: bounded": lambda _: told(outcomes="bounded")(LATE),
    "estimates: a deadline": lambda _: told(deadline=10, missing_loss=0.5)(LATE),
    "estimates: a deadline, in minutes": lambda _: told(deadline=10, missing_loss=0.25, scale=MINUTES)(LATE),
    "estimates: bounded, in minutes": lambda _: told(outcomes="bounded", scale=MINUTES)(LATE),
    "estimates: nothing": lambda _: told()(NOTHING),
    "estimates: an arm that left": lambda _: told()(LEFT),
    "estimates: an arm that left, fixed shares": lambda _: told()(
        dataclasses.replace(LEFT, distributions=np.full((120, 3), 1 / 3))
    ),
    "estimates: many arms": lambda _: told()(MANY),
    "estimates: too many arms": lambda _: estimates(
        Log.from_arrays(list(range(33)), [1.0] * 33), method="randomisation"
    ),
    "estimates: no propensities": lambda _: estimates(CLEAR, method="randomisation"),
    "estimates: assigned": lambda _: estimates(CLEAR, assigned="shares"),
    "estimates: assigned, an unknown arm": lambda _: estimates(CLEAR, assigned={"a": 0.5, "d": 0.5}),
    "estimates: assigned, no sum of 1": lambda _: estimates(CLEAR, assigned={"a": 0.5, "b": 0.4}),
    "estimates: assigned besides propensities": lambda _: estimates(NEARLY, assigned="uniform"),
    "estimates: a floor that was not kept": lambda _: estimates(PARTLY, floor=0.3),
    "estimates: floors beyond 1": lambda _: estimates(CLEAR, floor=0.5),
    "estimates: no distributions": lambda _: estimates(NEARLY, method="aipw"),
    "estimates: alpha": lambda _: estimates(CLEAR, alpha=0.0),
    "estimates: an unknown control": lambda _: estimates(CLEAR, control="d"),
    "estimates: not a log": lambda _: estimates("log"),
    "estimates: no trace": lambda _: simulate("ucb", "stochastic", rounds=4, replications=1).estimates(),
    "aipw: a distribution": lambda _: aipw([0, 1], [0.0, 1.0], [[0.5, 0.5], [1.0, 0.0]]),
    "aipw: a sum": lambda _: aipw([0, 1], [0.0, 1.0], [[0.5, 0.5], [0.5, 0.4]]),
    "replay: no propensities": lambda _: replayed(slow()),
    "replay: few decisions": lambda _: replayed(slow(propensities=[0.5] * 100)),
    "replay: propensities of 1": lambda _: replayed(slow(propensities=[1.0] * 100)),
    "replay: an arm without decisions": lambda _: replayed(slow(propensities=[0.5] * 100, labels=["a", "b", "c"])),
    "replay: false propensities": lambda _: replayed(
        Log((0, 1), np.repeat([0, 1], [900, 100]), np.ones(1000), np.full(1000, 0.5)), "damped"
    ),
    "replay: assigned": lambda _: replay_log(EVEN, ["uniform"], assigned="shares"),
    "replay: the same": lambda _: reproduced(0.0),
    "replay: nearly the same": lambda _: reproduced(2e-9),
    "replay: not the same": lambda _: reproduced(0.0, "round 2 has another arm", "round 3 has"),
    "bounds: a delay": lambda _: bounds.Instance(2, [0, -3]),
    "trial: one arm": lambda _: designed(rates=[0.3]),
    "trial: two best arms": lambda _: designed(rates=[0.3, 0.5, 0.5]),
    "trial: neither rates nor outcomes": lambda _: designed(),
    "trial: both": lambda _: designed(rates=[0.1, 0.2], outcomes=observed()),
    "trial: a control without labels": lambda _: designed(rates=[0.1, 0.2], control="a"),
    "trial: a delay besides": lambda _: designed(outcomes=observed(), delay=0),
    "trial: rewards between": lambda _: designed(outcomes=observed(rewards=[0.0, 0.25, 1.0, 0.5])),
    "trial: no best arm": lambda _: designed(outcomes=observed(rewards=[1.0] * 4)),
    "trial: patients": lambda _: trial.design([0.2, 0.3]),
    "trial: batches in a law": lambda _: InPatients(Delays.find("dropout:others=(batches:every=7)"), 2.0).title,
    "trial: a law in patients": lambda _: InPatients(Delays.find("geometric:mean=10"), 2.5).title,
    "trial: a verdict": lambda _: designed(rates=[0.2, 0.9], patients=4, simulations=1).verdict,
    "trial: more power": lambda _: powered(0.05, 0.01, 0.09),
    "trial: less power": lambda _: powered(-0.05, -0.09, -0.01),
    "league: nobody can play": lambda _: LeaguePlan(
        (Cell("mine", "stochastic:arms=2", "byarm:laws=[0,9]", 50),), competitors(["exp3_delayed"]), 2
    ),
    "league: a learner twice": command("league", "--learners", "robust", "robust"),
    "league: no replications": command("league", "--replications", "0"),
    "league: no folder": command("report", "nowhere"),
    "league: a damaged folder": damaged,
    "league: an unknown family": lambda _: suite.within(suite.quick.values(), ["rythm"]),
    "league: a family without cells": lambda _: suite.within(suite.quick.values(), ["rhythm", "trials"]),
    "league: cells that are one's own": lambda _: suite.about("own"),
    "split: yes": lambda _: split("hybrid"),
    "split: implicit exploration": lambda _: split("exp3_ix"),
    "split: delays by loss": lambda _: split("tsallis", "byloss:good=0,bad=never"),
    "split: no leader": lambda _: split("ucb"),
    "delays: negative": lambda _: Delays.find("constant:delay=-1"),
    "delays: a setting is missing": lambda _: Delays.find("constant"),
    "delays: unknown": lambda _: Delays.find("geometrical"),
    "delays: by arm in by loss": lambda _: ByLoss(bad=ByArm([1, 2])),
    "delays: own of none": lambda _: simulate("ucb", "bernoulli:means=[0.2,0.3]", "own", rounds=9, replications=1),
    "delays: told before": lambda _: simulate("exp3_delayed", "stochastic:arms=2", "byarm:laws=[0,9]", rounds=9),
    "delays: no number": empirical("3\nsoon\n"),
    "delays: an empty file": empirical(""),
    "delays: titles": lambda _: laws(
        "none",
        "constant:delay=12",
        "byloss:good=never,bad=(geometric:mean=20)",
        "byarm:laws=[0,5,never]",
        "byarm:laws=[0,0,0,0,0,0,0,0,0,5]",
        "own",
    ),
    "environments: one arm": lambda _: Environment.find("bernoulli:means=[0.5]"),
    "environments: a mean": lambda _: Environment.find("bernoulli:means=[0.5,1.5]"),
    "environments: missing outcomes": lambda _: Resampled(LATE),
    "environments: titles": lambda _: titles(
        "bernoulli:means=[0.5,0.5,0.4]",
        "bernoulli:means=[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.4]",
        "bernoulli:means=[0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1]",
        "revenue:rates=[0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.2]",
        "rhythm:rates=[0.1,0.2],period=70",
        "arms:means=[0.5,0.45,0.4],enter=[0,0,0.5],leave=[1,0.7,1]",
        "arms:means=[0.5,0.45,0.4],enter=[0,0,0.5],leave=[1,0.7,1],anew=true",
    ),
}
