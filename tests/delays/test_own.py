"""Delays that an environment brings along: whose they are, and that a learner meets them with their losses."""

import math
from typing import Any

import numpy as np
import pytest

from belated import learners, simulate
from belated.delays import NEVER, Delays, NoDelay, Own, delays_for
from belated.environments import Bernoulli, Environment, Resampled
from belated.league.comparison import ComparisonPlan, compare
from belated.league.suite import Cell
from belated.logs import Log
from belated.simulation.replication import Job, check_job, chunks
from belated.simulation.simulation import spaced_checkpoints
from support.refusals import refused

PROBLEM: dict[str, Any] = {"rounds": 600, "replications": 2, "seed": 5, "threads": 1, "keep_trace": True}


def world(decisions: int = 60, seed: int = 1, **parts: Any) -> Resampled:
    """Losses of two arms in sixteenths; the delay of a decision is 3 times its loss in sixteenths, plus 100 times its
    arm.
    """
    rng = np.random.default_rng(seed)
    arms = np.arange(decisions) % 2
    losses = rng.integers(0, 17, decisions) / 16
    return Resampled(Log.from_arrays(arms, losses=losses, waits=48 * losses + 100 * arms, **parts))


def test_a_learner_meets_the_loss_and_the_delay_of_one_decision() -> None:
    result = simulate(["ucb", "thompson", "uniform"], world(), **PROBLEM)
    for traces in result.traces:
        for trace in traces:
            came = ~np.isnan(trace.losses)
            np.testing.assert_array_equal(trace.delays[came], (48 * trace.losses + 100 * trace.arms)[came])
            assert np.unique(trace.delays).size > 10
            assert came.sum() > 400
    assert set(np.unique(result.traces[2][0].arms)) == {0, 1}


class Played:
    """Losses and delays as they were filled in a replication, in arrays over all rounds."""

    by = "arm"
    n_arms = 2

    def __init__(self, job: Job) -> None:
        pieces = list(chunks(job, 0))
        self.losses = np.concatenate([piece.rounds.losses for piece in pieces])
        self.delays = np.concatenate([piece.rounds.delays for piece in pieces])
        self.means = pieces[0].rounds.expected


class Losses(Played):
    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return self.means, self.losses[rounds - 1]


class Waits(Played):
    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return self.delays[rounds - 1]


def job(environment: Environment, delays: Delays, rounds: int, seed: int) -> Job:
    return Job(
        (learners.tune("uniform"),), environment, delays, rounds, seed, spaced_checkpoints(rounds, 10), keep_trace=False
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_learners_are_told_of_the_delays_that_are_played(seed: int) -> None:
    """As if these delays had been recorded: bit for bit, over two chunks. The longest delays are rare, so that others
    that are drawn have another maximum, and another sum.
    """
    rng = np.random.default_rng(seed)
    arms = np.arange(40_000) % 2
    losses = 0.5 * rng.random(40_000) + 0.3 * arms
    environment = Resampled(Log.from_arrays(arms, losses=losses, waits=np.floor(rng.pareto(1.0, 40_000))))
    rounds = 17_000
    played = job(environment, Own.of(environment), rounds, seed)
    options: dict[str, Any] = {"rounds": rounds, "replications": 1, "seed": seed, "keep_trace": True}
    names = ["damped", "exp3_dropping", "ucb", "damped:settled=9"]
    own = simulate(names, environment, **options)
    recorded = simulate(names, Losses(played), Waits(played), **options)
    for (mine,), (theirs,) in zip(own.traces, recorded.traces, strict=True):
        np.testing.assert_array_equal(mine.distributions, theirs.distributions)
        np.testing.assert_array_equal(mine.losses, theirs.losses)
        np.testing.assert_array_equal(mine.delays, theirs.delays)
    left = rounds - np.arange(1, rounds + 1)
    longest = np.minimum(Waits(played).delays.max(axis=1), left).max()
    told = simulate(f"damped:longest_delay={longest}", environment, **options).traces[0][0]
    np.testing.assert_array_equal(told.distributions, own.traces[0][0].distributions)
    other = simulate(f"damped:longest_delay={longest - 1}", environment, **options).traces[0][0]
    assert (other.distributions != told.distributions).any()


def test_which_delays_a_simulation_has() -> None:
    environment = world()
    default = simulate("ucb", environment, **PROBLEM)
    assert isinstance(default.delays, Own)
    assert default.delays.environment is environment
    named = simulate("ucb", environment, "own", **PROBLEM)
    np.testing.assert_array_equal(named.regret, default.regret)
    others = simulate("ucb", environment, "none", **PROBLEM)
    assert isinstance(others.delays, NoDelay)
    assert (others.most_outstanding == 0).all()
    assert default.most_outstanding.min() > 10
    assert isinstance(simulate("ucb", "stochastic:arms=2", rounds=5, replications=1).delays, NoDelay)
    with refused("delays", "own"):
        simulate("ucb", Bernoulli([0.2, 0.3]), "own", **PROBLEM)


def test_cells_and_comparisons() -> None:
    environment = world()
    cell = Cell("mine", environment, "own", 100)
    assert cell.delays.environment is environment
    longer = cell.at(300)
    assert (longer.rounds, longer.delays.environment) == (300, environment)
    assert cell.title.endswith(cell.delays.title)
    assert cell.theory > math.sqrt(2 * 100)
    plan = ComparisonPlan(("ucb",), (environment, world(seed=2)), ("own", "none"), 100, 2)
    found = compare(plan, threads=1)
    assert [repr(each.delays).partition("(")[0] for each in found.cells] == ["Own", "NoDelay"] * 2
    assert repr(found.cells[2].delays) == f"Own({plan.environments[1]!r})"
    np.testing.assert_array_equal(
        found.cells[0].regret, simulate("ucb", environment, rounds=100, replications=2, threads=1).regret
    )


def test_bounds_see_the_longest_delay_of_a_round() -> None:
    environment = world()
    instance = Cell("mine", environment, "own", 80).instance()
    _, _, delays = environment.fill_with_delays(np.random.default_rng(0), np.arange(1, 81))
    left = np.arange(79, -1, -1)
    np.testing.assert_array_equal(instance.delays, np.minimum(delays.max(axis=1), left))


def test_own_delays_of_another_environment_are_refused() -> None:
    one, other = world(), world()
    message = ("delays",)
    with refused(*message):
        delays_for(one, Own.of(other))
    with refused(*message):
        simulate("ucb", one, Own.of(other), **PROBLEM)
    with refused(*message):
        check_job(job(one, Own.of(other), 10, 0))
    mine = delays_for(one, Own.of(one))
    assert isinstance(mine, Own)
    assert mine.environment is one


def test_the_law_by_itself() -> None:
    law = Delays.find("own")
    assert isinstance(law, Own)
    assert (repr(law), law.title, law.by, law.tail_index) == ("Own()", "delays as in the environment", "arm", None)
    with refused("delays", "own"):
        law.fill(np.random.default_rng(0), np.arange(3))
    with refused("delays", "Bernoulli"):
        Bernoulli([0.2, 0.3]).fill_with_delays(np.random.default_rng(0), np.arange(3))
    mine = Own.of(world())
    assert repr(mine) == f"Own({mine.environment!r})"
    assert mine.tail_index == math.inf
    rounds = np.arange(1, 9)
    np.testing.assert_array_equal(
        mine.fill(np.random.default_rng(3), rounds),
        mine.environment.fill_with_delays(np.random.default_rng(3), rounds)[2],
    )
    lost = Resampled(Log.from_arrays([0, 1, 0], [1.0, 0.0, None], waits=[1, 1, np.inf]), missing_loss=1.0)
    assert Own.of(lost).tail_index == 0.0
    assert (Own.of(lost).fill(np.random.default_rng(0), np.arange(50)) == NEVER).any()


def test_outcomes_that_never_come_count_in_the_regret() -> None:
    """Half of the first arm's outcomes are lost, and stand for a loss of 1."""
    log = Log.from_arrays([0, 1] * 2, losses=[0.0, 0.7, None, 0.7], waits=[0, 0, np.inf, 0])
    environment = Resampled(log, missing_loss=1.0)
    result = simulate("uniform", environment, **PROBLEM)
    assert result.uniform_regret[0, -1] == pytest.approx(600 * 0.1)
    trace = result.traces[0][0]
    assert set(np.unique(trace.delays)) == {0, NEVER}
    assert np.isnan(trace.losses[trace.delays == NEVER]).all()


class Mine:
    """An environment of somebody's own, with delays."""

    n_arms = 2

    def __init__(self, columns: int = 2) -> None:
        self.columns = columns

    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return np.array([[0.25, 0.75]]), None

    def fill_with_delays(self, rng: np.random.Generator, rounds: Any) -> Any:
        return *self.fill(rng, rounds), np.tile([3, 8][: self.columns], (rounds.size, 1))


def test_objects_of_ones_own_may_bring_delays() -> None:
    """Their losses may be coins."""
    result = simulate(["uniform", "damped"], Mine(), **PROBLEM)
    assert isinstance(result.delays, Own)
    assert result.delays.tail_index is None
    trace = result.traces[0][0]
    np.testing.assert_array_equal(trace.delays, np.where(trace.arms == 0, 3, 8))
    with refused(None, "patient", "tail_index"):
        simulate("patient", Mine(), **PROBLEM)
    with refused(None, "(600, 1)", "(600, 2)"):
        simulate("uniform", Mine(columns=1), **PROBLEM)
