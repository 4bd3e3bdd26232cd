"""Forms of `balanced` that were tried: what each part is worth, and what was left out.

    python experiments/variants.py                  # a table as Markdown, a few minutes; docs/tuning.md has it

One learner with a switch for each part. estimates: reduced variance (1) or plain importance weighting (0). centre:
costs of loss - 1/2 (1) or of the loss (0). explore: the implicit exploration. apart: outcomes of one round one by one
(1) or all against the distribution of the round (0). forgetting: past costs fade like (s/t)^forgetting. unexplained:
the price of cost beyond what a stochastic world with the gaps seen so far would explain. trend: that price is dropped
where the range of the loss estimates exceeds so many times its largest fall.
"""

import argparse
import math
from typing import Any

import numpy as np
from adversary import STARTS, Adversary, costs

from belated import simulate
from belated.core import ftrl, pages
from belated.core.kernels import Vector, kernel
from belated.league import suite
from belated.learners import TunedLearner, ftrl_steps, reduced_variance, robust
from belated.learners.learner import Learner, Pages, Parameter
from belated.report.tables import markdown_table

COST = ftrl_steps.OWN
HIGHEST = ftrl_steps.OWN + 1
ARRIVED = ftrl_steps.OWN + 2
MOST = ftrl_steps.OWN + 3  # outstanding at once
SQUARES = ftrl_steps.OWN + 4  # of the costs, summed
ARMS = ftrl_steps.OWN + 5
MOVED = ftrl_steps.OWN + 6
PEAK = ftrl_steps.OWN + 7  # the largest range of the loss estimates so far
FALL = ftrl_steps.OWN + 8  # the largest fall of that range below its peak
HEAD = ftrl_steps.OWN + 9

KAPPA, ESTIMATES, CENTRE, EXPLORE, APART, FORGETTING, UNEXPLAINED, TREND = range(8)
NAMES = {
    "kappa": 2.0,
    "estimates": 1.0,
    "centre": 1.0,
    "explore": 1.0,
    "apart": 1.0,
    "forgetting": 0.0,
    "unexplained": 0.0,
    "trend": math.inf,
}


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    own = state[: int(state[HEAD + pages.FIRST])]
    ftrl_steps.count(own, outstanding)
    own[ARMS] = p.size
    own[MOVED] = 0.0
    keep = 1.0 - min(1.0, params[FORGETTING] / own[ftrl_steps.ROUND])
    own[COST] *= keep
    own[HIGHEST] *= keep
    own[SQUARES] *= keep * keep
    own[MOST] = max(own[MOST], outstanding)
    price = params[KAPPA] * own[HIGHEST]
    if params[UNEXPLAINED] > 0.0 and own[ARRIVED] > 0.0:
        total, least, most = 0.0, math.inf, -math.inf
        for i in range(p.size):
            held = own[ftrl.at(i) + ftrl.LOSSES]
            total += held
            least = min(least, held)
            most = max(most, held)
        own[PEAK] = max(own[PEAK], most - least)
        own[FALL] = max(own[FALL], own[PEAK] - (most - least))
        # in a stochastic world costs add up to at most sigma_max times the gap of uniform play; twice that, and noise
        explained = 2.0 * own[MOST] * (total / p.size - least) / own[ARRIVED] + 2.0 * math.sqrt(own[SQUARES])
        if most - least < params[TREND] * own[FALL] or params[TREND] == math.inf:
            price += (params[UNEXPLAINED] - params[KAPPA]) * max(0.0, own[HIGHEST] - explained)
    share = 0.5 if params[ESTIMATES] == 1.0 else 1.0
    ftrl.solve(own, share * math.sqrt(own[ftrl_steps.ROUND]), price / math.log(p.size), p)
    threshold = (
        4.0 / own[ftrl_steps.ROUND] if params[ESTIMATES] == 1.0 else math.inf
    )  # every arm below it: plain weighting
    return reduced_variance.note(state, HEAD, p, threshold, own[ftrl_steps.CUMULATIVE_OUTSTANDING])


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    now = state[ftrl_steps.CUMULATIVE_OUTSTANDING]
    then = reduced_variance.kept(state, HEAD, mark)
    weight = propensity
    if params[EXPLORE] == 1.0:
        weight = robust.implicit_exploration(now, then, propensity)
    state[ARRIVED] += 1.0
    if now > then or state[MOVED] * params[APART] != 0.0:
        if state[MOVED] * params[APART] != 0.0:
            ftrl.settle(state[: int(state[HEAD + pages.FIRST])], int(state[ARMS]))
        cost = (loss - 0.5 * params[CENTRE]) * (1.0 - ftrl.share(state, arm) / weight)
        state[COST] += cost
        state[SQUARES] += cost * cost
        state[HIGHEST] = max(state[HIGHEST], state[COST])
    state[MOVED] = 1.0
    reduced_variance.add(state, HEAD, arm, loss, 1.0 / weight, mark)


@kernel
def patience(state: Vector, params: Vector) -> float:
    return math.sqrt(state[ftrl_steps.CUMULATIVE_OUTSTANDING])


@kernel
def forget(state: Vector, params: Vector, mark: float) -> None:
    reduced_variance.forget(state, HEAD, mark)


def variant(name: str, keeps_skipped: bool = False) -> Learner:
    """A learner with all switches; one that keeps skipped decisions learns from them when they come."""
    return Learner(
        name=name,
        summary="balanced, with switches",
        paper="none",
        size=ftrl.size,
        losses_at=ftrl.LOSSES_AT,
        decide=decide,
        learn=learn,
        patience=patience,
        forget=None if keeps_skipped else forget,
        pages=Pages(HEAD, reduced_variance.page_size),
        keeps_skipped=keeps_skipped,
        parameters=tuple(Parameter(each, default, 0.0, math.inf, each) for each, default in NAMES.items()),
    )


PLAIN, KEEPING = variant("form"), variant("keeping", keeps_skipped=True)
FORMS: dict[str, TunedLearner] = {
    "balanced": PLAIN.with_parameters(),
    "plain importance weights": PLAIN.with_parameters(estimates=0.0),
    "costs not centred": PLAIN.with_parameters(centre=0.0),
    "neither": PLAIN.with_parameters(estimates=0.0, centre=0.0),
    "outcomes of a round not apart": PLAIN.with_parameters(apart=0.0),
    "no implicit exploration": PLAIN.with_parameters(explore=0.0),
    "learns from skipped decisions": KEEPING.with_parameters(),
    "κ = 6, forgetting 1": PLAIN.with_parameters(kappa=6.0, forgetting=1.0),
    "unexplained costs at 20": PLAIN.with_parameters(unexplained=20.0),
    "unexplained costs at 100": PLAIN.with_parameters(unexplained=100.0),
    "… unless there is a trend": PLAIN.with_parameters(unexplained=100.0, trend=2.0),
}
CELLS = (
    "stochastic-k10/none",
    "stochastic-k10/100",
    "stochastic-k10/1000",
    "stochastic-k10/dropout",
    "stochastic-k10/batches",
    "stochastic-k10/by-loss",
    "constrained-k10/1000",
    "constrained-k10/pareto",
    "blocks-k2/1000",
    "resonant-k2/1000",
    "square-k10/1000",
)


def regrets(name: str, rounds: int | None, replications: int) -> list[float]:
    """Of every form in a cell."""
    cell = suite.suite[name].at(rounds) if rounds else suite.suite[name]
    settings: Any = {"rounds": cell.rounds, "replications": replications, "progress": False, "checkpoints": 2}
    result = simulate(list(FORMS.values()), cell.environment, cell.delays, **settings)
    return [float(result.final(name).mean) for name in result.learners]


def hardest(start: int, batches: bool, rounds: int, replications: int) -> list[float]:
    """The largest cost of delay of every form against thirty adversaries near a start of the search."""
    rng = np.random.default_rng(0)
    dials = np.tile(STARTS[start], (30, 1))
    dials[:, [0, 1, 2, 3]] = rng.random((30, 4)) * [0.57, 1.0, 1.0, 1.0]
    if start == 1:
        dials[:, [6, 7]] = rng.random((30, 2)) * [0.3, 0.5] + 0.5
    dials[:, 10] = 0.25 if batches else 0.1
    tried = [Adversary(tuple(map(float, row)), 2, rounds) for row in dials]
    return [float(each) for each in np.max([costs(list(FORMS.values()), each, replications) for each in tried], axis=0)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What the parts of balanced are worth.")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--replications", type=int, default=10)
    options = parser.parse_args()
    columns = [regrets(name, options.rounds, options.replications) for name in CELLS]
    kinds = {"30 swings": (0, False), "30 in batches": (0, True), "30 traps": (1, False)}
    worst = [hardest(*kind, options.rounds or 50_000, 2) for kind in kinds.values()]
    rows = [
        [form, *(f"{column[k]:,.0f}" for column in columns), *(f"{each[k]:.2f}" for each in worst)]
        for k, form in enumerate(FORMS)
    ]
    print(markdown_table(["form", *CELLS, *kinds], rows))


if __name__ == "__main__":
    main()
