"""What theory says about a problem, as numbers: every regret bound of the paper's table, and what it is made of.

    instance = Instance(10, delays, gaps=[0.1] * 9)
    for bound in table(instance): ...

Constants are those of the proofs. Where a proof gives none, the bound is marked "order only", and its value is the
expression inside the O( ): good for comparing growth, not for comparing with regret.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from belated.bounds.instance import BestSkipping, Instance, best_skipping, scale
from belated.bounds.waiting import Waiting

__all__ = ["BestSkipping", "Bound", "Fact", "Instance", "best_skipping", "facts", "robust_bound", "scale", "table"]


class Fact(NamedTuple):
    """A quantity that bounds are made of."""

    symbol: str
    meaning: str
    value: float


class Bound(NamedTuple):
    """One row of the table."""

    learner: str
    """Its name in the catalogue; "any" for lower bounds."""
    source: str
    regime: str
    """stochastic or adversarial"""
    formula: str
    constants: str
    """explicit, order only, a sketch (docs/theory.md), or lower (an order below which no learner gets)"""
    value: float | None
    """None where something is not known that it needs."""
    missing: str = ""
    """What that is."""


EXPLICIT, ORDER, SKETCH, LOWER = "explicit", "order only", "a sketch", "lower"
_PAPER = "Masoudian et al. 2024"
_GAPS = "gaps"
_DELAYS = "delays"
_SINGLE = "a single best arm"


def facts(instance: Instance) -> tuple[Fact, ...]:
    """Return what the bounds are made of; what needs delays is left out where only counts are known."""
    log_arms = math.log(instance.arms)
    found = [
        Fact("K", "arms", instance.arms),
        Fact("T", "rounds", instance.rounds),
        Fact("D", "total delay", instance.total_delay),
        Fact("σ", "most decisions outstanding", instance.most_outstanding),
    ]
    if instance.delays is None:
        return tuple(found)
    cheap, skipped = instance.price(log_arms)
    dear, skipped_dear = instance.price(instance.arms ** (2 / 3) * log_arms)
    without_arms, _ = instance.price(1.0)
    waiting = instance.waiting
    return (
        *found,
        Fact("d", "longest delay", instance.longest_delay),
        Fact("Φ", f"min over S of |S| + √(D_rest log K), at |S| = {skipped:,}", cheap),
        Fact("Φ⅔", f"min over S of |S| + √(D_rest K^⅔ log K), at |S| = {skipped_dear:,}", dear),
        Fact("√D", "at most the next line (Appendix: bounds in d gain nothing by skipping)", instance.total_delay**0.5),
        Fact("Φ₁ + d", "min over S of |S| + √D_rest, and the longest delay", without_arms + instance.longest_delay),
        Fact(
            "S*", f"rounds that robust skips (delay_constant {instance.delay_constant:g})", int(waiting.skipped.sum())
        ),
        Fact("σ̂", "most decisions it waits for", int(waiting.outstanding.max(initial=0))),
        Fact("D̂", "total wait of robust, D_T", int(waiting.outstanding.sum())),
        Fact("Σλ", "its implicit exploration", float(waiting.explored.sum())),
    )


def table(instance: Instance) -> tuple[Bound, ...]:
    """Return every bound of the paper's table, of its successor, and the lower bounds.

    The stochastic bound of `robust` is proved for c = 49 alone, its adversarial bound for every c (`robust_bound`).
    """
    arms, rounds = instance.arms, instance.rounds
    log_arms, root = math.log(arms), math.sqrt(arms * rounds)
    total, sigma = instance.total_delay, instance.most_outstanding
    stochastic = _Stochastic(instance)
    rows = [
        stochastic.row(
            "ucb",
            "Joulani et al. 2013, Theorem 7",
            "Σ (8 log T/Δ + 3.5 Δ + σ Δ)",
            EXPLICIT,
            lambda gap: 8 * math.log(rounds) / gap + (3.5 + sigma) * gap,
            ties=True,
        ),
        Bound(
            "hybrid",
            "Zimmert & Seldin 2020, Theorem 1",
            "adversarial",
            "4√(KT) + √(8 D log K)",
            EXPLICIT,
            4 * root + math.sqrt(8 * total * log_arms),
        ),
    ]
    price, longest, most, skips, proved = _delay_terms(instance)
    constant = instance.delay_constant
    rows += [
        Bound(
            "hybrid_skipping",
            "Zimmert & Seldin 2020, Theorem 2",
            "adversarial",
            "4√(KT) + 10 max(Φ, 2 log K)",
            EXPLICIT,
            4 * root + 10 * max(price, 2 * log_arms),
        ),
        stochastic.row(
            "damped",
            "Masoudian et al. 2022",
            "Σ (log T/Δ + σ/(Δ log K)) + d K^⅓ log K",
            ORDER,
            lambda gap: (math.log(rounds) + sigma / log_arms) / gap,
            plus=longest * arms ** (1 / 3) * log_arms,
        ),
        Bound(
            "damped",
            "Masoudian et al. 2022",
            "adversarial",
            "√(KT) + √(D log K) + d K^⅓ log K",
            ORDER,
            root + math.sqrt(total * log_arms) + longest * arms ** (1 / 3) * log_arms,
        ),
        stochastic.row(
            "robust",
            f"{_PAPER}, Theorem 1",
            "Σ (log T/Δ + σ̂/(Δ log K)) + K σ̂ + S*",
            ORDER,
            lambda gap: (math.log(rounds) + most / log_arms) / gap,
            plus=arms * most + skips,
        ),
        Bound(
            "robust",
            f"{_PAPER}, Theorem 1",
            "adversarial",
            "√(KT) + Φ + S* + K σ̂",
            ORDER,
            root + price + skips + arms * most,
        ),
        Bound(
            "robust",
            f"{_PAPER}, Appendix",
            "adversarial",
            f"4√(KT) + {'51/7' if constant == 49.0 else f'{_rates(constant):.3g}'} √(D̂ log K) + S* + K Σλ",
            EXPLICIT,
            proved,
        ),
        Bound(
            "balanced",
            "docs/theory.md",
            "adversarial",
            "2√(KT) + 3√(D log K)",
            SKETCH,
            2 * root + 3 * math.sqrt(total * log_arms),
        ),
        stochastic.row(
            "sapo",
            "Schlisselberg et al. 2025",
            "Σ log T/Δ + (σ/K) Σ Δ",
            ORDER,
            lambda gap: math.log(rounds) / gap + sigma * gap / arms,
        ),
        Bound(
            "sapo",
            "Schlisselberg et al. 2025, as recalled",
            "adversarial",
            "√(KT) log T + Φ",
            ORDER,
            root * math.log(rounds) + price,
        ),
        stochastic.row(
            "any",
            f"{_PAPER}, Section 4",
            "Σ log T/Δ + (σ/K) Σ Δ",
            LOWER,
            lambda gap: math.log(rounds) / gap + sigma * gap / arms,
        ),
        Bound("any", "Masoudian et al. 2022", "adversarial", "√(KT) + Φ", LOWER, root + price),
    ]
    return tuple(_known(bound) for bound in rows)


def _delay_terms(instance: Instance) -> tuple[float, ...]:
    """Return Phi, d, and of robust sigma, S* and its proved bound; nan where only counts are known."""
    if instance.delays is None:
        return (math.nan,) * 5
    waiting = instance.waiting
    return (
        instance.price(math.log(instance.arms))[0],
        float(instance.longest_delay),
        float(waiting.outstanding.max(initial=0)),
        float(waiting.skipped.sum()),
        robust_bound(instance.arms, waiting, instance.delay_constant),
    )


def robust_bound(arms: int, waiting: Waiting, delay_constant: float) -> float:
    """Return 4 sqrt(KT) + (2/sqrt(c) + sqrt(c)) sqrt(D_T log K) + S* + K sum lambda_{s,s+dhat_s}, for a run of
    `robust`.

    The last line but one of the paper's Appendix "Details of the adversarial analysis", where c = 49 gives 51/7.
    Nothing there needs the drift control lemma, so it is proved for every c.
    """
    total = float(waiting.outstanding.sum())
    return (
        4.0 * math.sqrt(arms * waiting.rounds)
        + _rates(delay_constant) * math.sqrt(total * math.log(arms))
        + float(waiting.skipped.sum())
        + arms * float(waiting.explored.sum())
    )


def _rates(delay_constant: float) -> float:
    return 2.0 / math.sqrt(delay_constant) + math.sqrt(delay_constant)


def _known(bound: Bound) -> Bound:
    if bound.value is not None and math.isnan(bound.value):
        return bound._replace(value=None, missing=_DELAYS)
    return bound


class _Stochastic:
    """Sums over the arms that are not the best."""

    def __init__(self, instance: Instance) -> None:
        self.gaps = instance.gaps

    def row(
        self,
        learner: str,
        source: str,
        formula: str,
        constants: str,
        each: Callable[[float], float],
        plus: float = 0.0,
        ties: bool = False,
    ) -> Bound:
        missing = _GAPS if self.gaps is None else _SINGLE if not ties and (self.gaps == 0.0).any() else ""
        value = None if missing else plus + sum(each(float(gap)) for gap in self.gaps if gap > 0.0)
        return Bound(learner, source, "stochastic", formula, constants, value, missing)
