"""Which arm was better on average so far, from the recorded randomisation: for means that move as they like."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.inference import forecast
from belated.inference.bets import MAX_ARMS, Bets
from belated.inference.estimates import Estimate
from belated.inference.method import Counted, Method, Options, Pair
from belated.inference.shares import level, levels
from belated.inference.stream import Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]

INDEPENDENT_DRAWS = (
    "Each arm was drawn afresh with the recorded propensity, and no outcome depends on what is drawn later."
)
PLAIN = "Averages are over the decisions so far: they say nothing of next week."
OPEN = (
    "Averages are over the decisions so far, each counted by how open the choice was: they say nothing of next week. A"
    " floor for the shares, set before the first decision, makes them plain averages."
)
WHOLE_WEEKS = "Where arms take turns to be better, by day or weekday, look at the end of whole weeks."


class Randomisation(Method):
    """Bets on which arm was drawn (`belated.inference.bets`)."""

    name = "randomisation"
    moving = True
    assumptions = (INDEPENDENT_DRAWS,)

    def __init__(self, stream: Stream, labels: Sequence[Arm], counted: Counted, options: Options) -> None:
        super().__init__(stream, labels, counted, options)
        if stream.bets is None:
            raise InvalidValue(
                f"method 'randomisation' compares at most {MAX_ARMS} arms; here are {self.n_arms}", "method"
            )
        if stream.rounds and not stream.bets.compared:
            raise InvalidValue(
                "method 'randomisation' needs decisions that were open: propensities above 0 and below 1, of every arm"
                f" where there are three or more; none of {stream.rounds:,} decisions has them",
                "method",
            )
        self.bets: Bets = stream.bets
        with np.errstate(invalid="ignore"):
            self.means = np.where(
                stream.decisions > 0, (stream.tally.rewards + 0.5 * stream.unknown) / stream.decisions, np.nan
            )

    @property
    def leader(self) -> int | None:
        """The arm with evidence against all others; without such, that with the largest average advantage."""
        if not self.bets.compared:
            return None
        present = np.flatnonzero(self.present).tolist()
        surest = max(present, key=self._least_evidence)
        if self._least_evidence(surest) > 0.0:
            return surest
        return max(present, key=self._advantage)

    def _least_evidence(self, arm: int) -> float:
        """Return the least evidence that an arm is better than each of its rivals, those to come next included."""
        return self.bets.least_evidence(arm, self.rivals(arm))

    def _advantage(self, arm: int) -> float:
        """Return by how much an arm is better than those it was compared with, on average over the comparisons."""
        rivals = self.rivals(arm).tolist()
        weights = [self.bets.weight(arm, other) for other in rivals]
        gains = [self.bets.gain(arm, other) for other in rivals]
        return sum(gains) / sum(weights) if any(weights) else -math.inf

    @property
    def candidates(self) -> list[int]:
        """The arms that are not ruled out as the best: all best arms are among them with probability 1 - alpha."""
        needed = math.log(1.0 / self.options.alpha)
        return [arm for arm in np.flatnonzero(self.present).tolist() if self._against(arm) < needed]

    def _against(self, arm: int) -> float:
        """Return the evidence that one of its rivals is better than an arm."""
        return self.bets.against(arm, self.rivals(arm))

    @property
    def is_plain(self) -> bool:
        """Whether all decisions weigh the same in the comparison of the leader with its rivals."""
        leader = self.leader
        return leader is not None and all(self.bets.is_plain(leader, each) for each in self.rivals(leader).tolist())

    @property
    def named(self) -> tuple[int, int] | None:
        """The arm that ever had the most evidence, if that was enough, and after how many decisions it had it."""
        peaks = self.bets.state.peaks
        arm = int(np.argmax(peaks[:, 0]))
        return (arm, int(peaks[arm, 1])) if peaks[arm, 0] >= self.bets.needed(self.options.alpha) else None

    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        return self.bets.means(levels(2.0 * self.shares.arms(), alpha))

    def difference(self, pair: Pair) -> float:
        return self.bets.difference(*pair)

    def differences(self, pairs: Sequence[Pair], alpha: float, control: int | None) -> tuple[Floats, Floats]:
        first, second = np.array(pairs).T
        parts = (
            self.shares.differences(first, second) if control is None else self.shares.differences_to(control, first)
        )
        return self.bets.differences(list(pairs), levels(parts, alpha))

    def p_value(self, leader: int) -> float:
        """Return the least alpha at which an arm wins now: K / E, E the least evidence against another arm."""
        return min(1.0, math.exp(min(self.bets.needed(1.0) - self._least_evidence(leader), 0.0)))

    def margins(self, leader: int) -> Floats:
        return np.array([self.bets.evidence(leader, each) for each in self.rivals(leader).tolist()])

    def progress(self, leader: int) -> float:
        rivals = len(self.rivals(leader))
        had, needed = self._least_evidence(leader) + math.log(rivals), self.bets.needed(self.options.alpha)
        return min(max(had / (needed + math.log(rivals)), 0.0), 1.0)

    def more(self, leader: int) -> forecast.Range | None:
        if self.options.outcomes != "settled":
            return None
        arms = forecast.leading(self.means, self.present)
        return forecast.by_bets(self.bets, self.stream.tally, arms, self.options.alpha)

    def uplift(self, control: int | None, alpha: float) -> Estimate | None:
        value, low, high = self.bets.play(control, level(2.0, alpha))
        return None if math.isnan(value) else Estimate(value, low, high)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [PLAIN if self.is_plain else OPEN] if self.bets.compared else []
        if self.bets.compared and self.stream.level.movement() is not None:
            notes.append(WHOLE_WEEKS)
        blind = self.bets.blind
        if blind:
            notes.append(
                f"{blind:,} decisions without the propensities of all arms count for the means, not for comparisons."
            )
        alone = [
            str(self.labels[k])
            for k in np.flatnonzero(self.present).tolist()
            if all(self.bets.weight(k, other) == 0.0 for other in self.rivals(k).tolist())
        ]
        if self.bets.compared and alone:
            notes.append(f"Not compared, as no decision was open between it and another arm: {', '.join(alone)}.")
        return (*notes, *super().notes)
