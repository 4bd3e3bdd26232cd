"""Statements measure what they say: each against its definition, pair by pair and round by round."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated import Trace, learners
from belated.audit import audit
from belated.audit.lemmas import summation_constant
from belated.simulation.simulation import replay
from support.audited import NAMES

# What is measured, by definition


def by_definition(trace: Trace, constant: float) -> dict[str, tuple[float, float]]:
    """(measured, bound) of every statement about waiting, straight from what it says."""
    rounds, arms = trace.distributions.shape
    everyone = range(1, rounds + 1)
    weight = arms ** (2 / 3) * math.log(arms)
    given_up = {int(s): t for t, s in enumerate(trace.skipped, 1) if s}
    ended = {s: given_up.get(s, s + int(trace.delays[s - 1])) for s in everyone}
    wait = {s: min(ended[s], rounds) - s for s in everyone}
    sigma = {t: int(trace.outstanding[t - 1]) for t in everyone}
    total = {t: sum(sigma[r] for r in range(1, t + 1)) for t in everyone}
    most = {t: max(sigma[r] for r in range(1, t + 1)) for t in everyone}
    patience = {t: float(trace.patience[t - 1]) for t in everyone}

    def explored(s: int, t: int) -> float:
        now, then = total[min(t, rounds)], total[s]
        return math.exp(-now / (now - then)) if now > then else 0.0

    def overdue(t: int) -> int:
        return sum(
            s < t and t - s >= patience[t] and (ended[s] > t or (ended[s] == t and s in given_up)) for s in everyone
        )

    come = {t: sum(ended[s] == t for s in everyone) for t in everyone}
    taken: set[int] = set()
    beyond = 0
    for t in everyone:
        for s in everyone:
            if ended[s] == t:
                place = next(r for r in range(t, 3 * rounds) if r not in taken)
                taken.add(place)
                beyond = max(beyond, place - t - most[t])
    cut = np.array([min(int(trace.delays[s - 1]), rounds - s) for s in everyone])
    sets = np.arange(2**rounds)[:, None] >> np.arange(rounds) & 1
    least = float((sets.sum(axis=1) + np.sqrt(weight * ((1 - sets) @ cut))).min())
    in_turn = sorted(given_up, key=given_up.__getitem__)
    return {
        "count": (max(abs(sigma[t] - sum(s < t <= ended[s] for s in everyone)) for t in everyone), 0.0),
        "growth": (max(0.0, *(patience[t] - patience[t + 1] for t in everyone if t < rounds), 0.0), 0.0),
        "one skip": (max(max(overdue(t), list(given_up.values()).count(t)) for t in everyone), 1.0),
        "few outstanding": (max(sigma[t] / (patience[t] + 1.0) for t in everyone), 1.0),
        "doubling": (
            max(
                1.0 if total[t] == 0 else total[t] / total[s] if total[s] else math.inf
                for t in everyone
                for s in range(1, t + 1)
                if t - s <= patience[t]
            ),
            2.0,
        ),
        "arrivals": (
            max(
                (come[t] - 1) * math.sqrt(math.log(arms) / (constant * total[t])) if come[t] > 1 else 0.0
                for t in everyone
            ),
            1.0,
        ),
        "total wait": (max(sum(wait[s] for s in range(1, t + 1)) / (2 * total[t] + 1) for t in everyone), 1.0),
        "summation": (
            sum(explored(s, s + wait[s]) + explored(s, s + wait[s] + most[s]) for s in everyone) / max(most[rounds], 1),
            8 / (weight * math.log(arms)) + 4 / math.log(49) + 12 / math.log(9),
        ),
        "rearrangement": (beyond, 0.0),
        "skips": (max((m / (2 * constant * weight * wait[s]) for m, s in enumerate(in_turn, 1)), default=0.0), 1.0),
        "kept delay": (math.sqrt(total[rounds] * weight), max(least, 7 / 6 * weight)),
    }


@settings(max_examples=80, deadline=None)
@given(
    delays=st.lists(st.none() | st.integers(0, 12), min_size=1, max_size=11),
    arms=st.integers(2, 4),
    constant=st.sampled_from([49.0, 1.0, 0.05, 0.001]),
    seed=st.integers(0, 2**32 - 1),
    spoil=st.sampled_from(["nothing", "outstanding", "patience"]),
)
def test_statements_measure_what_they_say(
    delays: list[int | None], arms: int, constant: float, seed: int, spoil: str
) -> None:
    """On whatever robust does, and on what it did with counts or patience of somebody else's."""
    rng = np.random.default_rng(seed)
    rounds = len(delays)
    trace = replay(
        learners.tune("robust", delay_constant=constant),
        rng.random((rounds, arms)),
        delays,
        rng.random(rounds).tolist(),
    )
    if spoil == "outstanding":
        trace = dataclasses.replace(trace, outstanding=rng.integers(1, 5, rounds))
    if spoil == "patience":
        trace = dataclasses.replace(trace, patience=rng.random(rounds) * 8.0)
    found = audit.check(trace, constant)
    expected = by_definition(trace, constant)
    assert set(expected) == set(NAMES) - {"drift control"}
    for name, (measured, bound) in expected.items():
        assert found[name].measured == pytest.approx(measured, rel=1e-12, abs=1e-12), name
        assert found[name].bound == pytest.approx(bound, rel=1e-12), name


def test_the_constant_of_the_summation_bound() -> None:
    assert summation_constant(8) == pytest.approx(2.0 / math.log(8) ** 2 + 4.0 / math.log(49) + 12.0 / math.log(9))
