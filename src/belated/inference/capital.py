"""Capital: what a gambler owns who bets against a mean, and bounds from how much that is.

For outcomes r_1, r_2, … in [0, 1] of one arm, each with mean mu given all that came before, and m in (0, 1), the
gambler who suspects that mu is above m owns

    K_n(m) = sum over kappa of  w(kappa)  prod over i of (1 - kappa + kappa r_i / m)

after n outcomes: a mixture of gamblers who each bet the share kappa of what they own in every round. At m = mu each
product is a fair game, so P(K_n(mu) >= 1/alpha for some n) <= alpha (Ville's inequality), whatever the rule by which
arms are chosen and outcomes are looked at. The lower bound is the smallest m with K_n(m) < 1/alpha. The upper bound is
1 minus the lower bound of 1 - r_i. This is a confidence sequence by betting (Waudby-Smith & Ramdas 2024); its bets are
fixed shares instead of shares that follow the outcomes, so nothing depends on the order of outcomes, and their counts
are all that must be kept (`belated.inference.tally`).

log K_n is convex and decreasing in m. So bounds of sums such as mu_1 - mu_2 are convex problems, too: the capitals of
two arms, multiplied, are again the capital of one gambler, and the least sum of w_k m_k over all m with

    prod over k of K_k(m_k) < 1/alpha

is a lower bound of the sum of w_k mu_k (for w_k < 0 the capital of the gambler who suspects that mu_k is below m_k).
That is narrower than the difference of two intervals, by up to sqrt(2), since not both errors are large at once.

Functions here take many problems at once: counts of shape (problems, places). Places are the same from both ends.
"""

import numpy as np
from numpy.typing import NDArray

from belated.core.capital import LOG_WEIGHTS as LOG_WEIGHTS
from belated.core.capital import SHARES as SHARES
from belated.core.capital import WEIGHTS as WEIGHTS
from belated.core.capital import compiled

Floats = NDArray[np.float64]


def log_capital(counts: Floats, places: Floats, m: Floats) -> Floats:
    """Return log K(m) of the gambler who suspects that the mean is above m; m > 0, one for each row of counts."""
    return with_slope(counts, places, m)[0]


def with_slope(counts: Floats, places: Floats, m: Floats) -> tuple[Floats, Floats]:
    """Return log K(m) and its derivative."""
    m = _array(m)
    values, slopes = np.empty(m.size), np.empty(m.size)
    compiled()[0](_array(counts), _array(places), m, SHARES, LOG_WEIGHTS, values, slopes)
    return values, slopes


def lower(counts: Floats, places: Floats, level: float | Floats) -> Floats:
    """Return the smallest m at which the capital is below exp(level): the lower bound of each row's mean."""
    bounds = np.empty(counts.shape[0])
    compiled()[1](_array(counts), _array(places), _levels(level, bounds.size), SHARES, LOG_WEIGHTS, bounds)
    return bounds


def least_sum(counts: Floats, places: Floats, weights: Floats, level: float | Floats) -> Floats:
    """Return lower bounds of sums of w_k mu_k, w_k >= 0: counts of shape (problems, arms, places), weights of shape
    (problems, arms).

    By duality: for every theta > 0 the sum over k of min over m of (w_k m + theta log K_k(m)), less theta level, is a
    lower bound of the least sum, and the largest of them is the least sum. So the search for theta need not be exact to
    be valid.
    """
    bounds = np.empty(counts.shape[0])
    levels = _levels(level, bounds.size)
    compiled()[2](_array(counts), _array(places), _array(weights), levels, SHARES, LOG_WEIGHTS, bounds)
    return bounds


def log_evidence(first: Floats, second: Floats, places: Floats) -> Floats:
    """Return the log of the capital of the gambler who suspects that the first mean is above the second, one a row.

    It is the least of K_1(m) K_2(m) over all m, K_1 of the gambler who suspects that the first mean is above m, K_2 of
    the one who suspects that the second is below: nobody with mu_1 <= mu_2 lets it grow large.
    """
    evidence = np.empty(first.shape[0])
    second = second[:, ::-1]  # places are the same from both ends
    compiled()[3](_array(first), _array(second), _array(places), SHARES, LOG_WEIGHTS, evidence)
    return evidence


def _array(values: Floats) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float64)


def _levels(level: float | Floats, count: int) -> Floats:
    return _array(np.broadcast_to(np.asarray(level, dtype=np.float64), (count,)))
