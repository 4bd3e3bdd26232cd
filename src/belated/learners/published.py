"""What is published about each learner: its regret bounds, and the effect of one outcome that never comes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Published(NamedTuple):
    """The regret bounds of a learner, against any losses and for stochastic ones, – where there is none.

    `endless` says whether it is robust to one outcome that never comes: whether its bounds survive, or its play, where
    it has no bounds. `why` gives the reason.
    """

    adversarial: str
    stochastic: str
    endless: bool
    why: str


NOTATION = {
    "K, T, Δ": "arms, rounds, the gap of each arm that is not the best (sums are over these arms)",
    "σ, G": "the largest number of outstanding decisions, of all arms and of one arm",
    "D, d": "the sum of all delays, the longest delay",
    "Φ": "min over sets S of rounds of |S| + √(D_rest log K); D_rest is the sum of the delays of all other rounds",
    "S*": "the number of decisions that the learner skips",
    "endless?": "whether it is robust to one outcome that never comes",
    "certain?": "whether it plays one arm with certainty: its propensities are 1, weighting says nothing of other arms",
    "‡": "proved without delay only",
    "≈": "recalled, not checked against the paper, or proved for a close variant",
}
"""The symbols of the bounds. Orders, unless there are constants."""

_ONE_LOST = "it costs one outcome and nothing else"
_COUNTED = "it stays outstanding and is counted in every round: D grows by T"
_SKIPPED = "it is skipped and no longer counted"
_TOLD = "with a longest delay of T it stays near uniform play"

published: Mapping[str, Published] = MappingProxyType(
    {
        "guarded": Published(
            "– (measured; in part, docs/theory.md)", "– (measured)", True, "what has come is judged by its age"
        ),
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
        "bold": Published(
            "√((σ + 1) KT), exp3: √log K times", "–", True, "one copy waits for ever; another takes its place"
        ),
        "exp3": Published("√(KT log K) ‡ ≈", "–", True, _ONE_LOST),
        "exp3_ix": Published("√(KT log K), high probability ‡ ≈", "–", True, _ONE_LOST),
        "exp3_fixed": Published("d + √((K + d) T log K)", "–", False, _TOLD),
        "exp3_delayed": Published("min over β: |S_β| + β log K + (KT + D_β)/β", "–", True, _SKIPPED),
        "exp3_dropping": Published(
            "√((KT + D) log K)", "–", True, "it is skipped, but the total delay that it is told grows by T"
        ),
        "exp3_adaptive": Published("√((KT + D) log K) ≈", "–", True, _COUNTED),
        "exp3_drift": Published("√((KT + D) log K), high probability ≈", "–", True, _COUNTED),
        "ucb": Published("–", "Σ (8 log T/Δ + 3.5 Δ + Δ G)", True, _ONE_LOST),
        "queued": Published("–", "UCB1's without delay + Σ Δ G", True, "any other outcome of the arm serves as well"),
        "klucb": Published("–", "Σ Δ log T/kl ‡ ≈", True, _ONE_LOST),
        "thompson": Published("–", "Σ Δ log T/kl ‡ ≈", True, _ONE_LOST),
        "elimination": Published("–", "min over q: Σ log T/(q Δ) + max d(q)", True, _ONE_LOST),
        "patient": Published("–", "Σ (log T/Δ + Δ^(1 - 1/min(α, ½))) ≈", True, "it counts as zero reward"),
        "epsilon_greedy": Published("–", "–", True, _ONE_LOST),
        "ewma": Published("–", "–", True, _ONE_LOST),
        "uniform": Published("–", "–", True, "it does not learn"),
    }
)
