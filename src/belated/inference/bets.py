"""Bets on the recorded randomisation: which of two arms was better on average so far, however means moved.

At each decision arm a is drawn with a recorded probability, whatever the world is about to do. So what follows can be
said of means that move as they like, even as an adversary likes who sees everything but the draw. For a pair (a, b), in
the order of decisions, as far as they are settled,

    x = v (y - c) / p_a  where a was played,   -v (y - c) / p_b  where b was,   0  elsewhere,

y being the reward, c the mean reward of earlier decisions, and v <= min(p_a, p_b) a weight that is known before the
draw. Given the past, E[x] = v (mu_a - mu_b) =: v delta, and |x| < 1. For every fixed kappa in (0, 1), 1 + kappa v delta
<= exp(kappa v delta), so

    prod (1 + kappa x) exp(-kappa sum of v delta)

is at most a fair game: its expectation never rises. The same holds for E_ab, the average over fixed kappa_j with fixed
weights w_j. So P(E_ab >= 1 / alpha at some time while the average of delta so far, weighted by v, is <= 0) <= alpha
(Ville's inequality), and the S at which the sum of w_j exp(log M_j - kappa_j S) is 2 / alpha bounds the sum of v delta.

Bets and weights must be fixed before the first decision. Bets that follow the data prove only that a was better at some
time. With a floor f for the shares of both arms v = f: what is compared is the plain average over the decisions so far.
Without a floor v = p_a p_b / (p_a + p_b): each decision weighs how open the choice was. It is what x with
pi = p_a / (p_a + p_b) comes to, [a or b was played] ([a was played] - pi) (y - c), which varies least for its weight.

The same bets with other x give intervals for each arm's own mean over the decisions in which it was played
(x = y - c), and for what was played against other shares u (x = v (y - c)(1 - u_a / p_a)). See docs/inference.md.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.core import bets as core
from belated.core.bets import KAPPAS, LOG_UNIT, WEIGHTS, State, Table, compiled_advance, compiled_pairs

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_ARMS = 32
"""With more arms no bets are kept: there are a row of 60 numbers for each pair."""
_HALVINGS = 60


class Bets:
    """The bets on some arms. Arms may come and go; the same decisions give the same bits, in however many pieces."""

    def __init__(self, n_arms: int, floors: Floats | None = None) -> None:
        """floors: the least probability of each arm that is guaranteed before the first decision."""
        self.first_arms = n_arms
        """How many arms there were at the beginning."""
        self.floors: Floats = np.zeros(n_arms) if floors is None else np.asarray(floors, dtype=np.float64)
        self.ever: Mask = np.ones(n_arms, dtype=np.bool_)
        """Which arms have ever been there."""
        self.state = _new_state(n_arms)
        self._guarantee()

    def guarantee(self, floors: Floats) -> None:
        """Take other floors; before the first decision only."""
        if not self.decisions:
            self.floors = np.asarray(floors, dtype=np.float64)
            self._guarantee()

    def _guarantee(self) -> None:
        """Fix what a decision weighs at most."""
        floors, n_arms = self.floors, len(self.floors)
        state = self.state
        if not n_arms:
            return
        for hi in range(n_arms):
            for lo in range(hi):
                state.caps[lo, hi] = min(floors[lo], floors[hi])
        instead = [1.0 / n_arms, *[1.0] * n_arms]  # by uniform play, and by an arm alone
        least = [floors.min(), *floors.tolist()]
        for row, (floor, share) in enumerate(zip(least, instead, strict=True)):
            state.play_caps[row] = core.play_weight(floor, share) if floor > 0.0 else 1.0
        state.totals[core.GUARANTEED] = float(floors.min() > 0.0)

    @property
    def decisions(self) -> int:
        """How many decisions there are in it."""
        return int(self.state.totals[core.DECISIONS])

    @property
    def blind(self) -> int:
        """Decisions without the probabilities that a comparison needs."""
        return int(self.state.totals[core.BLIND])

    @property
    def compared(self) -> bool:
        """Whether any decision was open between two arms."""
        return bool((self.state.pairs.sums[:, core.WEIGHT] > 0.0).any())

    @property
    def present(self) -> Mask:
        """Which arms are there."""
        return self.state.present == 1

    def grow(self) -> None:
        """Make room for one more arm, which is not there yet."""
        old, n_arms = self.state, len(self.floors) + 1
        floor = float(self.floors.min())  # what all arms have, a newcomer will have, too, or its decisions weigh less
        self.floors, self.ever = np.append(self.floors, floor), np.append(self.ever, False)
        self.state = new = _new_state(n_arms)
        for larger, smaller in zip(_arrays(new), _arrays(old), strict=True):
            larger[tuple(slice(size) for size in smaller.shape)] = smaller
        new.present[-1] = 0
        new.caps[:-1, -1] = np.minimum(self.floors[:-1], floor)
        new.play_caps[-1] = core.play_weight(floor, 1.0) if floor > 0.0 else 1.0

    def change(self, arm: int, present: bool) -> None:
        """Let an arm come or leave."""
        self.state.present[arm] = present
        if present and not self.ever[arm]:
            self.ever[arm] = True
            self.state.totals[core.GUARANTEED] = 0.0
            self._give_part(arm)

    def _give_part(self, newcomer: int) -> None:
        """Give an arm that comes a part of the wealth against each other arm, and the others a part of that against it.

        It takes 1 / (K - 1) of what the arms that are there have now, and no more than it would have begun with: a
        false statement about it is then no likelier than about the first arms.
        """
        scales, present = self.state.scales, self.present.copy()
        count = int(np.count_nonzero(present))
        most = 1.0 / (max(count, self.first_arms) - 1)
        present[newcomer] = False
        for arm in np.flatnonzero(self.ever).tolist():
            if arm == newcomer:
                continue
            others = self.ever.copy()
            others[[arm, newcomer]] = False
            if (others & present).any():
                others &= present
            own = self.state.evidence[others, arm] + scales[others, arm]
            total = _log_sum(own)
            part = min(1.0 / max(count - 1, 2), math.exp(min(math.log(most) - total, 0.0)))
            scales[others, arm] += math.log1p(-part)
            scales[newcomer, arm] = total + math.log(part)
        scales[self.ever, newcomer] = -math.log(np.count_nonzero(self.ever) - 1.0)

    def add(self, arms: Integers, rewards: Floats, chances: Floats) -> None:
        """Go on by some decisions; chances: the probability of every arm at each of them, nan where it is not known."""
        compiled_advance()(
            np.ascontiguousarray(arms, dtype=np.int64),
            np.ascontiguousarray(rewards, dtype=np.float64),
            np.ascontiguousarray(chances, dtype=np.float64),
            self.state,
        )

    def pair(self, a: int, b: int) -> tuple[int, int]:
        """Return the row of two arms, and the side on which a is better than b."""
        return (b * (b - 1) // 2 + a, 0) if a < b else (a * (a - 1) // 2 + b, 1)

    def evidence(self, a: int, b: int) -> float:
        """Return the log of the wealth of 'a is better than b', as a part of all wealth against b."""
        return float(self.state.evidence[a, b] + self.state.scales[a, b])

    def least_evidence(self, a: int, others: Integers) -> float:
        """Return the least evidence that an arm is better than each of some others."""
        return float((self.state.evidence[a, others] + self.state.scales[a, others]).min())

    def against(self, b: int, others: Integers) -> float:
        """Return the log of the wealth of some others against an arm: that it is not the best among them."""
        return _log_sum(self.state.evidence[others, b] + self.state.scales[others, b])

    def needed(self, alpha: float) -> float:
        """Return the evidence at which an arm wins: log of K / ((K - 1) alpha), for parts of the wealth."""
        return math.log(self.first_arms / ((self.first_arms - 1) * alpha))

    def weight(self, a: int, b: int) -> float:
        """Return the sum of v over the decisions between two arms; 0: they were never compared."""
        return float(self.state.pairs.sums[self.pair(a, b)[0], core.WEIGHT])

    def weight_of(self, a: int, b: int, first: float, second: float) -> float:
        """Return what a decision between two arms of these probabilities weighs."""
        return float(core.pair_weight(first, second, float(self.state.caps[min(a, b), max(a, b)])))

    def is_plain(self, a: int, b: int) -> bool:
        """Return whether all decisions weigh the same in the comparison of two arms."""
        return self.blind == 0 and self.state.pairs.sums[self.pair(a, b)[0], core.UNLIKE] == 0.0

    def difference(self, a: int, b: int) -> float:
        """Return the estimate of the average difference between the means of two arms; nan: never compared."""
        weight = self.weight(a, b)
        return min(max(self.gain(a, b) / weight, -1.0), 1.0) if weight > 0.0 else math.nan

    def gain(self, a: int, b: int) -> float:
        """Return the sum of x, which is positive where a does better than b."""
        row, side = self.pair(a, b)
        gain = float(self.state.pairs.sums[row, core.GAIN])
        return gain if side == 0 else -gain

    def differences(self, pairs: list[tuple[int, int]], levels: Floats) -> tuple[Floats, Floats]:
        """Return the ends of intervals for average differences, each end wrong with probability exp(-level)."""
        rows, sides = np.array([self.pair(a, b) for a, b in pairs]).T
        return _averages(self.state.pairs, rows, sides, levels)

    def play(self, control: int | None, level: float) -> tuple[float, float, float]:
        """Return by how much what was played was better than uniform play, or than always playing an arm."""
        row = np.array([0 if control is None else 1 + control])
        lows, highs = _averages(self.state.plays, row, np.zeros(1, dtype=np.int64), np.array([level]))
        gain, weight = self.state.plays.sums[row[0], [core.GAIN, core.WEIGHT]].tolist()
        return (gain / weight if weight > 0.0 else math.nan), float(lows[0]), float(highs[0])

    def log_wealth(self, a: int, b: int) -> Floats:
        """Return the log of the wealth of each bet on 'a is better than b', its weight included."""
        row, side = self.pair(a, b)
        return _logs(self.state.pairs, np.array([row]), np.array([side]))[0]

    def is_play_plain(self, control: int | None) -> bool:
        """Return whether all decisions weigh the same in `play`."""
        return self.blind == 0 and self.state.plays.sums[0 if control is None else 1 + control, core.UNLIKE] == 0.0

    def means(self, levels: Floats) -> tuple[Floats, Floats]:
        """Return the ends of intervals for each arm's average mean over the decisions in which it was played."""
        table = self.state.arms
        played, centres = table.sums[:, core.WEIGHT], table.sums[:, core.OFFSET]
        rows = np.arange(len(played))
        least = np.maximum(played, 1.0)
        low = (centres + _least_sums(table, rows, np.zeros_like(rows), levels)) / least
        high = (centres - _least_sums(table, rows, np.ones_like(rows), levels)) / least
        return (
            np.where(played > 0.0, np.clip(low, 0.0, 1.0), 0.0),
            np.where(played > 0.0, np.clip(high, 0.0, 1.0), 1.0),
        )

    def copy(self) -> "Bets":
        """Return bets of their own with the same wealth."""
        return Bets.from_arrays(self.to_arrays())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything, to go on exactly from here."""
        fixed = np.array([self.floors, self.ever, np.full(len(self.floors), float(self.first_arms))])
        parts = [fixed, *_arrays(self.state)]
        return {
            "numbers": np.concatenate([part.ravel() for part in parts if part.dtype == np.float64]),
            "shifts": np.concatenate([part.ravel() for part in parts if part.dtype == np.int64]),
            "arms": np.array([len(self.floors)], dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Bets":
        bets = cls(int(arrays["arms"][0]))
        fixed = np.zeros((3, len(bets.floors)))
        at = {np.dtype(np.float64): 0, np.dtype(np.int64): 0}
        source = {np.dtype(np.float64): arrays["numbers"], np.dtype(np.int64): arrays["shifts"]}
        for part in [fixed, *_arrays(bets.state)]:
            begin = at[part.dtype]
            part[...] = source[part.dtype][begin : begin + part.size].reshape(part.shape)
            at[part.dtype] += part.size
        bets.floors, bets.ever, bets.first_arms = fixed[0], fixed[1] > 0.0, int(fixed[2, 0])
        return bets


class PairBets:
    """The bets on pairs of arms alone, for simulations, where all rewards and all probabilities are known."""

    def __init__(self, n_arms: int, floor: float = 0.0) -> None:
        """floor: the least probability of every arm."""
        state = Bets(n_arms, np.full(n_arms, floor)).state
        self._pairs, self._caps, self._totals = state.pairs, state.caps, state.totals
        self.n_arms = n_arms

    def add(self, arms: Integers, rewards: Floats, chances: Floats) -> None:
        """Go on by some decisions, in their order."""
        compiled_pairs()[0](
            np.ascontiguousarray(arms, dtype=np.int64),
            np.ascontiguousarray(rewards, dtype=np.float64),
            np.ascontiguousarray(chances, dtype=np.float64),
            self._pairs,
            self._caps,
            self._totals,
        )

    def evidence(self) -> Floats:
        """Return log E of 'a is better than b' for all pairs, of shape (a, b); inf where a is b."""
        found = np.full((self.n_arms, self.n_arms), math.inf)
        compiled_pairs()[1](self._pairs, found)
        return found

    def winner(self, alpha: float) -> int:
        """Return the arm that wins now, E >= K / alpha against every other; -1: none does."""
        least = self.evidence().min(axis=1)
        return int(np.argmax(least)) if least.max() >= math.log(self.n_arms / alpha) else -1


def _new_state(n_arms: int) -> State:
    def table(rows: int) -> Table:
        shape = (rows, 2, KAPPAS.size)
        return Table(np.ones(shape), np.zeros(shape, dtype=np.int64), np.zeros((rows, core.SUMS)))

    return State(
        pairs=table(n_arms * (n_arms - 1) // 2),
        arms=table(n_arms),
        plays=table(n_arms + 1),
        outcomes=np.zeros((n_arms, 2)),
        totals=np.zeros(core.TOTALS),
        caps=np.zeros((n_arms, n_arms)),
        play_caps=np.ones(n_arms + 1),
        evidence=np.zeros((n_arms, n_arms)),
        scales=np.full((n_arms, n_arms), -math.log(max(n_arms - 1, 1))),
        peaks=np.tile([-math.inf, 0.0], (n_arms, 1)),
        present=np.ones(n_arms, dtype=np.int64),
        shares=np.zeros(n_arms),
    )


def _arrays(state: State) -> list[NDArray[Any]]:
    return [array for part in state for array in (part if isinstance(part, Table) else [part])]


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _averages(table: Table, rows: Integers, sides: Integers, levels: Floats) -> tuple[Floats, Floats]:
    weights = table.sums[rows, core.WEIGHT]
    least = np.where(weights > 0.0, weights, 1.0)
    lows = np.where(weights > 0.0, _least_sums(table, rows, sides, levels) / least, -1.0)
    highs = np.where(weights > 0.0, -_least_sums(table, rows, 1 - sides, levels) / least, 1.0)
    return np.maximum(lows, -1.0), np.minimum(highs, 1.0)


def _logs(table: Table, rows: Integers, sides: Integers) -> Floats:
    """Return the log of the wealth of each bet, its weight included: (rows, bets)."""
    return np.asarray(np.log(table.wealth[rows, sides]) + table.shifts[rows, sides] * LOG_UNIT + np.log(WEIGHTS))


def _least_sums(table: Table, rows: Integers, sides: Integers, levels: Floats) -> Floats:
    """Return the largest S at which the wealth of a row, had its x been smaller by S in all, is still exp(level)."""
    logs = _logs(table, rows, sides)
    low = -table.sums[rows, core.WEIGHT] - 1.0
    high = -low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        terms = logs - np.outer(middle, KAPPAS)
        top = terms.max(axis=1)
        is_enough = top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) >= levels
        low, high = np.where(is_enough, middle, low), np.where(is_enough, high, middle)
    return low
