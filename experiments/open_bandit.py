"""Off-policy estimates on the Open Bandit sample, held against what was measured on-policy and against obp.

    python experiments/open_bandit.py

The sample has 10,000 rows for each of three campaigns, chosen uniformly (random) and by Thompson sampling (bts). The
value of each policy is estimated from the other policy's rows by each estimator. obp's numbers for the same rows and
policies, and the distribution that it computes for Thompson sampling, are in tests/data/obp.json. The rows are read
from the installed package obp (`pip install --no-deps obp`).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from belated.inference import Estimate
from belated.logs.public import read_open_bandit
from belated.replay.off_policy import ESTIMATORS, OffPolicy, Range, off_policy, weighted
from belated.replay.values import METHODS, learner_values

REFERENCE = Path(__file__).parent.parent / "tests" / "data" / "obp.json"
CAMPAIGNS = ("all", "men", "women")
DIRECTIONS = (("random", "bts"), ("bts", "random"))
LEARNERS = ("guarded", "thompson", "klucb", "ucb", "uniform")


def reference() -> dict[str, object]:
    """Return obp's numbers."""
    found: dict[str, object] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return found


def estimate(campaign: str, logged: str, target: str, thompson: object) -> OffPolicy:
    """Return what one policy is worth by the rows of the other. The predictions of dr are the means of the items."""
    log, positions = read_open_bandit(campaign, logged)
    items = len(log.labels)
    policy = np.full((3, items), 1.0 / items) if target == "random" else np.array(thompson).T
    policy = policy / policy.sum(axis=1, keepdims=True)
    counts = np.maximum(np.bincount(log.arms, minlength=items), 1)
    means = np.bincount(log.arms, log.rewards, minlength=items) / counts
    return off_policy(log.rewards, *weighted(log, policy[positions], means=means))  # items never shown count, as in obp


def lines() -> Iterator[str]:
    """Yield the tables of docs/replay.md."""
    known = reference()
    thompson: dict[str, object] = known["thompson"]  # type: ignore[assignment]
    results: list[dict[str, object]] = known["values"]  # type: ignore[assignment]
    theirs = {(each["campaign"], each["from"], each["estimator"]): each["value"] for each in results}
    yield "| campaign | rows of | value of | on-policy | estimator | estimate, 95 % | off obp by | effective size |"
    yield "|---|---|---|---:|---|---:|---:|---:|"
    for campaign in CAMPAIGNS:
        for logged, target in DIRECTIONS:
            found = estimate(campaign, logged, target, thompson[campaign])
            measured = read_open_bandit(campaign, target).log.rewards.mean()
            for name in ESTIMATORS:
                value = found.estimates[name]
                off = abs(value.value - float(theirs[campaign, logged, name]))  # type: ignore[arg-type]
                star = " \\*" if found.warning else ""
                cells = (campaign, logged, target, f"{measured:.4f}", f"{name}{star}", _shown(value), f"{off:.0e}")
                yield f"| {' | '.join(cells)} | {found.effective_size:,.0f} |"
    yield ""
    yield f"| campaign | learner | rounds | {' | '.join(METHODS)} |"
    yield f"|---|---|---:|{'---:|' * len(METHODS)}"
    for campaign in CAMPAIGNS:
        for each in learner_values(read_open_bandit(campaign).log, LEARNERS):
            star = " \\*" if each.warning else ""
            values = " | ".join(_shown(each.estimates[name]) for name in METHODS)
            yield f"| {campaign} | {each.learner}{star} | {each.rounds:,.0f} | {values} |"


def _shown(value: Estimate | Range) -> str:
    if isinstance(value, Range):
        return f"{value.low:.4f}–{value.high:.4f}"
    return f"{value.value:.4f} ({value.low:.4f}–{value.high:.4f})"


if __name__ == "__main__":
    for line in lines():
        print(line)
