"""Learners against slow, independent scripts (support/reference_algorithms.py): arms exactly, distributions to 1e-9."""

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from belated import Trace
from belated.simulation.simulation import replay
from support import reference_algorithms
from support.sampling import sampled

Problem = tuple[list[list[float]], list[int | None], list[float]]


def compared(learner: str, problem: Problem, reference: reference_algorithms.Run) -> Trace:
    trace = replay(learner, *problem)
    assert trace.arms.tolist() == reference.arms
    np.testing.assert_allclose(trace.distributions, reference.distributions, rtol=1e-9, atol=1e-300)
    return trace


def noise(arms: int, seed: int, rounds: int = 250, longest: int = 20, never: float = 0.1) -> Problem:
    """Losses with one better arm, delays of all kinds, some outcomes that never come."""
    chance = random.Random(seed)
    losses = [[chance.random() * (0.6 if arm == 1 else 1.0) for arm in range(arms)] for _ in range(rounds)]
    delays = [None if chance.random() < never else chance.randrange(longest + 1) for _ in range(rounds)]
    return losses, delays, [chance.random() for _ in range(rounds)]


SCRIPTS: dict[str, Callable[..., reference_algorithms.Run]] = {
    "hybrid": reference_algorithms.hybrid,
    "hybrid:delay_constant=0.3": lambda *problem: reference_algorithms.hybrid(*problem, delay_constant=0.3),
    "hybrid_skipping": reference_algorithms.hybrid_skipping,
    "damped:longest_delay=20": lambda *problem: reference_algorithms.damped(*problem, longest_delay=20.0),
    "damped:longest_delay=0.5": lambda *problem: reference_algorithms.damped(*problem, longest_delay=0.5),
    "queued": reference_algorithms.queued,
    "queued:exploration=0.1": lambda *problem: reference_algorithms.queued(*problem, exploration=0.1),
    "bold": lambda *problem: reference_algorithms.bold(*problem, base="tsallis"),
    "bold:base=exp3": lambda *problem: reference_algorithms.bold(*problem, base="exp3"),
    "exp3_delayed": reference_algorithms.exp3_delayed,
}


@pytest.mark.parametrize(
    ("learner", "arms"), [*((learner, 3) for learner in SCRIPTS), *sampled(product(SCRIPTS, [2, 8]), 4)]
)
def test_every_round(learner: str, arms: int) -> None:
    for seed, longest, never in ((arms, 20, 0.1), (arms + 50, 3, 0.0), (arms + 100, 60, 0.0)):
        problem = noise(arms, seed, longest=longest, never=never)
        reference = SCRIPTS[learner](*problem)
        trace = compared(learner, problem, reference)
        assert len(set(reference.arms)) == arms
        if learner == "hybrid_skipping":
            assert trace.skipped.tolist() == reference.skipped
            assert sum(map(bool, reference.skipped)) > 0 or longest == 3


def changing(
    seed: int, rounds: int, before: list[float], after: list[float], change: int, longest: int, never: float
) -> Problem:
    """Losses near their means, which change after a round."""
    chance = random.Random(seed)
    losses, delays, draws = [], [], []
    for t in range(1, rounds + 1):
        losses.append([0.9 * mean + 0.1 * chance.random() for mean in (before if t <= change else after)])
        delays.append(None if chance.random() < never else chance.randrange(longest + 1))
        draws.append(chance.random())
    return losses, delays, draws


# problem; elimination_widths, phase_constant, regret_constant; what must occur: eliminations, errors, level, hand-over
SAPO: dict[str, tuple[tuple[Any, ...], tuple[float, float, float], tuple[int, int, int, bool]]] = {
    "levels": ((1, 400, [0, 1, 1], [0, 1, 1], 400, 8, 0.05), (0.5, 5, 272), (2, 0, 5, False)),
    "errors": ((1, 400, [0, 1, 1], [0, 1, 1], 400, 8, 0.05), (1, 2, 272), (2, 10, 3, True)),
    "change": ((1, 400, [0, 1, 1], [0.1, 0.7, 1], 240, 8, 0.05), (1.4, 5, 272), (2, 5, 2, False)),
    "long delays": ((3, 500, [0, 1, 1], [0, 1, 0.6], 240, 40, 0.05), (1.2, 4, 272), (2, 5, 2, False)),
    "audit fails": ((1, 400, [0, 1], [1, 0], 200, 8, 0.05), (1.5, 5, 272), (1, 10, 1, True)),
    "last arm": ((1, 400, [0, 1, 1], [1, 0, 0], 200, 8, 0.05), (0.5, 5, 272), (2, 0, 1, True)),
    "regret": ((1, 400, [0, 0.2, 0.3], [1, 1, 1], 150, 3, 0.0), (3, 5, 0.05), (0, 0, 0, True)),
    "bounds": ((1, 900, [0, 0], [1, 1], 200, 8, 0.05), (9, 5, 272), (0, 0, 0, True)),
    "two thirds": ((2, 700, [0, 1], [0, 0.8], 170, 15, 0.05), (1.5, 5, 272), (1, 5, 2, False)),
    "five arms": ((1, 400, [0.1, 0.5, 0.5, 0.9, 0.9], [0.1] * 5, 200, 8, 0.05), (9, 1280, 272), (0, 0, 0, False)),
}


@pytest.mark.parametrize("case", SAPO)
def test_every_round_of_sapo(case: str) -> None:
    settings, (widths, phase, regret), (eliminations, errors, level, handed_over) = SAPO[case]
    problem = changing(*settings)
    constants: dict[str, Any] = {"elimination_widths": widths, "phase_constant": phase, "regret_constant": regret}
    reference = reference_algorithms.sapo(*problem, horizon=400, **constants)
    assert len(reference.eliminated) == eliminations
    assert reference.errors >= errors
    assert reference.levels >= level
    assert (reference.switched > 0) == handed_over
    words = ",".join(f"{name}={value}" for name, value in constants.items())
    trace = compared(f"sapo:horizon=400,{words}", problem, reference)
    if handed_over:  # everything from before is given up on at once, and nothing before that
        assert not trace.skipped[: reference.switched - 1].any()
        assert np.isinf(trace.patience[: reference.switched - 1]).all()
        assert trace.patience[reference.switched - 1] == 1.0
