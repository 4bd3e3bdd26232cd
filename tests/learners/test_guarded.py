"""The default learner: every round against its formulas, what it keeps and for how long, what it must not lose."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from belated import Bandit, Decision, Receipt, learners, simulate
from belated.core import ftrl
from belated.learners import by_age, guarded, matching
from belated.simplex import ftrl_distribution
from belated.simulation.run import LearnerRun, new_chunk
from belated.simulation.simulation import replay

Floats = NDArray[np.float64]
Delays = Sequence[int | None]

UNIT = 2.0**-19
"""Ratios of probabilities are remembered with a decision as multiples of this, rounded down."""


class Kept(NamedTuple):
    """A decision: its round, its arm, and as the formulas have them p, and x / p, q / p of the arm."""

    round: int
    arm: int
    p: float
    leads: float
    pilots: float


class ByFormula:
    """The learner from its docstring. Means by age and matching are taken as they are: they have tests of their own."""

    def __init__(self, arms: int, kappa: float = 3.0, pilot: float = 0.95, unit: float = UNIT) -> None:
        self.arms, self.kappa, self.pilot, self.unit = arms, kappa, pilot, unit
        self.losses = np.zeros(arms)
        self.a2, self.rho, self.cost, self.highest = 0.25, 1.0, 0.0, 0.0
        self.c, self.v, self.w = 0.0, 0.0, 0.0
        self.level, self.recent = 0.5, 2
        self.local, self.overall, self.shift = 0.0, 0.0, 0.0
        self.table = np.zeros(by_age.size(arms))
        self.arrived = 1.0
        self.q = np.full(arms, 1.0 / arms)
        self.x = np.full(arms, 1.0 / arms)
        self.rates = 0.5, 0.0
        self.t, self.next, self.waiting, self.moved = 0, 2, 4, False
        self.total, self.came = np.zeros(arms), np.zeros(arms)
        self.seen: set[str] = set()

    @property
    def b(self) -> float:
        """The level of recent losses, moved to 1/2 as far as outcomes are missing."""
        return self.arrived * self.level + (1.0 - self.arrived) * 0.5

    @property
    def patient(self) -> int:
        """How many outcomes the leader waits for before it moves."""
        return 4 if self.w > 0.5 else 1

    def weight(self) -> float:
        if self.pilot == 0.0:
            return 0.0
        w = 1.0 / (1.0 + math.exp(0.63 * self.c / math.sqrt(self.v + 10.0) - 3.0))
        least = 1.0 - self.pilot
        loses = math.sqrt(self.arms * self.a2 / max(self.rho, 1.0))
        if -self.c > loses:
            self.seen.add("far ahead")
            least = max(least * loses / -self.c, min(least, 1.0 / 64.0))
        explained = 1.0 - (self.local + 1.0) / (self.overall + 1.0)
        dependence = float(self.table[by_age.DEPENDENCE])
        if 0.2 < dependence < 0.4 and explained > 0.1:
            self.seen.add("delays tell")
        explained *= 1.0 - min(max((dependence - 0.2) / 0.2, 0.0), 1.0)
        trust = min(max((0.2 - explained) / 0.1, 0.0), 1.0)
        if 0.0 < trust < 1.0:
            self.seen.add("shifting")
        if trust == 1.0 and w < 0.5:
            self.seen.add("losing")
        return min(w, 1.0 - least) * trust

    def price(self) -> float:
        part = np.sqrt(self.x) * (1.0 - self.x)
        p = self.w * self.q + (1.0 - self.w) * self.x
        return float((part * self.x / p).sum() / part.sum())

    def decide(self) -> Floats:
        self.t += 1
        self.moved = False
        renewed = self.t >= self.next
        if renewed:
            by_age.estimate(self.table, self.arms, float(self.t))
            first = [by_age.at(self.arms, field) for field in (by_age.MEAN, by_age.WEIGHT)]
            means, weights = (self.table[place : place + self.arms].copy() for place in first)
            matching.match(means, weights, self.table[by_age.MEAN_LOSS], self.table[by_age.SPREAD], self.q)
            self.arrived = float(self.table[by_age.ARRIVED])
            self.next = self.t + max(1, self.t // 64)
        if self.pilot == 1.0:
            return self.q.copy()
        if self.t == 1 or renewed or self.waiting >= self.patient:
            self.waiting = 0
            self.rates = math.sqrt(self.a2), self.kappa / math.log(self.arms) * self.highest
            self.x = self.leader()
            self.w = self.weight()
            if self.w == 0.0:
                self.rho = 1.0
                self.seen.add("no pilot")
            elif renewed:
                self.rho = self.price()
        else:
            self.seen.add("lazy")
        p = self.w * self.q + (1.0 - self.w) * self.x
        self.least = float(p.min())
        return np.asarray(p)

    def leader(self) -> Floats:
        return ftrl_distribution(self.losses - self.losses.min(), *self.rates)

    def chosen(self, arm: int, p: Floats) -> Kept:
        by_age.count(self.table, self.arms, arm)
        leads, pilots = (min(each[arm] / p[arm], 127.0) for each in (self.x, self.q))
        if pilots == 127.0:
            self.seen.add("cut off")
        if leads == 127.0:
            self.seen.add("leader cut off")
        if self.unit:
            leads, pilots = (math.floor(each / self.unit) * self.unit for each in (leads, pilots))
        return Kept(self.t, arm, p[arm], leads, pilots)

    def learn(self, kept: Kept, loss: float) -> None:
        if self.pilot < 1.0:
            self.teach(kept, loss)
            self.follow(kept.arm, loss)
        self.total[kept.arm] += loss
        self.came[kept.arm] += 1.0
        by_age.add(self.table, self.arms, kept.arm, loss, float(self.t - kept.round))

    def teach(self, kept: Kept, loss: float) -> None:
        b = self.b
        d = loss - b
        threshold = 4.0 * b**2 / self.a2
        self.a2 += d**2 * self.rho
        if self.waiting >= self.patient:
            self.x, self.waiting, self.moved = self.leader(), 0, True
        if kept.round < self.t or self.moved:
            self.cost += d * (kept.leads - min(self.x[kept.arm] / kept.p, 127.0))
            if self.x[kept.arm] > 127.0 * kept.p:
                self.seen.add("come back")
            self.highest = max(self.highest, self.cost)
            if kept.round == self.t:
                self.seen.add("at once after others")
        self.waiting += 1
        step = d * (kept.pilots - kept.leads)
        self.c += step
        self.v += self.w * (1.0 - self.w) * step**2
        was_rare = kept.p < threshold
        self.losses[kept.arm] += (loss if was_rare else d) / kept.p
        if self.least < threshold:
            rare = self.w * self.q + (1.0 - self.w) * self.x < threshold
            self.losses[rare] -= b
            if rare[kept.arm] != was_rare:
                self.seen.add("no longer rare" if was_rare else "rare since")

    def follow(self, arm: int, loss: float) -> None:
        self.recent += 1
        step = 1.0 / min(self.recent, 64)
        self.level += step * (loss - self.level)
        off = loss - (self.total[arm] + self.level) / (self.came[arm] + 1.0)
        self.local += (off - self.shift) ** 2
        self.overall += off**2
        self.shift += step * (off - self.shift)

    @property
    def numbers(self) -> list[float]:
        return [
            self.w,
            self.c,
            self.v,
            self.cost,
            self.highest,
            self.a2,
            self.rho,
            self.level,
            self.local,
            self.overall,
        ]


class Played(NamedTuple):
    """What happened, round by round, at the end of each."""

    arms: list[int]
    p: Floats
    losses: Floats
    """The leader's estimates, up to a constant."""
    numbers: Floats
    """w, C, V, B, the largest B, a^2, rho, the level, the two sums of squares."""


def by_formula(losses: Any, delays: Delays, draws: Sequence[float], **settings: float) -> tuple[Played, set[str]]:
    """What the formulas play, and which of their cases came up."""
    arms = len(losses[0])
    learner = ByFormula(arms, **settings)
    played = Played([], np.zeros((len(draws), arms)), np.zeros((len(draws), arms)), np.zeros((len(draws), 10)))
    due: dict[int, list[Kept]] = {}
    for t in range(1, len(draws) + 1):
        p = learner.decide()
        arm = int(np.flatnonzero(draws[t - 1] < np.cumsum(p))[0])
        kept = learner.chosen(arm, p)
        if (delay := delays[t - 1]) is not None:
            due.setdefault(t + delay, []).append(kept)
        for each in due.pop(t, []):
            learner.learn(each, losses[each.round - 1][each.arm])
        played.arms.append(arm)
        played.p[t - 1] = p
        played.losses[t - 1] = learner.losses - learner.losses.min()
        played.numbers[t - 1] = learner.numbers
    return played, learner.seen


def numbers_of(state: Floats, arms: int) -> list[float]:
    """The same numbers out of a state."""
    own = (
        guarded.PILOT_COST,
        guarded.PILOT_NOISE,
        guarded.DELAY_COST,
        guarded.HIGHEST,
        guarded.NOISE,
        guarded.PRICE,
        guarded.LEVEL,
        guarded.LOCAL,
        guarded.OVERALL,
    )
    return [float(state[ftrl.size(arms) + guarded.WEIGHT]), *(float(state[place]) for place in own)]


def by_learner(losses: Any, delays: Delays, draws: Sequence[float], **settings: float) -> Played:
    """What the learner plays, a round at a time."""
    rounds, arms = len(draws), len(losses[0])
    run = LearnerRun(learners.tune("guarded", **settings), arms, rounds, True, {})
    numbers = np.zeros((rounds, 10))
    waits = np.array([np.iinfo(np.int64).max if delay is None else delay for delay in delays])
    matrix = np.ascontiguousarray(losses, dtype=float)
    for j in range(rounds):
        row = slice(j, j + 1)
        run.play(new_chunk(j + 1, np.array(draws[row]), waits[row], matrix[row], rounds, losses=matrix[row]))
        numbers[j] = numbers_of(run.state, arms)
    trace = run.finished_trace()
    estimates = trace.loss_estimates - trace.loss_estimates.min(axis=1, keepdims=True)
    return Played(trace.arms.tolist(), trace.distributions, estimates, numbers)


def problem(kind: str, rounds: int, arms: int) -> tuple[Floats, list[int | None], list[float]]:
    """Losses, delays and draws; several outcomes come in one round, some never."""
    rng = np.random.default_rng(5)
    losses = rng.random((rounds, arms)) * np.linspace(0.5, 1.0, arms)[::-1]
    delays: list[int | None] = [None if rng.random() < 0.1 else int(rng.integers(0, 30)) for _ in range(rounds)]
    when = np.arange(rounds)[:, None]
    if kind in ("clear", "forced"):  # one arm is far better than all others
        losses = (rng.random((rounds, arms)) < np.array([0.02, *[0.9] * (arms - 1)])).astype(float)
        delays = [int(rng.integers(0, 3)) for _ in range(rounds)]
    elif kind == "turning":  # the best arm becomes the worst one
        losses = np.where(when < rounds // 3, losses, losses[:, ::-1]) * np.linspace(0.2, 1.0, arms)
        losses = np.where(when < rounds // 3, losses, 1.0 - losses)
    elif kind == "shifting":  # all losses rise and fall together
        losses = np.clip(0.5 + 0.25 * np.sin(when / 60.0) + 0.3 * (losses - 0.5), 0.0, 1.0)
    elif kind == "swinging":  # what was best is worst when the outcome comes
        losses = 0.5 + 0.5 * np.cos(np.pi * when / 40.0) * np.where(np.arange(arms) % 2, 1.0, -1.0)
        delays = [20] * rounds
    elif kind == "chasing":  # the same, quicker than means over time can follow
        losses = 0.5 + 0.5 * np.cos(np.pi * when / 20.0) * np.where(np.arange(arms) % 2, 1.0, -1.0)
        delays = [2] * rounds
    elif kind == "at once":
        delays = [0 if rng.random() < 0.5 else 1 for _ in range(rounds)]
    elif kind == "deadline":  # all losses shift together, and high ones come later
        common = rng.random(rounds) < 0.5 + 0.45 * np.sin(when[:, 0] / 60.0)
        losses = np.where(rng.random((rounds, arms)) < 0.05, 0.5, common[:, None])
        delays = [int(rng.integers(0, 9)) + 20 * int(high and rng.random() < 0.5) for high in common]
    draws = rng.random(rounds)
    if kind in ("turning", "forced"):  # the first and the last arm are drawn now and then, however improbable they are
        draws[::10], draws[5::10] = 0.0, 1.0 - 1e-9
    return losses, delays, draws.tolist()


@pytest.mark.parametrize(
    ("kind", "rounds", "arms", "settings", "cases"),
    [
        ("mixed", 600, 4, {}, "lazy, far ahead, at once after others, no longer rare, rare since"),
        ("mixed", 600, 4, {"pilot": 0.0}, "no pilot, at once after others, no longer rare, rare since"),
        ("mixed", 300, 4, {"pilot": 1.0}, ""),
        ("mixed", 600, 2, {"kappa": 0.5}, "lazy, far ahead"),
        ("mixed", 600, 13, {"kappa": 0.0}, "lazy"),
        ("mixed", 300, 30, {"pilot": 0.3}, "rare since, no longer rare"),
        ("clear", 900, 6, {}, "far ahead"),
        ("clear", 600, 3, {"pilot": 0.7}, "far ahead"),
        ("clear", 600, 6, {"pilot": 0.99}, "far ahead"),
        ("turning", 900, 3, {}, "no pilot, cut off"),
        ("turning", 900, 3, {"pilot": 0.5}, "no pilot"),
        ("forced", 300, 3, {"pilot": 0.9999}, "leader cut off, far ahead"),
        ("shifting", 900, 3, {}, "shifting, no pilot"),
        ("swinging", 600, 4, {}, "lazy, rare since"),
        ("chasing", 600, 2, {}, "losing"),
        ("chasing", 600, 2, {"pilot": 0.99, "kappa": 1.0}, "losing"),
        ("swinging", 600, 4, {"kappa": 20.0}, "lazy"),
        ("at once", 400, 20, {}, "at once after others, lazy"),
        ("deadline", 800, 3, {}, "shifting, delays tell"),
    ],
)
def test_every_round_is_as_the_formulas_say(kind: str, rounds: int, arms: int, settings: Any, cases: str) -> None:
    """Distributions, loss estimates and w, C, V, B, a^2, rho, the level: up to rounding, which another machine's exp
    and log amplify to 2e-7 in these rounds.
    """
    given = problem(kind, rounds, arms)
    wanted, seen = by_formula(*given, **settings)
    found = by_learner(*given, **settings)
    assert found.arms == wanted.arms
    np.testing.assert_allclose(found.p, wanted.p, rtol=5e-6, atol=1e-8)
    np.testing.assert_allclose(found.losses, wanted.losses, rtol=5e-6, atol=1e-6)
    np.testing.assert_allclose(found.numbers, wanted.numbers, rtol=5e-6, atol=1e-7)
    assert seen >= set(cases.split(", ")) - {""}  # the problem is what it is meant to be


@pytest.mark.parametrize("kind", ["mixed", "clear", "swinging"])
def test_remembering_ratios_as_whole_numbers_costs_nothing(kind: str) -> None:
    """600 rounds: distributions within a millionth of those with exact ratios, B and C within a ten-thousandth."""
    given = problem(kind, 600, 4)
    wanted, _ = by_formula(*given, unit=0.0)
    found = by_learner(*given)
    assert found.arms == wanted.arms
    np.testing.assert_allclose(found.p, wanted.p, atol=1e-6)
    np.testing.assert_allclose(found.numbers[:, 1:5], wanted.numbers[:, 1:5], atol=1e-4)


def test_a_whole_run_is_what_its_rounds_are() -> None:
    """The same through `replay`, which plays all rounds at once."""
    given = problem("mixed", 600, 4)
    trace = replay("guarded", *given)
    found = by_learner(*given)
    assert trace.arms.tolist() == found.arms
    np.testing.assert_array_equal(trace.distributions, found.p)


# What it reduces to.


def test_without_a_pilot_the_leader_is_played() -> None:
    """Every distribution is the minimiser for the estimates and rates with which its round opens."""
    losses, delays, draws = problem("mixed", 300, 5)
    trace = replay(learners.tune("guarded", pilot=0.0), losses, delays, draws)
    numbers = by_learner(losses, delays, draws, pilot=0.0).numbers
    np.testing.assert_allclose(trace.distributions[0], 0.2, rtol=1e-12)
    for t in range(1, 300):
        estimates = trace.loss_estimates[t - 1]
        highest, a2 = numbers[t - 1, 4:6]
        x = ftrl_distribution(estimates - estimates.min(), math.sqrt(a2), 3.0 * highest / math.log(5))
        np.testing.assert_allclose(trace.distributions[t], x, rtol=1e-9)
    assert not numbers[:, 0].any()
    assert (numbers[:, 6] == 1.0).all()


def test_the_pilot_alone_has_no_leader() -> None:
    """It plays what matching gives for means by age, from the first estimate on, and estimates no losses."""
    losses, delays, draws = problem("mixed", 200, 3)
    trace = replay(learners.tune("guarded", pilot=1.0), losses, delays, draws)
    assert not trace.loss_estimates.any()
    np.testing.assert_array_equal(trace.distributions[0], np.full(3, 1.0 / 3.0))
    assert trace.distributions[-1].argmax() == 2  # the arm that loses least


def test_the_share_of_the_leader_is_what_the_pilot_leaves() -> None:
    """p is at least 1/64 of the leader's distribution, whatever happens, and 5 % of it while the pilot is not far
    ahead.
    """
    for kind in ("mixed", "clear", "turning", "shifting", "swinging"):
        w = by_learner(*problem(kind, 600, 4)).numbers[:, 0]
        assert w.min() >= 0.0
        assert w.max() <= 1.0 - 1.0 / 64.0
        assert w[0] == pytest.approx(0.95)
    assert w.max() > 0.95


# What it keeps, and for how long.


@pytest.mark.parametrize("arms", [2, 12, 13, 100])
def test_its_state_never_grows(arms: int) -> None:
    learner = learners.find("guarded")
    bandit = Bandit(arms, seed=1)
    size = bandit._run.state.size
    assert size == learner.size(arms)
    for _ in range(3000):
        bandit.observe(bandit.decide(), loss=0.5)
    assert bandit._run.state.size == size
    assert learner.pages is None


def test_an_outcome_is_learned_from_after_50_000_further_decisions() -> None:
    bandit = Bandit(2, seed=3)
    bandit.warns = False  # nothing comes for long
    first = bandit.decide()
    for _ in range(50_000):
        bandit.decide()
    before = bandit.loss_estimates.copy()
    assert bandit.observe(first, loss=1.0) is Receipt.USED
    bandit.decide()
    assert (bandit.loss_estimates != before).any()
    assert bandit.skipped == 0


@pytest.mark.parametrize(("longest", "patience"), [(0, 100_000), (3125, 100_000), (3126, 100_032), (5000, 160_000)])
def test_patience_is_32_times_the_longest_delay_and_at_least_100_000(longest: int, patience: int) -> None:
    rounds = longest + 10
    delays = [longest] + [0] * (rounds - 1)
    trace = replay("guarded", np.full((rounds, 2), 0.3), delays, [0.5] * rounds)
    assert trace.patience[-1] == patience
    assert trace.patience[0] == 100_000 or longest == 0


def test_a_decision_is_given_up_when_it_is_100_000_rounds_old() -> None:
    rng = np.random.default_rng(2)
    rounds = 100_005
    delays = np.full(rounds, np.iinfo(np.int64).max)
    run = LearnerRun(learners.tune("guarded"), 2, rounds, True, {})
    losses = np.full((rounds, 2), 0.5)
    run.play(new_chunk(1, rng.random(rounds), delays, losses, rounds, losses=losses))
    skipped = run.finished_trace().skipped
    assert np.flatnonzero(skipped).tolist() == [100_000, 100_001, 100_002, 100_003, 100_004]
    assert skipped[100_000] == 1


def test_three_decisions_and_then_the_first_outcome() -> None:
    bandit = Bandit(["red", "green", "blue"], seed=7)
    first, second, third = (bandit.decide() for _ in range(3))
    assert bandit.learner == "guarded"
    assert bandit.observe(first, loss=1.0) is Receipt.USED
    assert bandit.observe(third, loss=0.0) is Receipt.USED
    assert bandit.observe(second, loss=0.0) is Receipt.USED
    assert bandit.decide().round == 4
    assert bandit.outstanding == 1


# What it must not lose.


def cost(words: str | list[str], losses: str, delays: str, rounds: int, replications: int) -> Any:
    """Mean regret of each learner; seed 0."""
    names = [words] if isinstance(words, str) else words
    result = simulate(names, losses, delays, rounds=rounds, replications=replications, progress=False)
    found = [float(result.final(name).mean) for name in names]
    return found[0] if isinstance(words, str) else found


@pytest.mark.parametrize("law", ["(geometric:mean=1000)", "1000"])
@pytest.mark.parametrize(("means", "laws"), [("0.25,0.15", "10,{law}"), ("0.15,0.25", "{law},10")])
def test_a_better_arm_whose_outcomes_come_late_is_not_given_up(means: str, laws: str, law: str) -> None:
    """Uniform play costs 500 of 10,000 rounds, and who locks in on the quick arm 1,000. Allowed are 3 %, 300; measured
    are 33 to 91, of 20 replications.
    """
    assert cost("guarded", f"bernoulli:means=[{means}]", f"byarm:laws=[{laws.format(law=law)}]", 10_000, 20) < 300


def test_where_only_wins_come_it_beats_thompson_sampling() -> None:
    """10 replications of 10,000 rounds, measured are 0.4 and 0.5 of its regret; allowed are two thirds."""
    for means in ("0.7,0.9", "0.9,0.7,0.95"):
        ours, theirs = cost(
            ["guarded", "thompson"],
            f"bernoulli:means=[{means}]",
            "byloss:good=(geometric:mean=100),bad=never",
            10_000,
            10,
        )
        assert ours < 0.67 * theirs


def test_where_losses_come_at_a_deadline_it_beats_thompson_sampling() -> None:
    """Wins after 10 rounds, losses after 3,000: 8 replications of 20,000 rounds, measured is 0.3 of its regret."""
    ours, theirs = cost(["guarded", "thompson"], "bernoulli:means=[0.8,0.9,0.9]", "byloss:good=10,bad=3000", 20_000, 8)
    assert ours < 0.6 * theirs


@pytest.mark.parametrize("delays", ["none", "constant:delay=100"])
@pytest.mark.parametrize("arms", [2, 8])
def test_against_a_constrained_adversary_it_is_not_much_worse_than_balanced(arms: int, delays: str) -> None:
    """12 replications of 20,000 rounds; measured are 0.76 to 0.84 of its regret, allowed is 1.3. Thompson sampling has
    two to ten times as much.
    """
    ours, theirs = cost(["guarded", "balanced"], f"constrained:arms={arms},gap=0.1", delays, 20_000, 12)
    assert ours < 1.3 * theirs


def test_the_pilot_earns_what_the_leader_does_not() -> None:
    """Ten arms, a gap of 0.1, delays of 100: 8 replications of 20,000 rounds. Measured is 0.48 of the leader alone."""
    both, alone = cost(["guarded", "guarded:pilot=0"], "stochastic:arms=10,gap=0.1", "geometric:mean=100", 20_000, 8)
    assert both < 0.7 * alone


def test_the_leader_saves_what_the_pilot_would_lose() -> None:
    """Losses whose level jumps, delays of 50: 8 replications of 20,000 rounds. Measured is 0.18 of the pilot alone."""
    both, alone = cost(["guarded", "guarded:pilot=1"], "constrained:arms=4,gap=0.1", "constant:delay=50", 20_000, 8)
    assert both < 0.4 * alone


def test_one_outcome_of_a_decision_that_was_improbable_does_not_set_the_rate_for_good() -> None:
    """An arm that was chosen with a probability of one in a million and has half of the shares now: the measured cost
    of delay counts a ratio of 127, not of half a million.
    """
    bandit = Bandit(2, "guarded", pilot=0.0, seed=0)
    bandit.redo(Decision(1, 0, 1e-6), draw=0.0)
    bandit.decide()
    bandit.observe(1, loss=0.0)
    bandit.decide()
    assert 0.0 <= bandit._run.state[guarded.HIGHEST] <= 0.5 * 127.0
    assert bandit._run.state[guarded.DELAY_COST] <= 0.5 * 127.0


@pytest.mark.slow
def test_a_level_that_jumps_while_outcomes_are_out_locks_no_arm() -> None:
    """Rare arms are chosen while losses are near 0, and their outcomes come while losses are near 1. The baseline of
    that time over a tiny propensity must not be taken off the arm's losses: where it was, 1 of these 20 runs cost
    4,200. The largest is 676.
    """
    result = simulate(
        "guarded", "constrained:arms=10,gap=0.1", "pareto:shape=1,scale=10", rounds=100_000, replications=20, seed=0
    )
    assert result.regret[0, :, -1].max() < 1000.0
