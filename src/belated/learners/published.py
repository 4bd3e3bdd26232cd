"""What is published about each learner: its regret bounds, and what one outcome that never comes does to it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Published(NamedTuple):
    """Bounds on the regret against any losses and on stochastic ones, – where there is none; and what one outcome that
    never comes does to them, or to the play of a learner without any: harmless, yes or no, and why.
    """

    adversarial: str
    stochastic: str
    endless: bool
    why: str


NOTATION = {
    "K, T, Δ": "arms, rounds, the gap of each arm that is not the best (sums are over these arms)",
    "σ, G": "the most decisions outstanding at once, of all arms and of the arm",
    "D, d": "the sum of all delays, the longest delay",
    "Φ": "min over sets S of rounds of |S| + √(D_rest log K), D_rest being the delays of all others",
    "S*": "decisions that the learner skips",
    "endless?": "whether it is robust to one outcome that never comes",
    "‡": "proved where nothing is delayed; under delay nothing is",
    "≈": "recalled rather than read, or proved of a near relative of this form",
}
"""The symbols of the bounds. Orders, unless there are constants."""

_ONE_LOST = "one outcome is missing, nothing else"
_COUNTED = "it is waited for and counted in every round: D grows by T"
_SKIPPED = "it is skipped, and counts no more"
_TOLD = "told a longest delay of T, it stays near uniform play"

published: Mapping[str, Published] = MappingProxyType(
    {
        "balanced": Published("√(KT) + 3√(D log K), a sketch", "– (measured)", True, _SKIPPED),
        "robust": Published("√(KT) + Φ + S* + Kσ", "Σ (log T/Δ + σ/(Δ log K)) + Kσ + S*", True, _SKIPPED),
        "hybrid": Published("4√(KT) + √(8 D log K)", "–", True, _COUNTED),
        "hybrid_skipping": Published("4√(KT) + 10 max(Φ, 2 log K)", "–", True, _SKIPPED),
        "damped": Published(
            "√(KT) + √(D log K) + d K^⅓ log K", "Σ (log T/Δ + σ/(Δ log K)) + d K^⅓ log K", False, _TOLD
        ),
        "sapo": Published("√(KT) log T + hybrid_skipping's ≈", "Σ log T/Δ + (σ/K) Σ Δ", True, _ONE_LOST),
        "tsallis": Published("4√(KT) + 1 ‡", "Σ (4 log T + 12)/Δ + … ‡", True, _ONE_LOST),
        "tsallis_rv": Published("2√(KT) + 10 K log T + 16 ‡", "Σ (log T + 3)/Δ + 28 K log T + … ‡", True, _ONE_LOST),
        "bold": Published("√((σ + 1) KT), exp3: √log K times", "–", True, "one copy waits for ever, another is made"),
        "exp3": Published("√(KT log K) ‡ ≈", "–", True, _ONE_LOST),
        "exp3_ix": Published("√(KT log K), high probability ‡ ≈", "–", True, _ONE_LOST),
        "exp3_fixed": Published("d + √((K + d) T log K)", "–", False, _TOLD),
        "exp3_delayed": Published("min over β: |S_β| + β log K + (KT + D_β)/β", "–", True, _SKIPPED),
        "exp3_dropping": Published("√((KT + D) log K)", "–", True, "it is skipped, but told: D grows by T"),
        "exp3_adaptive": Published("√((KT + D) log K) ≈", "–", True, _COUNTED),
        "exp3_drift": Published("√((KT + D) log K), high probability ≈", "–", True, _COUNTED),
        "ucb": Published("–", "Σ (8 log T/Δ + 3.5 Δ + Δ G)", True, _ONE_LOST),
        "queued": Published("–", "UCB1's without delay + Σ Δ G", True, "any other outcome of that arm will do"),
        "klucb": Published("–", "Σ Δ log T/kl ‡ ≈", True, _ONE_LOST),
        "thompson": Published("–", "Σ Δ log T/kl ‡ ≈", True, _ONE_LOST),
        "elimination": Published("–", "min over q: Σ log T/(q Δ) + max d(q)", True, _ONE_LOST),
        "patient": Published("–", "Σ (log T/Δ + Δ^(1 - 1/min(α, ½))) ≈", True, "it counts as no reward"),
        "epsilon_greedy": Published("–", "–", True, _ONE_LOST),
        "ewma": Published("–", "–", True, _ONE_LOST),
        "uniform": Published("–", "–", True, "it learns nothing anyway"),
    }
)
