"""What is published about each learner: its regret bounds, and what one outcome that never comes does to it.

K arms, T rounds, gaps Δ_i, σ_max the most decisions outstanding at once, G_i those of arm i, D the sum of all delays,
d_max the longest, S* the decisions skipped. Orders unless there are constants; "no delay" where the bound is proved for
undelayed outcomes only.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Published(NamedTuple):
    """Bounds on the regret against any losses and on stochastic ones, – where there is none; and whether one outcome
    that never comes leaves them, or the play of a learner without any, as good as before.
    """

    adversarial: str
    stochastic: str
    endless: str


_SKIPPING = "min over S of (|S| + √(D_S̄ log K))"
_ONE_LOST = "yes"
_ALL_LOST = "no: told a delay of T, it stays near uniform play"

published: Mapping[str, Published] = MappingProxyType(
    {
        "robust": Published(
            f"√(KT) + {_SKIPPING} + S* + K σ_max", "Σ (log T / Δ_i + σ_max / (Δ_i log K)) + K σ_max + S*", _ONE_LOST
        ),
        "hybrid": Published("4 √(KT) + √(8 D log K)", "–", "yes: D grows by T"),
        "hybrid_skipping": Published(f"4 √(KT) + 10 max({_SKIPPING}, 2 log K)", "–", _ONE_LOST),
        "damped": Published(
            "√(KT) + √(D log K) + d_max K^⅓ log K",
            "Σ (log T / Δ_i + σ_max / (Δ_i log K)) + d_max K^⅓ log K",
            _ALL_LOST,
        ),
        "sapo": Published("√(KT) log T + that of hybrid_skipping", "Σ log T / Δ_i + (1/K) Σ σ_max Δ_i", _ONE_LOST),
        "tsallis": Published("4 √(KT) + 1, no delay", "Σ (4 log T + 12) / Δ_i, no delay", _ONE_LOST),
        "tsallis_rv": Published(
            "2 √(KT) + 10 K log T + 16, no delay", "Σ (log T + 3) / Δ_i + 28 K log T, no delay", _ONE_LOST
        ),
        "bold": Published("√((σ_max + 1) KT), times √log K around exp3", "–", "yes: one copy is lost"),
        "exp3": Published("√(KT log K), no delay", "–", _ONE_LOST),
        "exp3_ix": Published("√(KT log K) with high probability, no delay", "–", _ONE_LOST),
        "exp3_fixed": Published("d_max + √((K + d_max) T log K)", "–", _ALL_LOST),
        "exp3_delayed": Published("min over β of (|S_β| + β log K + (KT + D_β) / β)", "–", _ONE_LOST),
        "exp3_dropping": Published("√((KT + D) log K)", "–", "yes: D grows by T"),
        "exp3_adaptive": Published("√((KT + D) log K)", "–", "yes: D grows by T"),
        "exp3_drift": Published("√((KT + D) log K) with high probability", "–", "yes: D grows by T"),
        "ucb": Published("–", "Σ (8 log T / Δ_i + 3.5 Δ_i) + Σ Δ_i G_i", _ONE_LOST),
        "queued": Published("–", "that of UCB1 without delay + Σ Δ_i G_i", _ONE_LOST),
        "klucb": Published("–", "Σ Δ_i log T / kl(μ_i, μ*), no delay", _ONE_LOST),
        "thompson": Published("–", "Σ Δ_i log T / kl(μ_i, μ*), no delay", _ONE_LOST),
        "elimination": Published("–", "min over q of Σ log T / (q Δ_i) + max d_i(q)", _ONE_LOST),
        "patient": Published("–", "Σ (log T / Δ_i + Δ_i^(1 - 1/min(α, ½))) up to logarithms", _ONE_LOST),
        "epsilon_greedy": Published("–", "–", _ONE_LOST),
        "ewma": Published("–", "–", _ONE_LOST),
        "uniform": Published("–", "–", "yes: it learns nothing anyway"),
    }
)
