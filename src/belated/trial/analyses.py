"""Analyses: which arm wins, in many trials at once. Counts are failures and successes: (..., arms, 2)."""

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.inference import capital
from belated.inference.tally import ENDS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOBODY = -1
"""In place of an arm that wins."""
FEWEST = 5
"""Outcomes that an arm needs before the z-test is used on it: with fewer no textbook would."""
_ROWS = 4096
"""Rows of counts in one call: their arrays stay in a core's cache."""


def leaders(counts: Integers) -> Integers:
    """Return the arm with the largest mean; an arm without an outcome leads nobody."""
    total = counts.sum(axis=-1)
    return np.argmax(np.where(total > 0, counts[..., 1] / np.maximum(total, 1), -1.0), axis=-1)


def first_wins(counts: Integers, alpha: float) -> tuple[Integers, Integers]:
    """Return the first look of each trial at which an arm wins by betting, and that arm; the last look and NOBODY where
    none does. Counts: (trials, looks, arms, 2).

    An arm wins as in `belated.inference.betting`: the evidence that it is better than each other arm is at least
    log(arms / alpha). To find evidence exactly is slow, so bounds from above come first, and then each trial's
    looks in their order until one wins.
    """
    trials, looks, arms, _ = counts.shape
    level = float(np.log(arms / alpha))
    leader = leaders(counts)
    possible = _most_evidence(counts, leader) >= level
    candidates = np.argwhere(possible)
    for begin in range(0, len(candidates), _ROWS):
        trial, look = candidates[begin : begin + _ROWS].T
        near = _evidence_at_pooled(counts[trial, look], leader[trial, look])
        possible[trial, look] = near >= level
    at, winner = np.full(trials, looks - 1), np.full(trials, NOBODY)
    open_ = np.flatnonzero(possible.any(axis=1))
    while open_.size:
        look = np.argmax(possible[open_], axis=1)
        arm = leader[open_, look]
        wins = _evidence(counts[open_, look], arm) >= level
        at[open_[wins]], winner[open_[wins]] = look[wins], arm[wins]
        possible[open_, look] = False
        open_ = open_[~wins & possible[open_].any(axis=1)]
    return at, winner


def first_shown(evidence: Floats, alpha: float) -> tuple[Integers, Integers]:
    """Return the same by bets on the recorded randomisation: evidence of shape (trials, looks, arms), the least against
    another arm.
    """
    level = np.log(evidence.shape[2] / alpha)
    wins = evidence.max(axis=2) >= level
    at = np.where(wins.any(axis=1), wins.argmax(axis=1), evidence.shape[1] - 1)
    rows = np.arange(len(evidence))
    return at, np.where(wins[rows, at], evidence[rows, at].argmax(axis=1), NOBODY)


def _most_evidence(counts: Integers, leader: Integers) -> Floats:
    """Return a bound of the least evidence of the leader against another arm, in closed form.

    No gambler owns more than the likelihood ratio of what was seen: K(m) <= exp(n kl(mean, m)), whatever the shares. At
    m the mean of both arms together the evidence is at most the sum of both exponents, half the G statistic.
    """
    first = np.take_along_axis(counts, leader[..., None, None], axis=-2)
    both = first + counts
    total = (_log_likelihood(first) + _log_likelihood(counts)) - _log_likelihood(both)
    return np.where(_is_other(counts, leader), total, np.inf).min(axis=-1) + 1e-6  # rounding


def _log_likelihood(counts: Integers) -> Floats:
    """Return the log of the largest likelihood of these counts: the sum of c log(c / n)."""
    total = counts.sum(axis=-1, keepdims=True)
    ratio = np.where(counts > 0, counts / np.maximum(total, 1), 1.0)
    return (counts * np.log(ratio)).sum(axis=-1)


def _is_other(counts: Integers, leader: Integers) -> Bools:
    return np.arange(counts.shape[-2]) != leader[..., None]


def _pairs(counts: Integers, leader: Integers) -> tuple[Floats, Floats]:
    """Return the leader's counts and those of another arm, a row for each pair; counts of shape (trials, arms, 2)."""
    others = counts[_is_other(counts, leader)].astype(np.float64)
    first = counts[np.arange(len(counts)), leader].astype(np.float64)
    return np.repeat(first, counts.shape[1] - 1, axis=0), others


def _evidence_at_pooled(counts: Integers, leader: Integers) -> Floats:
    """Return a closer bound: both capitals at m the mean of both arms together, where their product is nearly least."""
    first, second = _pairs(counts, leader)
    both = first + second
    m = both[:, 1] / both.sum(axis=1)
    above = capital.log_capital(first, ENDS, m)
    below = capital.log_capital(second[:, ::-1], ENDS, 1.0 - m)
    return (above + below).reshape(len(counts), -1).min(axis=1) + 1e-6


def _evidence(counts: Integers, leader: Integers) -> Floats:
    """Return the least evidence of the leader against another arm, of each trial."""
    first, second = _pairs(counts, leader)
    return _evidence_of(first, second).reshape(len(counts), -1).min(axis=1)


def _evidence_of(first: NDArray[Any], second: NDArray[Any]) -> Floats:
    """Return the evidence that arms are better than others, a row for each pair; equal pairs are done once."""
    pairs, place = np.unique(np.concatenate([first, second], axis=1).astype(np.float64), axis=0, return_inverse=True)
    found = np.concatenate(
        [
            capital.log_evidence(piece[:, :2], piece[:, 2:], ENDS)
            for piece in np.split(pairs, range(_ROWS, len(pairs), _ROWS))
        ]
    )
    return found[place.reshape(-1)]


def beat_control(counts: Integers, alpha: float) -> Bools:
    """Return whether some arm is shown to be better than the control, arm 0, by betting; counts: (trials, arms, 2).

    The evidence for one of them is at least log((arms - 1) / alpha).
    """
    level = float(np.log((counts.shape[1] - 1) / alpha))
    control = np.broadcast_to(counts[:, :1], counts[:, 1:].shape)
    bound = _log_likelihood(counts[:, 1:]) + _log_likelihood(control) - _log_likelihood(counts[:, 1:] + control)
    possible = bound + 1e-6 >= level
    found = np.zeros(possible.shape, dtype=np.bool_)
    found[possible] = _evidence_of(counts[:, 1:][possible], control[possible]) >= level
    return np.asarray(found.any(axis=1))


def z_statistics(counts: Integers) -> tuple[Integers, Floats]:
    """Return the leader, and its least z statistic against another arm: counts of shape (..., arms, 2).

    The two-sample z-test with pooled variance; -inf where an arm has too few outcomes.
    """
    leader = leaders(counts)
    z = _z(np.take_along_axis(counts, leader[..., None, None], axis=-2), counts)
    return leader, np.where(_is_other(counts, leader), z, np.inf).min(axis=-1)


def _z(first: Integers, second: Integers) -> Floats:
    """Return the z statistics of arms against others, by their counts."""
    own, own_successes, total, successes = first.sum(axis=-1), first[..., 1], second.sum(axis=-1), second[..., 1]
    least = np.maximum(np.minimum(own, total), 1)
    pooled = (own_successes + successes) / np.maximum(own + total, 1)
    error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / np.maximum(own, 1) + 1.0 / np.maximum(total, 1)))
    difference = own_successes / np.maximum(own, 1) - successes / np.maximum(total, 1)
    z = np.where(error > 0.0, difference / np.where(error > 0.0, error, 1.0), 0.0)
    return np.where(least >= FEWEST, z, -np.inf)


def control_statistics(counts: Integers) -> Floats:
    """Return the largest z statistic of an arm against the control, arm 0: counts of shape (..., arms, 2)."""
    return _z(counts[..., 1:, :], counts[..., :1, :]).max(axis=-1)


def is_significant(z: Floats, critical: float) -> Bools:
    """Return whether a statistic is at least critical, and above 0."""
    return np.asarray((z >= critical) & (z > 0.0))


def z_wins(leader: Integers, z: Floats, critical: float) -> Integers:
    """Return the leader where its statistic is at least critical, and above 0; else NOBODY."""
    return np.where(is_significant(z, critical), leader, NOBODY)


def critical_value(alpha: float, arms: int) -> float:
    """Return the critical value of a one-sided z-test at alpha / (arms - 1)."""
    return NormalDist().inv_cdf(1.0 - alpha / (arms - 1))


def calibrated_value(leader: Integers, z: Floats, alpha: float) -> float:
    """Return the critical value at which an arm other than the control, arm 0, wins in at most a share alpha of trials.

    The leaders and statistics are those of trials under the null.
    """
    allowed = int(alpha * leader.size + 1e-9)
    ranked = np.sort(np.where(leader > 0, z, -np.inf))[::-1]
    return float(np.nextafter(ranked[allowed], np.inf)) if allowed < ranked.size else 0.0


def first_z_wins(counts: Integers, critical: float) -> tuple[Integers, Integers]:
    """Return the same as `first_wins`, by the z-test at every look."""
    winner = z_wins(*z_statistics(counts), critical)
    wins = winner != NOBODY
    at = np.where(wins.any(axis=1), np.argmax(wins, axis=1), counts.shape[1] - 1)
    return at, winner[np.arange(len(counts)), at]
