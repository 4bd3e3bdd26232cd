"""Means by age: buckets, blocks, every estimate against one that keeps every decision, and what they are good for."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from belated.learners import by_age

Floats = NDArray[np.float64]


class Table:
    """A table at work, as a learner drives it."""

    def __init__(self, arms: int) -> None:
        self.arms = arms
        self.numbers = np.zeros(by_age.size(arms))

    def decided(self, shares: Iterable[float]) -> None:
        """A round whose decision is shared among the arms: 1 for one of them, or the same parts in every round."""
        self.numbers[by_age.at(self.arms, by_age.OPEN) :][: self.arms] += list(shares)

    def came(self, arm: int, loss: float, delay: int) -> None:
        by_age.add(self.numbers, self.arms, arm, loss, float(delay))

    def estimate(self, now: int) -> None:
        by_age.estimate(self.numbers, self.arms, float(now))

    def of(self, field: int) -> Floats:
        first = by_age.at(self.arms, field)
        return self.numbers[first : first + self.arms]

    @property
    def blocks(self) -> list[tuple[int, int, Floats]]:
        """First and last round and the decisions of each arm, the oldest block first."""
        first = by_age.size(self.arms) - by_age.MOST_BLOCKS * (2 + self.arms)
        rows = self.numbers[first:].reshape(by_age.MOST_BLOCKS, 2 + self.arms)[: int(self.numbers[by_age.N_BLOCKS])]
        return [(int(row[0]), int(row[1]), row[2:].copy()) for row in rows]


def usual_rounds(last: int) -> Iterable[int]:
    """The rounds in which a learner estimates."""
    now = 2
    while now <= last:
        yield now
        now += max(1, now // 64)


# Buckets.


def edges() -> list[float]:
    return [by_age.edge(b) for b in range(by_age.BUCKETS)]


def test_buckets_are_two_for_each_doubling() -> None:
    assert edges()[:13] == [0, 1, 2, 3, 4, 5, 8, 11, 16, 22, 32, 45, 64]
    assert edges()[4::2] == [2.0**n for n in range(2, by_age.BUCKETS // 2)]
    assert edges()[5::2] == [math.isqrt(2 ** (2 * n + 1)) for n in range(2, by_age.BUCKETS // 2)]


def test_every_delay_lies_in_its_bucket() -> None:
    ends = [*edges()[1:], math.inf]
    near = {2**n + more for n in range(1, 60) for more in range(-2, 3)}
    near |= {math.isqrt(2 ** (2 * n + 1)) + more for n in range(1, 55) for more in range(-2, 3)}
    for delay in sorted(set(range(5001)) | near):
        bucket = by_age.bucket_of(float(delay))
        assert edges()[bucket] <= delay < ends[bucket]


# Blocks.


def rounds_of(kind: str, last: int) -> Iterable[int]:
    if kind == "usual":
        return usual_rounds(last)
    if kind == "every":
        return range(2, last + 1)
    rng = np.random.default_rng(8)
    return np.unique(np.concatenate([rng.integers(2, last, 300), np.geomspace(2, last, 100).astype(int)])).tolist()


@pytest.mark.parametrize(("kind", "last"), [("usual", 1_000_000), ("every", 1500), ("random", 100_000)])
def test_every_decision_is_in_one_block_whatever_is_merged(kind: str, last: int) -> None:
    """Blocks follow each other from the first round to the last; what was merged is at most a quarter as long as it is
    old; memory stays as it was.
    """
    rng = np.random.default_rng(3)
    arms = rng.integers(0, 3, last)
    made = np.concatenate([np.zeros((1, 3)), np.cumsum(np.eye(3)[arms], axis=0)]) if last <= 100_000 else None
    table = Table(3)
    size = table.numbers.size
    counted, most, pieces = 0, 0, set()
    for now in rounds_of(kind, last):
        table.decided(np.bincount(arms[counted : now - 1], minlength=3))
        pieces.add((counted + 1, now - 1))
        counted = now - 1
        by_age._close_block(table.numbers, 3, float(now))
        blocks = table.blocks
        most = max(most, len(blocks))
        assert [first for first, _, _ in blocks] == [1, *(end + 1 for _, end, _ in blocks[:-1])]
        assert blocks[-1][1] == now - 1
        for first, end, decisions in blocks:
            assert (first, end) in pieces or end - first + 1 <= (now - end) / 4
            if made is not None:
                assert decisions.tolist() == (made[end] - made[first - 1]).tolist()
        assert sum(decisions.sum() for *_, decisions in blocks) == now - 1
    assert not table.of(by_age.OPEN).any()
    assert table.numbers.size == size
    assert most <= {"usual": 30, "every": 60, "random": 60}[kind]
    if kind == "usual":  # what is older than a few rounds was merged as far as it may
        assert len(blocks) < 25


def test_blocks_are_merged_as_soon_as_they_may() -> None:
    """Two rounds make one block when the second is eight rounds old: from round 10 on."""
    table = Table(2)
    for now in range(2, 12):
        table.decided([1.0, 0.0])
        by_age._close_block(table.numbers, 2, float(now))
        spans = [(first, end) for first, end, _ in table.blocks]
        singles = [(s, s) for s in range(1, now)]
        assert spans == (singles if now < 10 else [(1, 2), *singles[2:]])


def test_where_there_is_no_room_the_two_oldest_blocks_become_one() -> None:
    """As many blocks as there may be, each a fifth as long as it is old: none of them would merge otherwise."""
    lengths = [1] * 5
    while len(lengths) < by_age.MOST_BLOCKS:
        lengths.append(sum(lengths) // 5 + 1)
    ends = np.cumsum(lengths[::-1])
    table = Table(2)
    table.numbers[by_age.N_BLOCKS] = by_age.MOST_BLOCKS
    table.numbers[by_age.COUNTED] = ends[-1]
    rows = table.numbers[by_age.size(2) - 4 * by_age.MOST_BLOCKS :].reshape(-1, 4)
    rows[:, 0], rows[:, 1] = ends - lengths[::-1] + 1, ends
    rows[:, 2] = np.arange(by_age.MOST_BLOCKS)
    rows[:, 3] = 1000 + np.arange(by_age.MOST_BLOCKS)
    table.decided([7.0, 8.0])
    by_age._close_block(table.numbers, 2, float(ends[-1] + 2))
    blocks = table.blocks
    assert len(blocks) <= by_age.MOST_BLOCKS
    assert blocks[0][:2] == (1, ends[1])
    assert blocks[0][2].tolist() == [1.0, 2001.0]
    assert blocks[-1][2].tolist() == [7.0, 8.0]
    assert [first for first, *_ in blocks] == [1, *(end + 1 for _, end, _ in blocks[:-1])]
    whole = np.arange(by_age.MOST_BLOCKS).sum()
    assert sum(made[0] for *_, made in blocks) == whole + 7
    assert sum(made[1] for *_, made in blocks) == whole + 1000 * by_age.MOST_BLOCKS + 8


# Every estimate, from every decision.


class Kept(NamedTuple):
    """All that has happened."""

    shares: list[list[float]]
    """Of each round, from the first one."""
    outcomes: list[tuple[int, float, int]]
    """(arm, loss, delay)"""


class Estimates(NamedTuple):
    """What the docstring defines."""

    share: Floats
    loss: Floats
    square: Floats
    delay: Floats
    dependence: float
    arrived: float
    c: float
    fair: float
    mean: Floats
    weight: Floats
    spread: float
    mean_loss: float


def by_formula(kept: Kept, now: int, blocks: list[tuple[int, int, Floats]] | None = None) -> Estimates:
    """The estimates of round `now` from every decision and every outcome. Ripe decisions are counted by block, where
    blocks are given.
    """
    made = np.array(kept.shares[: now - 1])
    arms = made.shape[1]
    ages = now - np.arange(1, now)
    ends = [*edges()[1:], 4.0 * edges()[-1]]
    share, loss, square, delay, rough = (np.zeros(arms) for _ in range(5))
    n, total, squares = (np.zeros(arms) for _ in range(3))
    between = filled = 0.0
    for arm, value, _ in kept.outcomes:
        n[arm] += 1
        total[arm] += value
        squares[arm] += value**2
    for lo, hi in zip(edges(), ends, strict=True):
        inside = [each for each in kept.outcomes if lo <= each[2] < hi]
        had_time = np.clip((ages - lo) / (hi - lo), 0.0, 1.0) @ made
        for arm in {arm for arm, *_ in inside}:
            values = np.array([value for which, value, _ in inside if which == arm])
            r = max(had_time[arm], values.size)
            share[arm] += values.size / r
            loss[arm] += values.sum() / r
            square[arm] += (values**2).sum() / r
            rough[arm] += values.size / r**2
            delay[arm] += values.size / r * (lo + hi - 1.0) / 2.0
            between += values.sum() ** 2 / values.size
            filled += 1
    heard = n > 0
    delay[heard] /= share[heard]
    plain = np.divide(total, n, out=np.zeros(arms), where=heard)
    within = float((squares - n * plain**2).sum())
    freedom = filled - heard.sum()
    between -= (n * plain**2).sum()
    dependence = 0.0
    if within > 0.0:
        dependence = min(max((between - 2.0 * freedom * within / n.sum()) / within, 0.0), 1.0)
    old = np.zeros(arms)
    for arm in np.flatnonzero(heard).tolist():
        if blocks is None:
            old[arm] = made[ages >= 3.0 * delay[arm], arm].sum()
        else:
            old[arm] = sum(decisions[arm] for _, end, decisions in blocks if now - end >= 3.0 * delay[arm])
    known = np.minimum(share, 1.0)
    arrived = float(old @ known / old.sum()) if old.sum() > 0 else 1.0
    kinds = within / (1.0 + within)
    c = float((n @ loss) / (n @ share)) if heard.any() else 0.5
    c = arrived * kinds * c + (1.0 - arrived * kinds) * 0.5
    uneven = 0.0
    if (old > 0).sum() > 1 and 0.0 < arrived < 1.0:
        chi, degrees = float(old @ (known - arrived) ** 2) / (arrived * (1.0 - arrived)), (old > 0).sum() - 1
        uneven = min(max(((chi - degrees) / math.sqrt(2.0 * degrees) - 3.0) / 3.0, 0.0), 1.0)
    fair = (1.0 - uneven) * max(1.0 - 4.0 * dependence, 0.0) * kinds
    scale, rest = np.maximum(share, 1.0), np.maximum(1.0 - share, 0.0)
    mean = np.where(heard, fair * plain + (1.0 - fair) * (loss / scale + rest * c), c)
    second = fair * np.divide(squares, n, out=np.zeros(arms), where=heard)
    second += (1.0 - fair) * (square / scale + rest * c**2)
    worth = np.divide(share**2, rough, out=np.zeros(arms), where=heard) + rest * old
    weight = np.where(heard, fair * n + (1.0 - fair) * worth, 0.0)
    widest = 0.5 + weight @ (mean * (1.0 - mean))
    measured = 0.5 + weight @ np.maximum(second - mean**2, 0.0)
    spread = min(max(widest / measured, 1.0), 100.0)
    mean_loss = float(weight @ mean / weight.sum()) if heard.any() else 0.5
    return Estimates(share, loss, square, delay, dependence, arrived, c, fair, mean, weight, float(spread), mean_loss)


def check(table: Table, found: Estimates) -> None:
    """The numbers of a table against those of the reference, up to rounding."""
    fields = {
        by_age.SHARE: found.share,
        by_age.LOSS: found.loss,
        by_age.SQUARE: found.square,
        by_age.DELAY: found.delay,
        by_age.MEAN: found.mean,
        by_age.WEIGHT: found.weight,
    }
    for field, wanted in fields.items():
        np.testing.assert_allclose(table.of(field), wanted, rtol=1e-9, atol=1e-12)
    singles = (by_age.DEPENDENCE, by_age.ARRIVED, by_age.SPREAD, by_age.MEAN_LOSS)
    wanted_singles = [found.dependence, found.arrived, found.spread, found.mean_loss]
    np.testing.assert_allclose(table.numbers[list(singles)], wanted_singles, rtol=1e-9, atol=1e-12)


def play(
    shares: Any, losses: Any, delays: Any, last: int, when: Iterable[int], arms: Any = None
) -> Iterable[tuple[int, Table, Kept]]:
    """Yield (round, table, all that has happened) after each estimate. Outcomes come at the end of round s + delay."""
    table = Table(len(shares[0]))
    kept = Kept([], [])
    looks = set(when)
    due: dict[int, list[int]] = {}
    drawn = np.argmax(shares, axis=1) if arms is None else arms
    for t in range(1, last + 2):
        if t in looks:
            table.estimate(t)
            yield t, table, kept
        if t > last:
            return
        table.decided(shares[t - 1])
        kept.shares.append(list(shares[t - 1]))
        if delays[t - 1] is not None:
            due.setdefault(t + int(delays[t - 1]), []).append(t)
        for s in due.pop(t, []):
            outcome = int(drawn[s - 1]), float(losses[s - 1]), t - s
            table.came(*outcome)
            kept.outcomes.append(outcome)


@pytest.mark.parametrize("seed", range(20))
def test_every_number_is_exact_where_blocks_are_single_rounds(seed: int) -> None:
    """Up to round 9; every estimate, ripe decisions included, from the decisions alone."""
    rng = np.random.default_rng(seed)
    shares = np.eye(3)[rng.integers(0, 3, 9)]
    losses = rng.integers(0, 2, 9) if seed % 2 else rng.random(9)
    delays = [None if rng.random() < 0.2 else int(rng.integers(0, 1 + seed % 5)) for _ in range(9)]
    for now, table, kept in play(shares, losses, delays, 9, range(2, 10)):
        check(table, by_formula(kept, now))


def laws(kind: str, rng: np.random.Generator, losses: Any, arms: Any) -> list[int | None]:
    """Delays of a kind, for each round."""
    rounds = len(losses)
    if kind == "constant":
        return [30] * rounds
    if kind == "geometric":
        return (rng.geometric(0.03, rounds) - 1).tolist()
    if kind == "dropout":
        return [
            None if lost else int(delay)
            for lost, delay in zip(rng.random(rounds) < 0.3, rng.geometric(0.1, rounds), strict=True)
        ]
    if kind == "only wins":
        return [None if loss >= 0.5 else 10 for loss in losses]
    if kind == "deadline":
        return [300 if loss >= 0.5 else int(rng.integers(0, 20)) for loss in losses]
    if kind == "uneven":
        return [None if rng.random() < (0.1, 0.6)[arm % 2] else 10 for arm in arms]
    return [int(rng.integers(0, 3)) if arm else int(rng.integers(0, 200)) for arm in arms]


KINDS = ["constant", "geometric", "dropout", "only wins", "deadline", "uneven", "by arm"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("binary", [True, False])
def test_every_number_is_exact_where_arms_are_spread_evenly(kind: str, binary: bool) -> None:
    """Blocks take their decisions for spread evenly. Here they are: every round counts as the same parts of a decision
    for each arm, and is drawn from them. 1000 rounds, estimates as a learner makes them.
    """
    rng = np.random.default_rng(21)
    parts = [0.2, 0.5, 0.3]
    arms = rng.choice(3, 1000, p=parts)
    means = np.array([0.3, 0.5, 0.7])[arms]
    losses = (rng.random(1000) < means).astype(float) if binary else means * rng.random(1000)
    delays = laws(kind, rng, losses, arms)
    checked = 0
    for now, table, kept in play([parts] * 1000, losses, delays, 1000, usual_rounds(1000), arms):
        if now % 7 == 0 or now < 30:
            check(table, by_formula(kept, now, table.blocks))
            checked += 1
    assert checked > 40


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_cost_little_where_arms_come_as_they_are_drawn(kind: str) -> None:
    """a_i and l_i within 0.05 of what all ages give, after 100 rounds; measured are 0.031, and 0.02 but for losses at a
    deadline.
    """
    rng = np.random.default_rng(22)
    arms = rng.integers(0, 2, 3000)
    losses = (rng.random(3000) < 0.4).astype(float)
    delays = laws(kind, rng, losses, arms)
    for now, table, kept in play(np.eye(2)[arms], losses, delays, 3000, usual_rounds(3000)):
        if now > 100 and now % 9 == 0:
            found = by_formula(kept, now)
            np.testing.assert_allclose(table.of(by_age.SHARE), found.share, atol=0.05)
            np.testing.assert_allclose(table.of(by_age.LOSS), found.loss, atol=0.05)


def test_ripe_decisions_are_counted_up_to_a_block() -> None:
    """Old enough are those three times as old as the mean delay; a block counts when all of it is."""
    rng = np.random.default_rng(23)
    arms = rng.integers(0, 2, 4000)
    delays = laws("geometric", rng, arms, arms)
    for now, table, _ in play(np.eye(2)[arms], arms, delays, 4000, usual_rounds(4000)):
        if now > 200:
            ages = now - np.arange(1, now)
            for arm in range(2):
                ripe = 3.0 * table.of(by_age.DELAY)[arm]
                enough = (ages >= ripe) & (arms[: now - 1] == arm)
                surely = (ages >= 1.25 * ripe + now / 64 + 1) & (arms[: now - 1] == arm)
                assert surely.sum() <= table.of(by_age.PASSED)[arm] <= enough.sum()
    assert table.of(by_age.DELAY) == pytest.approx(1.0 / 0.03, rel=0.1)  # the mean of the law


def test_outcomes_without_a_decision_in_the_blocks_make_no_share_above_their_number() -> None:
    """A decision of this round whose outcome is here already counts as one that had the time."""
    table = Table(2)
    table.came(0, 1.0, 0)
    table.estimate(2)
    assert table.of(by_age.SHARE).tolist() == [1.0, 0.0]
    assert table.of(by_age.LOSS).tolist() == [1.0, 0.0]


# What they are good for.


def after(kind: str, seed: int, rounds: int, means: tuple[float, ...] = (0.4, 0.4)) -> Table:
    """Arms by coins, losses of 0 or 1, estimated now and then and after the last round."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, len(means), rounds)
    losses = (rng.random(rounds) < np.array(means)[arms]).astype(float)
    delays = laws(kind, rng, losses, arms)
    looks = [*usual_rounds(rounds), rounds + 1]
    *_, (_, table, _) = play(np.eye(len(means))[arms], losses, delays, rounds, looks)
    return table


def fair_of(table: Table) -> float:
    """How fair what has come is taken to be, from the weights: fair n + (1 - fair) times what a_i and l_i are worth."""
    n, share = table.of(by_age.CAME), table.of(by_age.SHARE)
    worth = share**2 / table.of(by_age.ROUGHNESS) + np.maximum(1.0 - share, 0.0) * table.of(by_age.PASSED)
    return float((table.of(by_age.WEIGHT) - worth) @ (n - worth) / ((n - worth) @ (n - worth)))


def plain_of(table: Table) -> Floats:
    return np.asarray(table.of(by_age.TOTAL_LOSS) / table.of(by_age.CAME))


@pytest.mark.parametrize("kind", ["geometric", "dropout"])
def test_what_has_come_is_fair_where_delays_tell_nothing(kind: str) -> None:
    """Above 0.98 after 4000 rounds, seeds 0 and 1, and no higher than the number of both kinds of losses allows; then
    the estimate is the plain mean, and weighs as much as there are outcomes.
    """
    for seed in range(2):
        table = after(kind, seed, 4000, (0.3, 0.5))
        assert 0.98 < fair_of(table) <= 1.0 - 1.0 / (1.0 + table.numbers[by_age.WITHIN]) + 1e-9
        np.testing.assert_allclose(table.of(by_age.MEAN), plain_of(table), atol=0.002)
        np.testing.assert_allclose(table.of(by_age.WEIGHT), table.of(by_age.CAME), rtol=0.02)


def test_with_a_constant_delay_the_mean_is_the_plain_one() -> None:
    """Within 0.001: both estimates are the same, up to decisions that are just old enough."""
    for seed in range(2):
        table = after("constant", seed, 4000, (0.3, 0.5))
        np.testing.assert_allclose(table.of(by_age.MEAN), plain_of(table), atol=0.001)
        np.testing.assert_allclose(table.of(by_age.WEIGHT), table.of(by_age.CAME), rtol=1e-4)
        assert table.numbers[by_age.DEPENDENCE] == pytest.approx(0.0, abs=1e-12)
        assert table.numbers[by_age.ARRIVED] > 0.98


def test_where_only_wins_come_nothing_is_fair_and_what_is_missing_counts() -> None:
    """Wins of 30 and 10 % in 4000 rounds, seeds 0 and 1. All outcomes are alike, c is 1/2: means are half of what is
    missing, within 0.03; every ripe decision counts, within 3 %.
    """
    for seed in range(2):
        table = after("only wins", seed, 4000, (0.7, 0.9))
        assert table.numbers[by_age.WITHIN] == 0.0
        assert fair_of(table) == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(table.of(by_age.MEAN), [0.35, 0.45], atol=0.03)
        np.testing.assert_allclose(table.of(by_age.MEAN), 0.5 * (1.0 - table.of(by_age.SHARE)), rtol=1e-12)
        np.testing.assert_allclose(table.of(by_age.WEIGHT), 2000, rtol=0.08)
        assert table.numbers[by_age.ARRIVED] == pytest.approx(0.2, abs=0.02)


def test_where_losses_come_at_a_deadline_nothing_is_fair() -> None:
    for seed in range(2):
        table = after("deadline", seed, 2000)
        assert table.numbers[by_age.DEPENDENCE] > 0.9
        assert fair_of(table) == pytest.approx(0.0, abs=1e-9)


def test_losses_at_a_deadline_count_as_much_as_early_wins() -> None:
    """600 rounds, wins at once, losses after 300 rounds, means 0.4: what has come has a mean of 0.25. Seeds 0 to 39,
    80 estimates, whose mean has a standard error of 0.005; the margin is 0.02.
    """
    tables = [after("deadline", seed, 600) for seed in range(40)]
    assert np.mean([plain_of(table) for table in tables]) < 0.27
    assert np.mean([table.of(by_age.LOSS) for table in tables]) == pytest.approx(0.4, abs=0.02)
    assert np.mean([table.of(by_age.SHARE) for table in tables]) == pytest.approx(1.0, abs=0.02)
    assert np.mean([table.of(by_age.MEAN) for table in tables]) == pytest.approx(0.4, abs=0.02)


def test_before_the_deadline_what_is_yet_to_come_counts_as_a_half() -> None:
    """250 rounds with a deadline of 300: only wins have come, of 60 % of decisions, so that means are 0.2.
    Seeds 0 to 19, within 0.015.
    """
    tables = [after("deadline", seed, 250) for seed in range(20)]
    assert np.mean([table.of(by_age.SHARE) for table in tables]) == pytest.approx(0.6, abs=0.03)
    assert np.mean([table.of(by_age.MEAN) for table in tables]) == pytest.approx(0.2, abs=0.015)


def test_arms_of_which_unequal_shares_are_missing_are_uneven() -> None:
    """A tenth of one arm and 60 % of the other are lost: 0 for fair. The same of both: 0 but for chance (above)."""
    for seed in range(2):
        table = after("uneven", seed, 4000)
        assert fair_of(table) == pytest.approx(0.0, abs=1e-9)
        np.testing.assert_allclose(table.of(by_age.SHARE), [0.9, 0.4], atol=0.04)


def unevenness(shares: list[float], ripe: list[float]) -> float:
    table = Table(len(shares))
    table.of(by_age.SHARE)[:] = shares
    table.of(by_age.PASSED)[:] = ripe
    arrived = float(np.dot(ripe, np.minimum(shares, 1.0)) / np.sum(ripe))
    return float(by_age._unevenness(table.numbers, len(shares), arrived))


def test_unevenness_is_a_chi_square_test() -> None:
    """0 up to three standard deviations of chi square, 1 from six on, and linear in between."""
    assert unevenness([0.5, 0.5, 0.5], [1000, 10, 300]) == 0.0
    assert unevenness([1.0, 1.0], [1000, 1000]) == 0.0
    assert unevenness([0.2, 0.0], [1000, 0]) == 0.0  # nothing to compare with
    assert unevenness([0.1, 0.9], [1000, 1000]) == 1.0
    assert unevenness([1.7, 0.1, 0.9], [1000, 1000, 0]) == unevenness([1.0, 0.1], [1000, 1000]) == 1.0
    for z in (2.9, 3.6, 4.5, 5.7, 6.1):
        apart = math.sqrt((1.0 + z * math.sqrt(2.0)) * 0.25 / 2000)  # of two arms around 1/2
        found = unevenness([0.5 - apart, 0.5 + apart], [1000, 1000])
        assert found == pytest.approx(min(max((z - 3.0) / 3.0, 0.0), 1.0), abs=1e-9)


def test_an_arm_without_outcomes_is_taken_for_the_middle() -> None:
    """c: 70 % of outcomes come, with a mean of 0.4; so 0.7 x 0.4 + 0.3 x 0.5, within 0.02. It has no weight."""
    table = after("dropout", 3, 4000, (0.4, 0.4))
    other = Table(3)
    rng = np.random.default_rng(3)
    for _ in range(4000):
        other.decided([1.0, 0.0, 0.0])
        if rng.random() < 0.7:
            other.came(0, float(rng.random() < 0.4), 0)
    other.estimate(4001)
    assert other.of(by_age.MEAN)[1:] == pytest.approx([0.43, 0.43], abs=0.02)
    assert other.of(by_age.WEIGHT)[1:].tolist() == [0.0, 0.0]
    assert other.numbers[by_age.MEAN_LOSS] == pytest.approx(other.of(by_age.MEAN)[0], rel=1e-12)
    assert table.numbers[by_age.ARRIVED] == pytest.approx(0.7, abs=0.03)


def test_before_anything_has_come_every_mean_is_a_half() -> None:
    table = Table(4)
    for now in range(2, 30):
        table.decided([0.0, 1.0, 0.0, 0.0])
        table.estimate(now)
        assert table.of(by_age.MEAN).tolist() == [0.5] * 4
        assert table.of(by_age.WEIGHT).tolist() == [0.0] * 4
        assert table.numbers[[by_age.MEAN_LOSS, by_age.SPREAD, by_age.ARRIVED]].tolist() == [0.5, 1.0, 1.0]


def test_losses_that_vary_less_than_coins_are_worth_more() -> None:
    """Losses of 0.4 or 0.6 vary 25 times less than coins around 1/2, margin a tenth. More than 100 counts as 100."""
    for low, high, wanted in ((0.4, 0.6, 25.0), (0.0, 1.0, 1.0), (0.499, 0.501, 100.0)):
        table = Table(2)
        for now in range(2, 5002):
            table.decided([1.0, 0.0])
            table.came(0, (low, high)[now % 2], 0)
        table.estimate(5002)
        assert table.numbers[by_age.SPREAD] == pytest.approx(wanted, rel=0.1)


def test_the_longest_delay_is_kept() -> None:
    table = Table(2)
    for delay in (3, 700, 20, 0):
        table.came(1, 0.5, delay)
    assert table.numbers[by_age.LONGEST] == 700.0


def test_a_learners_count_is_of_the_arm_that_it_played() -> None:
    table = Table(3)
    for arm in (0, 2, 2):
        by_age.count(table.numbers, 3, arm)
    assert table.of(by_age.OPEN).tolist() == [1.0, 0.0, 2.0]
