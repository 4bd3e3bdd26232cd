"""What verdicts are worth where rates move: the tables of docs/inference.md and the figure of README.

    python experiments/inference.py false --runs 200      # how often equal arms get a winner
    python experiments/inference.py decisions --runs 500  # decisions until the better arm is named
    python experiments/inference.py forecast              # how good the range of decisions to come is
    python experiments/inference.py figure seasons.png    # 30 days of looking, textbook against ours

Each method is looked at once a day, but for the textbook's test, which is looked at once, at the end, and bets on the
recorded randomisation, which are looked at after every decision.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated import simulate
from belated.inference import Log, capital, estimates
from belated.inference.bets import Bets
from belated.inference.tally import ENDS
from belated.report.figures import save
from belated.report.tables import markdown_table
from belated.simulation.plot import new_figure, settings, style

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALPHA = 0.05
DAY = 1_000
"""Decisions in a day."""
LEARNERS = ("uniform", "guarded", "thompson", "robust", "epsilon_greedy", "tsallis")
DELAYS = "geometric:mean=150"


class Moving:
    """Arms whose success rates move with the number of the decision."""

    def __init__(self, name: str, rounds: int, rates: Callable[[Floats], list[Floats]]) -> None:
        self.name, self.rounds, self._rates = name, rounds, rates
        self.n_arms = len(rates(np.zeros(1)))

    def __repr__(self) -> str:
        return self.name

    def rates(self, rounds: Integers) -> Floats:
        """Return the success rate of each arm: (rounds, arms)."""
        return np.stack(self._rates(rounds.astype(np.float64)), axis=1)

    def fill(self, rng: np.random.Generator, rounds: Integers) -> tuple[Floats, None]:
        return 1.0 - self.rates(rounds), None


def equal(name: str, rounds: int, level: Callable[[Floats], Floats], arms: int = 2) -> Moving:
    """Return arms that have the same rate at any time."""
    return Moving(name, rounds, lambda t: [level(t) for _ in range(arms)])


def wave(level: float, amplitude: float, period: float) -> Callable[[Floats], Floats]:
    return lambda t: level * (1.0 + amplitude * np.sin(2.0 * np.pi * t / period))


def weekend(t: Floats) -> Floats:
    """Return 5 % from Monday to Friday, 9 % at weekends."""
    return np.where(t // DAY % 7 >= 5, 0.09, 0.05)


def steady(level: float) -> Callable[[Floats], Floats]:
    return lambda t: np.full(t.size, level)


NULLS = (
    equal("10 %, the same all the time", 30_000, steady(0.1)),
    equal("10 % ± 50 %, period 25,000", 50_000, wave(0.1, 0.5, 25_000)),
    equal("4 % ± 50 %, period 30,000", 60_000, wave(0.04, 0.5, 30_000)),
    equal("5 %, at weekends 9 %", 42_000, weekend),
    equal("launch: 12 % that decay to 4 %", 40_000, lambda t: 0.04 + 0.08 * np.exp(-t / 8_000)),
    equal("drift from 10 to 60 %", 20_000, lambda t: 0.1 + 0.5 * t / 20_000),
)


class Settled(NamedTuple):
    """Decisions in their order, as far as they are settled."""

    arms: Integers
    rewards: Floats
    chances: Floats


def settled(log: Log) -> Settled:
    """Return the settled decisions of the log of a trace."""
    assert log.distributions is not None
    part = slice(0, log.settled)
    return Settled(log.arms[part], log.rewards[part], log.distributions[part])


class Found(NamedTuple):
    """The first winner."""

    arm: int
    """-1: none was named."""
    decisions: float


NOBODY = Found(-1, math.inf)


def by_randomisation(run: Settled, floor: float = 0.0, alpha: float = ALPHA) -> Found:
    """Return the first winner by bets on the recorded randomisation, looking after every decision."""
    n_arms = run.chances.shape[1]
    bets = Bets(n_arms, np.full(n_arms, floor))
    for begin in range(0, run.arms.size, 250):
        part = slice(begin, begin + 250)
        bets.add(run.arms[part], run.rewards[part], run.chances[part])
        if bets.state.peaks[:, 0].max() >= bets.needed(alpha):
            return Found(int(bets.state.peaks[:, 0].argmax()), float(min(begin + 250, run.arms.size)))
    return NOBODY


def daily(run: Settled) -> tuple[Floats, Floats]:
    """Return failures and successes of each arm in each day: (days, arms)."""
    days = -(-run.arms.size // DAY)
    place = np.arange(run.arms.size) // DAY * run.chances.shape[1] + run.arms
    size = days * run.chances.shape[1]
    total = np.bincount(place, minlength=size).reshape(days, -1).astype(np.float64)
    good = np.bincount(place, run.rewards, minlength=size).reshape(days, -1).astype(np.float64)
    return total - good, good


def z_scores(bad: Floats, good: Floats) -> Floats:
    """Return the two-sample z of arm 1 against arm 0 at the end of each row; 0 with fewer than 5 outcomes of an arm."""
    total = good + bad
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = good.sum(axis=1) / total.sum(axis=1)
        z = (good[:, 1] / total[:, 1] - good[:, 0] / total[:, 0]) / np.sqrt(
            pooled * (1 - pooled) * (1 / total).sum(axis=1)
        )
    return np.where((total >= 5).all(axis=1) & np.isfinite(z), z, 0.0)


def first_of(z: Floats) -> Found:
    """Return the first look at which z is beyond 1.96, and which arm it speaks for."""
    beyond = np.abs(z) > 1.959964
    if not beyond.any():
        return NOBODY
    at = int(np.argmax(beyond))
    return Found(int(z[at] > 0.0), float((at + 1) * DAY))


def by_textbook(run: Settled) -> Found:
    """Return the winner of a z-test at the end."""
    bad, good = (each.sum(axis=0, keepdims=True) for each in daily(run))
    found = first_of(z_scores(bad, good))
    return found if found.arm < 0 else Found(found.arm, float(run.arms.size))


def by_peeking(run: Settled) -> Found:
    """Return the first winner of a z-test that is looked at every day."""
    bad, good = daily(run)
    return first_of(z_scores(bad.cumsum(axis=0), good.cumsum(axis=0)))


def by_strata(run: Settled) -> Found:
    """Return the first winner of a test stratified by day (Cochran, Mantel & Haenszel) that is looked at every day."""
    bad, good = daily(run)
    total, both = good + bad, (good + bad).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = total[:, 1] * good.sum(axis=1) / both
        spread = total[:, 0] * total[:, 1] * good.sum(axis=1) * bad.sum(axis=1) / (both**2 * (both - 1))
    used = (both > 1) & np.isfinite(spread)
    excess = np.where(used, good[:, 1] - expected, 0.0).cumsum()
    variance = np.where(used, spread, 0.0).cumsum()
    return first_of(np.where(variance > 5.0, excess / np.sqrt(np.maximum(variance, 1e-9)), 0.0))


def by_betting(run: Settled) -> Found:
    """Return the first winner by betting, which takes means to stay the same, looking every day."""
    bad, good = (each.cumsum(axis=0) for each in daily(run))
    counts = np.stack([bad, good], axis=2)
    evidence = np.stack([capital.log_evidence(counts[:, k], counts[:, 1 - k], ENDS) for k in (0, 1)], axis=1)
    wins = evidence.max(axis=1) >= math.log(2.0 / ALPHA)
    if not wins.any():
        return NOBODY
    at = int(np.argmax(wins))
    return Found(int(evidence[at].argmax()), float((at + 1) * DAY))


METHODS: dict[str, Callable[[Settled], Found]] = {
    "textbook, one look": by_textbook,
    "z-test, daily": by_peeking,
    "stratified by day": by_strata,
    "betting": by_betting,
    "randomisation": by_randomisation,
}


def runs(world: Moving, learner: str, count: int, seed: int, delays: str = DELAYS) -> Iterable[Settled]:
    """Yield the settled decisions of simulated experiments."""
    for begin in range(0, count, 20):
        part = min(20, count - begin)
        result = simulate(
            learner, world, delays, rounds=world.rounds, replications=part, seed=10_000 * seed + begin, keep_trace=True
        )
        for trace in result.traces[0]:
            yield settled(trace.log())


def false_winners(count: int, seed: int) -> None:
    """Print how often a winner is named among equal arms."""
    rows = []
    for world in NULLS:
        for learner in LEARNERS:
            found = [[method(run).arm >= 0 for method in METHODS.values()] for run in runs(world, learner, count, seed)]
            shares = np.mean(found, axis=0)
            rows.append([world.name, learner, *(f"{100 * share:.1f} %" for share in shares.tolist())])
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    print(markdown_table(["both arms", "learner", *METHODS], rows))


PRICES = (
    ("30 against 35 %", (0.30, 0.35), 40_000, "uniform", 0.0),
    ("5 against 6 %", (0.05, 0.06), 150_000, "uniform", 0.0),
    ("1 against 2 %", (0.01, 0.02), 60_000, "uniform", 0.0),
    ("30 against 35 %, floor 0.1", (0.30, 0.35), 60_000, "guarded:share_floor=0.1", 0.1),
    ("1 against 2 %, floor 0.1", (0.01, 0.02), 80_000, "guarded:share_floor=0.1", 0.1),
)


def decisions(count: int, seed: int) -> None:
    """Print the median number of settled decisions until the better arm is named."""
    rows = []
    for name, (low, high), rounds, learner, floor in PRICES:
        world = Moving(name, rounds, lambda t, ends=(low, high): [np.full(t.size, each) for each in ends])  # type: ignore[misc]
        found = [
            [by_strata(run), by_betting(run), by_randomisation(run, floor)] for run in runs(world, learner, count, seed)
        ]
        cells = []
        for method in zip(*found, strict=True):
            wrong = sum(each.arm == 0 for each in method)
            cells.append(f"{np.median([each.decisions for each in method]):,.0f} ({100 * wrong / count:.1f} %)")
        rows.append([name, learner, *cells])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    print(markdown_table(["rates", "learner", "stratified by day", "betting", "randomisation"], rows))


FORECASTS = (
    ((0.30, 0.35), 800, "uniform"),
    ((0.30, 0.35), 2_000, "uniform"),
    ((0.05, 0.06), 4_000, "uniform"),
    ((0.05, 0.06), 12_000, "uniform"),
    ((0.01, 0.02), 1_500, "uniform"),
    ((0.01, 0.02), 4_000, "uniform"),
    ((0.10, 0.12, 0.11), 8_000, "uniform"),
    ((0.30, 0.35), 2_000, "guarded:share_floor=0.2"),
    ((0.01, 0.02), 4_000, "guarded:share_floor=0.2"),
    ((0.05, 0.06), 10_000, "thompson:share_floor=0.25"),
)


def forecast(count: int, seed: int) -> None:
    """Print how often the range of decisions to come holds what comes, where no arm has been named yet."""
    rows = []
    for rates, at, learner in FORECASTS:
        rounds = 60 * at
        world = Moving(str(rates), rounds, lambda t, ends=rates: [np.full(t.size, each) for each in ends])  # type: ignore[misc]
        floor = float(learner.partition("=")[2] or 0.0)
        below = inside = asked = 0
        result_logs = (
            trace.log()
            for begin in range(0, count, 20)
            for trace in simulate(
                learner, world, "none", rounds=rounds, replications=20, seed=10_000 * seed + begin, keep_trace=True
            ).traces[0]
        )
        for log in result_logs:
            more = estimates(log.head(at)).more
            if more is None:
                continue
            asked += 1
            low, high = more
            run = settled(log)
            bets = Bets(len(rates), np.full(len(rates), floor))
            bets.add(run.arms[:at], run.rewards[:at], run.chances[:at])
            comes = math.inf
            for begin in range(at, rounds, max(at // 20, 10)):
                part = slice(begin, begin + max(at // 20, 10))
                bets.add(run.arms[part], run.rewards[part], run.chances[part])
                if max(
                    bets.least_evidence(arm, np.delete(np.arange(len(rates)), arm)) for arm in range(len(rates))
                ) >= bets.needed(ALPHA):
                    comes = part.stop - at
                    break
            inside += low <= comes <= (math.inf if high is None else high)
            below += comes < low
        rows.append(
            [
                str(rates),
                f"{at:,}",
                learner,
                f"{asked}",
                f"{100 * inside / asked:.0f} %",
                f"{100 * below / asked:.0f} %",
            ]
        )
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    print(markdown_table(["rates", "after", "learner", "runs", "in the range", "sooner"], rows))


def figure(path: Path, count: int, seed: int) -> None:
    """Draw how often a winner was named among equal arms with a weekly rhythm, day by day."""
    world = equal("5 %, at weekends 9 %", 30 * DAY, weekend)
    found = {"z-test, looked at every day": by_peeking, "belated": by_randomisation}
    days = np.arange(1, 31)
    shares = {}
    every = list(runs(world, "thompson", count, seed))
    for name, method in found.items():
        first = np.array([method(run).decisions for run in every])
        shares[name] = 100 * (first[:, None] <= days * DAY).mean(axis=0)
    with settings():
        drawn = new_figure(6.4, 3.4)
        axes = drawn.subplots()
        for place, (name, share) in enumerate(shares.items()):
            colour, dashes = style(place)
            axes.plot(days, share, color=colour, linestyle=dashes, linewidth=2.2, label=name)
            axes.annotate(
                f"{name}: {share[-1]:.0f} %",
                (days[-1], max(share[-1], 100 * ALPHA)),
                xytext=(-4, 6),
                textcoords="offset points",
                ha="right",
                color=colour,
            )
        axes.axhline(100 * ALPHA, color="#555555", linewidth=0.9, linestyle=(0, (2, 2)))
        promised = "5 %, what was promised"
        axes.annotate(promised, (9, 100 * ALPHA), xytext=(0, 6), textcoords="offset points", color="#555555")
        axes.set(xlim=(1, 30), ylim=(0, None), xlabel="day", ylabel="experiments with a false winner (%)")
        axes.set_title("Two equal arms that convert more at weekends", pad=8)
    save(drawn, path, [path.suffix.removeprefix(".")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=("false", "decisions", "forecast", "figure"))
    parser.add_argument("path", type=Path, nargs="?", default=Path("seasons.png"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    if options.study == "figure":
        figure(options.path, options.runs, options.seed)
    else:
        {"false": false_winners, "decisions": decisions, "forecast": forecast}[options.study](
            options.runs, options.seed
        )


if __name__ == "__main__":
    main()
