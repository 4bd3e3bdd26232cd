"""How often intervals of values from logs hold: the tables of docs/replay.md.

    python experiments/off_policy.py                # about ten minutes; --logs 50 for a glance

Fixed targets on logs of learners, whose propensities follow outcomes: the intervals of `value_of`, and those that take
rows as independent. Learners on logs of a uniform split: the intervals of `learner_values`.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from belated import Bandit, simulate
from belated.environments import Bernoulli
from belated.inference import Estimate
from belated.logs import Log
from belated.replay import Range, learner_values, value_of
from belated.replay.values import METHODS
from belated.report.tables import markdown_table

ALPHA = 0.05
MEANS = np.array([0.3, 0.4, 0.6])
TARGETS = {"mostly the best arm": [0.1, 0.3, 0.6], "all alike": [1 / 3, 1 / 3, 1 / 3], "the worst arm": [1.0, 0.0, 0.0]}
ROWS = 1500
LOGGED_BY = (("thompson", 0.0), ("thompson", 0.03), ("thompson", 0.1), ("guarded", 0.0))
"""Learners, and the least share of each arm."""
SPLITS = (
    ("thompson", 1500, (0.3, 0.4, 0.5), 99),
    ("guarded", 1500, (0.3, 0.4, 0.5), 99),
    ("ucb", 1500, (0.3, 0.4, 0.5), 99),
    ("thompson", 1000, (0.4, 0.6), 19),
    ("ucb", 1000, (0.2, 0.7), 49),
    ("thompson", 400, (0.3, 0.5), 9),
    ("ucb", 400, (0.3, 0.5), 9),
)
"""Learner, rows of the log, means of its arms, longest delay."""


def log_of_a_learner(learner: str, floor: float, seed: int) -> Log:
    """Return what a learner decided, with outcomes that came at once."""
    rng = np.random.default_rng([11, seed])
    bandit = Bandit(MEANS.size, learner, seed=seed, **({"share_floor": floor} if floor else {}))  # type: ignore[arg-type]
    arms, propensities, rewards = np.empty(ROWS, dtype=np.int64), np.empty(ROWS), np.empty(ROWS)
    for t in range(ROWS):
        decision = bandit.decide()
        arms[t], propensities[t] = decision.arm, decision.propensity
        rewards[t] = float(rng.random() < MEANS[arms[t]])
        bandit.observe(decision, reward=rewards[t])
    return Log((0, 1, 2), arms, rewards, propensities)


def of_targets(logs: int) -> Iterator[list[str]]:
    """Yield a row for each way of logging and each target: how often intervals hold, and how wide they are."""
    for learner, floor in LOGGED_BY:
        made = [log_of_a_learner(learner, floor, seed) for seed in range(logs)]
        for name, target in TARGETS.items():
            truth = float(MEANS @ target)
            told = [value_of(log, np.array(target), alpha=ALPHA).estimates["ips"] for log in made]
            independent = [value_of(log, np.array(target), alpha=ALPHA, adaptive=False) for log in made]
            unwarned = [each.estimates["ips"] for each in independent if each.warning is None]
            width = np.median([each.high - each.low for each in told])
            yield [
                f"{learner}, share_floor {floor:g}" if floor else learner,
                name,
                holding(told, truth),
                f"{width:.2f}",
                f"{holding(unwarned, truth)} of {len(unwarned)}" if unwarned else "all warned of",
            ]


def of_learners(logs: int) -> Iterator[list[str]]:
    """Yield a row for each learner and kind of log: how often the intervals of its value hold."""
    for learner, rows, means, longest in SPLITS:
        arms, rounds = len(means), rows // len(means)
        live = simulate(
            [learner],
            Bernoulli([1.0 - each for each in means]),
            f"uniform:low=0,high={longest}",
            rounds=rounds,
            replications=8000,
            checkpoints=[rounds],
        )
        truth = max(means) - live.regret[0, :, -1].mean() / rounds
        found = []
        for seed in range(logs):
            rng = np.random.default_rng([7, seed])
            chosen = rng.integers(0, arms, rows)
            rewards = (rng.random(rows) < np.array(means)[chosen]).astype(float)
            waits = rng.integers(0, longest + 1, rows).astype(float)
            log = Log(tuple(range(arms)), chosen, rewards, np.full(rows, 1.0 / arms), waits)
            found.append(learner_values(log, [learner], alpha=ALPHA, seed=seed)[0])
        shares = [holding([each.estimates[method] for each in found], truth) for method in METHODS]
        gains = [each.gain for each in found if each.gain is not None]
        shares.append(holding(gains, truth - float(np.mean(means))))
        yield [learner, f"{rows:,}", ", ".join(f"{each:g}" for each in means), *shares]


def holding(told: list[Estimate] | list[Estimate | Range], truth: float) -> str:
    """Return the share of intervals that hold the truth."""
    return f"{100 * np.mean([each.low <= truth <= each.high for each in told]):.1f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=400, help="logs of each kind")
    asked = parser.parse_args()
    header = ["logged by", "target", "holds", "width", "rows as independent"]
    print(markdown_table(header, list(of_targets(asked.logs))))
    print()
    print(markdown_table(["learner", "rows", "means of the arms", *METHODS, "gain"], list(of_learners(asked.logs))))
