"""What intervals are worth: the tables of docs/inference.md.

    python experiments/inference.py                 # about two minutes

False alarms: two equal arms, looked at once and often, by the textbook's test and by betting. Price: how many decisions
it takes to know the better of two arms.
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from belated import simulate
from belated.inference import capital, course
from belated.inference.tally import ENDS
from belated.report.estimates import draw_course
from belated.report.figures import save
from belated.report.tables import markdown_table
from belated.simulation import Trace

Floats = NDArray[np.float64]

ALPHA = 0.05
LEARNERS = ("uniform", "guarded", "balanced", "thompson")


def counts(trace: Trace) -> tuple[Floats, Floats]:
    """Return successes and failures of two arms after every settled decision."""
    missing = np.isnan(trace.losses)
    settled = int(np.argmax(missing)) if missing.any() else missing.size
    chosen = trace.arms[:settled, None] == np.arange(2)
    failures = np.cumsum(chosen * trace.losses[:settled, None], axis=0)
    return np.cumsum(chosen, axis=0) - failures, failures


def textbook(successes: Floats, failures: Floats) -> Floats:
    """Return the score of the difference of two sample means at every time; 0 below 5 outcomes of an arm."""
    total = successes + failures
    with np.errstate(divide="ignore", invalid="ignore"):
        means = successes / total
        scores = np.abs(means[:, 0] - means[:, 1]) / np.sqrt((means * (1 - means) / total).sum(axis=1))
    return np.where((total >= 5).all(axis=1) & np.isfinite(scores), scores, 0.0)


def likelihood_ratio(successes: Floats, failures: Floats) -> Floats:
    """Return the log of the likelihood of two means over that of one."""
    total, all_successes = successes + failures, successes.sum(axis=1, keepdims=True)
    pooled = all_successes / np.maximum(total.sum(axis=1, keepdims=True), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        good = np.where(successes > 0, successes * np.log(successes / (total * pooled)), 0.0)
        bad = np.where(failures > 0, failures * np.log(failures / (total * (1 - pooled))), 0.0)
    return np.asarray((good + bad).sum(axis=1))


def first_win(successes: Floats, failures: Floats, alpha: float, every: int = 1) -> float:
    """Return after how many settled decisions one of two arms wins by betting, looked at every so often; inf: never."""
    looks = np.arange(every - 1, len(successes), every)
    # no gambler does better than the likelihood ratio, so only looks at which that is large need a closer one
    looks = looks[likelihood_ratio(successes[looks], failures[looks]) >= math.log(1 / alpha)]
    wins = np.zeros(looks.size, dtype=np.bool_)
    for arm in range(2):
        first = np.stack([failures[looks, arm], successes[looks, arm]], axis=1)
        second = np.stack([failures[looks, 1 - arm], successes[looks, 1 - arm]], axis=1)
        wins |= capital.log_evidence(first, second, ENDS) >= math.log(1 / alpha)
    return float(looks[np.argmax(wins)] + 1) if wins.any() else math.inf


def weighted_score(trace: Trace, settled: int) -> float:
    """Return the score of the difference of inverse-propensity weighted means at the end."""
    rewards = 1.0 - trace.losses[:settled]
    signs = np.where(trace.arms[:settled] == 0, 1.0, -1.0)
    terms = signs * rewards / trace.propensities[:settled]
    return float(abs(terms.mean()) / (terms.std(ddof=1) / math.sqrt(settled)))


def false_alarms(runs: int) -> None:
    rows = []
    for learner in LEARNERS:
        result = simulate(
            learner, "bernoulli:means=[0.6,0.6]", "geometric:mean=100", rounds=2_000, replications=runs, keep_trace=True
        )
        once = often = weighted = betting = 0
        z = NormalDist().inv_cdf(1 - ALPHA / 2)
        for trace in result.traces[0]:
            successes, failures = counts(trace)
            scores = textbook(successes, failures)
            once += scores[-1] > z
            often += scores[19::20].max() > z
            weighted += weighted_score(trace, len(successes)) > z
            betting += first_win(successes, failures, ALPHA, 1) < math.inf
        rows.append([f"`{learner}`", *(f"{100 * each / runs:.1f} %" for each in (once, often, weighted, betting))])
    print(f"False alarms in {runs} runs: two equal arms of mean reward 0.4, 2,000 decisions, delays of mean 100\n")
    header = ["learner", "textbook, once", "textbook, every 20", "weighted, once", "betting, after every outcome"]
    print(markdown_table(header, rows), "\n")


def price(runs: int) -> None:
    rows = []
    for low, high, rounds in ((0.30, 0.50, 3_000), (0.30, 0.35, 30_000), (0.05, 0.06, 100_000)):
        result = simulate(
            "uniform", f"bernoulli:means=[{1 - low},{1 - high}]", rounds=rounds, replications=runs, keep_trace=True
        )
        every = max(rounds // 400, 1)
        found = np.array([first_win(*counts(trace), ALPHA, every) for trace in result.traces[0]])
        normal = NormalDist()
        spread = low * (1 - low) + high * (1 - high)
        planned = 2 * (normal.inv_cdf(1 - ALPHA) + normal.inv_cdf(0.8)) ** 2 * spread / (high - low) ** 2
        median, most = (np.quantile(found, share, method="higher") for share in (0.5, 0.8))
        shown = [f"{value:,.0f}" if value < math.inf else f"> {rounds:,}" for value in (planned, median, most)]
        rows.append([f"{low:g} and {high:g}", *shown, f"{most / planned:.1f}" if most < math.inf else ""])
    print(f"Decisions until the better of two arms is known, shares of one half, {runs} runs\n")
    header = ["rates", "one look, planned for 80 % power", "any time, half of runs", "any time, 80 % of runs", "ratio"]
    print(markdown_table(header, rows), "\n")


def draw(path: Path) -> None:
    result = simulate(
        "guarded:share_floor=0.1",
        "bernoulli:means=[0.96,0.95,0.92]",
        "geometric:mean=200",
        rounds=60_000,
        replications=1,
        seed=2,
        keep_trace=True,
    )
    log = replace(result.traces[0][0].log(), labels=("A", "B", "C"))
    save(draw_course(course(log)), path, ["png"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000, help="default: %(default)s")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the figure of the page instead")
    options = parser.parse_args()
    if options.figure:
        draw(options.figure)
        return
    false_alarms(options.runs)
    price(max(options.runs // 10, 10))


if __name__ == "__main__":
    main()
