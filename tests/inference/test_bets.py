"""Bets on the recorded randomisation: the numbers of a plain loop, however long, in any pieces, whoever comes."""

import math
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from belated.core import bets as core
from belated.inference.bets import Bets

STEPS = range(-10, 20)
KAPPAS = [1 / (1 + 2 ** (j / 2)) for j in STEPS]
WEIGHTS = [1 / (1 + ((j - 2) / 5) ** 2) for j in STEPS]
NAN = math.nan


class Rounds(NamedTuple):
    arms: np.ndarray
    rewards: np.ndarray
    chances: np.ndarray


def some_rounds(n_arms: int, rounds: int, floor: float = 0.0, seed: int = 0) -> Rounds:
    """Return decisions whose probabilities move, a tenth of their rewards not known."""
    rng = np.random.default_rng(seed)
    chances = floor + (1 - n_arms * floor) * rng.dirichlet(np.full(n_arms, 0.8), rounds)
    arms = (rng.random(rounds)[:, None] > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    rewards = np.where(rng.random(rounds) < 0.1, NAN, rng.random(rounds) ** (1 + arms))
    return Rounds(arms, rewards, chances)


def log_capital(bets: list[float]) -> float:
    """Return log of the average over kappa of the product of 1 + kappa x."""
    logs = [sum(math.log1p(kappa * x) for x in bets) for kappa in KAPPAS]
    top = max(logs)
    parts = [weight * math.exp(each - top) for weight, each in zip(WEIGHTS, logs, strict=True)]
    return top + math.log(sum(parts) / sum(WEIGHTS))


def worst(factor: float, reward: float, centre: float) -> float:
    """Return factor (y - c), with the y from 0 to 1 at which it is least where y is not known."""
    return min(factor * (y - centre) for y in ([0.0, 1.0] if math.isnan(reward) else [reward]))


def pooled_means(rewards: np.ndarray) -> list[float]:
    """Return c of each decision: the mean of the known rewards before it and of one of 0.5."""
    known = [rewards[:t][~np.isnan(rewards[:t])] for t in range(rewards.size)]
    return [(0.5 + float(each.sum())) / (1 + each.size) for each in known]


def play_weight(p: float, u: float) -> float:
    """Return the largest v up to 1 with v |1 - u / p| <= 1."""
    return min(1.0, 1.0 / abs(1 - u / p)) if p != u else 1.0


def pair_by_hand(rounds: Rounds, a: int, b: int, m: float) -> tuple[float, float, float, float]:
    """Return log E_ab, log E_ba, the sum of v, and that of x with 0.5 for unknown rewards."""
    centres = pooled_means(rounds.rewards)
    forth, back, weight, gain = [], [], 0.0, 0.0
    for arm, y, p, c in zip(*rounds, centres, strict=True):
        omega = p[a] * p[b] / (p[a] + p[b])
        v = omega if not m else m if min(p[a], p[b]) >= m * (1 - 1e-9) else min(m, omega)
        weight += v
        if arm in (a, b):
            factor = v / p[a] if arm == a else -v / p[b]
            forth.append(worst(factor, y, c))
            back.append(worst(-factor, y, c))
            gain += factor * ((0.5 if math.isnan(y) else y) - c)
    return log_capital(forth), log_capital(back), weight, gain


def play_by_hand(rounds: Rounds, instead: list[float], m: float) -> tuple[float, float, float]:
    """Return the logs of both capitals, 'what was played is better than these shares' first, and the sum of v."""
    forth, back, weight = [], [], 0.0
    for arm, y, p, c in zip(*rounds, pooled_means(rounds.rewards), strict=True):
        v = min(m, *(play_weight(share, u) for share, u in zip(p, instead, strict=True) if u))
        factor = v * (1 - instead[arm] / p[arm])
        weight += v
        forth.append(worst(factor, y, c))
        back.append(worst(-factor, y, c))
    return log_capital(forth), log_capital(back), weight


def log_wealth(table: core.Table, row: int, side: int) -> float:
    logs = np.log(table.wealth[row, side]) + table.shifts[row, side] * 256 * math.log(2) + np.log(core.WEIGHTS)
    return float(np.logaddexp.reduce(logs))


def whole(n_arms: int, rounds: Rounds, floors: list[float] | None = None) -> Bets:
    bets = Bets(n_arms, None if floors is None else np.array(floors))
    bets.add(*rounds)
    return bets


def assert_same(one: Bets, other: Bets) -> None:
    others = other.to_arrays()
    for name, array in one.to_arrays().items():
        np.testing.assert_array_equal(array, others[name], name)


FLOORS = [
    (2, None, {(0, 1): 0.0}, 1.0),
    (2, [0.1, 0.05], {(0, 1): 0.05}, 1 / 9),
    (3, None, dict.fromkeys([(0, 1), (0, 2), (1, 2)], 0.0), 1.0),
    (3, [0.1, 0.05, 0.05], {(0, 1): 0.05, (0, 2): 0.05, (1, 2): 0.05}, 0.05 / (1 / 3 - 0.05)),
]
"""How many arms, floors, m of each pair, m of the comparison with uniform play."""


@pytest.mark.parametrize(("n_arms", "floors", "caps", "play_cap"), FLOORS)
def test_capital_against_a_plain_loop(
    n_arms: int, floors: list[float] | None, caps: dict[tuple[int, int], float], play_cap: float
) -> None:
    rounds = some_rounds(n_arms, 300, max(floors) if floors else 0.0)
    bets = whole(n_arms, rounds, floors)
    log_share = -math.log(n_arms - 1)
    for (a, b), m in caps.items():
        forth, back, weight, gain = pair_by_hand(rounds, a, b, m)
        assert bets.evidence(a, b) == pytest.approx(forth + log_share, abs=1e-9)
        assert bets.evidence(b, a) == pytest.approx(back + log_share, abs=1e-9)
        assert bets.weight(a, b) == bets.weight(b, a) == pytest.approx(weight, abs=1e-9)
        assert bets.difference(a, b) == -bets.difference(b, a) == pytest.approx(gain / weight, abs=1e-9)
        assert bets.is_plain(a, b) == (floors is not None)
        if floors is not None:
            assert weight == pytest.approx(300 * m)
    ways = [[1 / n_arms] * n_arms, *np.eye(n_arms).tolist()]
    for row, (instead, m) in enumerate(
        zip(ways, [play_cap, *(play_weight(f, 1.0) for f in floors or [1.0] * n_arms)], strict=True)
    ):
        forth, back, weight = play_by_hand(rounds, instead, m)
        assert log_wealth(bets.state.plays, row, 0) == pytest.approx(forth, abs=1e-9)
        assert log_wealth(bets.state.plays, row, 1) == pytest.approx(back, abs=1e-9)
        assert bets.state.plays.sums[row, core.WEIGHT] == pytest.approx(weight, abs=1e-9)


def test_own_means_against_a_plain_loop() -> None:
    """Of each arm, from its mean reward so far; the interval ends where the capital would have been what is needed."""
    rounds = some_rounds(3, 300)
    bets = whole(3, rounds)
    lows, highs = bets.means(np.full(3, 2.0))
    for arm in range(3):
        rewards = rounds.rewards[rounds.arms == arm]
        centres = pooled_means(rewards)
        played = len(centres)
        for side, ends in ((1.0, lows), (-1.0, highs)):
            xs = [worst(side, y, c) for y, c in zip(rewards, centres, strict=True)]
            assert log_wealth(bets.state.arms, arm, int(side < 0)) == pytest.approx(log_capital(xs), abs=1e-9)
            s = side * (ends[arm] * played - sum(centres))
            logs = [sum(math.log1p(kappa * x) for x in xs) - kappa * s for kappa in KAPPAS]
            terms = [weight * math.exp(each) for weight, each in zip(WEIGHTS, logs, strict=True)]
            assert math.log(sum(terms) / sum(WEIGHTS)) == pytest.approx(2.0, abs=1e-6)


def test_intervals_of_differences_end_where_the_capital_is_what_is_needed() -> None:
    rounds = some_rounds(2, 300)
    bets = whole(2, rounds)
    (low,), (high,) = bets.differences([(0, 1)], np.array([3.0]))
    (mirrored_low,), (mirrored_high,) = bets.differences([(1, 0)], np.array([3.0]))
    assert (mirrored_low, mirrored_high) == (-high, -low)
    table = bets.state.pairs
    for side, end in ((0, low), (1, -high)):
        logs = np.log(table.wealth[0, side]) + table.shifts[0, side] * core.LOG_UNIT
        terms = np.log(core.WEIGHTS) + logs - core.KAPPAS * end * bets.weight(0, 1)
        assert np.logaddexp.reduce(terms) == pytest.approx(3.0, abs=1e-6)
    assert -1 < low < bets.difference(0, 1) < high < 1


def test_wealth_neither_overflows_nor_underflows() -> None:
    """200,000 decisions in which arm 0 always wins: some bets end near e^43,000, others near e^-57,000."""
    size = 200_000
    arms = np.arange(size) % 2
    rewards = 1.0 - arms
    bets = whole(2, Rounds(arms, rewards, np.full((size, 2), 0.5)))
    count = np.arange(size)
    centres = (0.5 + np.cumsum(rewards) - rewards) / (1.0 + count)
    x = np.where(arms == 0, 0.5, -0.5) * (rewards - centres)
    for a, b, sign in ((0, 1, 1.0), (1, 0, -1.0)):
        logs = np.array([np.log1p(sign * kappa * x).sum() for kappa in KAPPAS])
        log_weights = np.log(np.array(WEIGHTS) / sum(WEIGHTS))
        assert bets.evidence(a, b) == pytest.approx(np.logaddexp.reduce(logs + log_weights), rel=1e-9)
        table = bets.state.pairs
        kept = np.log(table.wealth[0, int(sign < 0)]) + table.shifts[0, int(sign < 0)] * core.LOG_UNIT
        np.testing.assert_allclose(kept, logs, rtol=1e-9)
    assert bets.evidence(0, 1) > 40_000
    assert bets.evidence(1, 0) < -50
    lows, highs = bets.differences([(0, 1)], np.array([3.0]))
    assert 0.99 < lows[0] <= 1.0 == highs[0]  # as little is left to chance


@pytest.mark.parametrize("size", [1, 63, 64, 65, 250])
@pytest.mark.parametrize("floors", [None, [0.05, 0.05, 0.05]])
def test_pieces_copies_and_arrays_give_the_same_bits(size: int, floors: list[float] | None) -> None:
    rounds = some_rounds(3, 300, 0.05)
    rounds.chances[40:60] = NAN
    rounds.chances[np.arange(40, 60), rounds.arms[40:60]] = 0.4
    bets = Bets(3, None if floors is None else np.array(floors))
    for number, begin in enumerate(range(0, 300, size)):
        piece = slice(begin, begin + size)
        bets.add(*(each[piece] for each in rounds))
        if number % 40 == 3:
            bets = bets.copy()
        if number % 40 == 30:
            bets = Bets.from_arrays(bets.to_arrays())
    assert_same(bets, whole(3, rounds, floors))
    assert bets.blind == (20 if floors is None else 0)
    assert (bets.first_arms, bets.decisions) == (3, 300)


def test_a_copy_is_its_own() -> None:
    rounds = some_rounds(2, 50)
    bets = whole(2, rounds, [0.0, 0.0])
    copy, before = bets.copy(), bets.to_arrays()
    copy.add(*rounds)
    copy.grow()
    copy.change(2, True)
    for name, array in bets.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], name)


def test_with_floors_the_propensity_of_the_chosen_arm_is_enough() -> None:
    """x = m ([a] / p_a - [b] / p_b) (y - c): all decisions weigh the same, though nobody knows the other shares."""
    rounds = some_rounds(3, 200, 0.1)
    own = rounds.chances[np.arange(200), rounds.arms]
    rounds.chances[:] = NAN
    rounds.chances[np.arange(200), rounds.arms] = own
    bets = whole(3, rounds, [0.1, 0.1, 0.1])
    centres = pooled_means(rounds.rewards)
    for a, b in ((0, 1), (2, 0), (1, 2)):
        xs = [
            worst((0.1 if arm == a else -0.1) / p, y, c)
            for arm, y, p, c in zip(rounds.arms, rounds.rewards, own, centres, strict=True)
            if arm in (a, b)
        ]
        assert bets.evidence(a, b) == pytest.approx(log_capital(xs) - math.log(2), abs=1e-9)
        assert bets.weight(a, b) == pytest.approx(200 * 0.1)
        assert bets.is_plain(a, b)
    blind = whole(3, rounds)
    assert (blind.blind, blind.compared) == (200, False)


def test_floors_of_arms_that_left_guarantee_nothing_for_uniform_play() -> None:
    """Of four arms with floors of 0.05 one leaves: uniform play of three takes 1/3 of each, and x stays within 1."""
    bets = Bets(4, np.full(4, 0.05))
    bets.change(3, False)
    chances = np.full((200, 4), NAN)
    arms = np.arange(200) % 3
    own = np.where(np.arange(200) < 100, 0.05, 0.5)
    chances[np.arange(200), arms] = own
    bets.add(arms, (arms != 0).astype(float), chances)
    assert bets.state.plays.sums[0, core.WEIGHT] == pytest.approx(200 * 0.05 / (1 / 3 - 0.05))
    assert (bets.state.plays.wealth > 0.0).all()
    assert bets.is_play_plain(None)  # less than with four arms, but the same at each decision
    rounds = Rounds(arms, (arms != 0).astype(float), np.repeat(own[:, None], 3, axis=1))
    forth, back, _ = play_by_hand(rounds, [1 / 3] * 3, play_weight(0.05, 1 / 3))
    assert log_wealth(bets.state.plays, 0, 0) == pytest.approx(forth, abs=1e-9)
    assert log_wealth(bets.state.plays, 0, 1) == pytest.approx(back, abs=1e-9)


def test_averages_are_plain_only_while_each_decision_weighs_the_same() -> None:
    bets = whole(2, Rounds(np.array([0, 1]), np.array([1.0, 0.0]), np.array([[0.2, 0.8], [0.7, 0.3]])), [0.2, 0.2])
    assert bets.is_plain(0, 1)
    blind = bets.copy()
    bets.add(np.array([1]), np.array([1.0]), np.array([[0.19, 0.81]]))
    assert not bets.is_plain(0, 1)
    blind.add(np.array([1]), np.array([1.0]), np.array([[NAN, NAN]]))
    assert blind.blind == 1
    assert not blind.is_plain(0, 1)


def test_floors_are_taken_before_the_first_decision_only() -> None:
    bets = Bets(2)
    bets.guarantee(np.array([0.2, 0.2]))
    assert bets.state.caps[0, 1] == pytest.approx(0.2)
    rounds = some_rounds(2, 5, 0.2)
    bets.add(*rounds)
    bets.guarantee(np.array([0.3, 0.3]))
    assert_same(bets, whole(2, rounds, [0.2, 0.2]))


def parts_against(bets: Bets, b: int) -> float:
    """Return all wealth against an arm, as parts of what it began with: of all arms that ever were."""
    others = np.flatnonzero(bets.ever & (np.arange(bets.ever.size) != b))
    return math.exp(bets.against(b, others))


def test_a_newcomer_takes_its_part_of_the_wealth_that_there_is() -> None:
    """Wealth against each arm is shared anew, and never grows, when an arm comes; one that comes back has its own."""
    rng = np.random.default_rng(3)
    bets = Bets(3)
    for n_arms in range(3, 9):
        shares = rng.dirichlet(np.full(n_arms, 2.0), 300)
        shares[:, ~bets.present] = 0.0
        shares /= shares.sum(axis=1, keepdims=True)
        arms = (rng.random(300)[:, None] > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
        bets.add(arms, (rng.random(300) < np.linspace(0.1, 0.9, n_arms)[arms]).astype(float), shares)
        if n_arms == 4:
            bets.change(1, False)
        if n_arms == 6:
            scales = bets.state.scales.copy()
            bets.change(1, True)
            np.testing.assert_array_equal(bets.state.scales, scales)
        before = [parts_against(bets, b) for b in range(n_arms)]
        bets.grow()
        bets.change(n_arms, True)
        count = int(np.count_nonzero(bets.present))
        for b in range(n_arms):
            assert parts_against(bets, b) <= before[b] * (1 + 1e-12)
            assert parts_against(bets, b) == pytest.approx(before[b])
            assert 0.0 < math.exp(bets.evidence(n_arms, b)) <= 1 / (count - 1) * (1 + 1e-12)
        assert parts_against(bets, n_arms) == pytest.approx(1.0)
    assert bets.needed(0.05) == pytest.approx(math.log(3 / (2 * 0.05)))


def test_at_first_each_arm_bets_with_an_equal_part() -> None:
    bets = Bets(5)
    for b in range(5):
        assert parts_against(bets, b) == pytest.approx(1.0)
        assert [bets.evidence(a, b) for a in range(5) if a != b] == [-math.log(4)] * 4


def test_it_does_not_matter_how_early_a_coming_is_noted() -> None:
    """Room that is made before its time changes neither floors nor parts."""
    rounds = some_rounds(3, 100, 0.1)
    own = rounds.chances[np.arange(100), rounds.arms]
    rounds.chances[:] = NAN
    rounds.chances[np.arange(100), rounds.arms] = own
    late, early = Bets(3, np.full(3, 0.1)), Bets(3, np.full(3, 0.1))
    for _ in range(2):
        early.grow()
    wide = np.pad(rounds.chances, ((0, 0), (0, 2)))
    late.add(*rounds)
    early.add(rounds.arms, rounds.rewards, wide)
    assert early.blind == late.blind == 0
    late.grow()
    for bets in (late, early):
        bets.change(3, True)
    late.grow()
    assert_same(late, early)
    for bets in (late, early):
        bets.change(4, True)
        bets.add(rounds.arms, rounds.rewards, wide)
    assert_same(late, early)
    assert late.blind == 100  # the newcomers have no floor


PLAIN = """
import numpy as np
from belated.inference.bets import Bets

rng = np.random.default_rng(4)
bets = Bets(3, np.full(3, 0.1))
shares = 0.1 + 0.7 * rng.dirichlet(np.ones(3), 150)
bets.add(rng.integers(0, 3, 150), np.where(rng.random(150) < 0.1, np.nan, rng.random(150)), shares)
print(bets.to_arrays()["numbers"].tobytes().hex())
"""


def test_without_a_compiler_the_numbers_are_the_same() -> None:
    found = []
    for without in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", PLAIN],
            env={**os.environ, "NUMBA_DISABLE_JIT": without},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        found.append(np.frombuffer(bytes.fromhex(run.stdout.strip())))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
