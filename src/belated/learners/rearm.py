"""How a learner's state changes when arms come and go: the rules that families of learners share.

A rule takes the state, the number of arms, and for each arm from now on its former number, -1 for one that comes. It
returns a new state; what is known of the arms that stay is in it, and nothing of those that go.
"""

import math

import numpy as np
from numpy.typing import NDArray

from belated.core import ftrl, pages
from belated.learners import ftrl_steps, mean_steps

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NEW = -1
"""As the former number of an arm: it has come."""
YOUTH = 512.0
"""A leader goes on, when an arm comes, as one of at most so many rounds an arm (experiments/arms.py --tune)."""
_NARROWINGS = 200


def leader(state: Floats, n_arms: int, kept: Integers) -> Floats:
    """Rearm a state of the solver: each arm that comes gets the loss estimate at which its share, at the present rates,
    is 1 / K. When arms go, the shares of the others grow in proportion.
    """
    new = np.zeros(ftrl.size(kept.size))
    new[: ftrl.SINGLES] = state[: ftrl.SINGLES]
    new[ftrl.AGE] = 0.0  # the next solution is a cold one
    stays = kept != NEW
    losses = np.zeros(kept.size)
    losses[stays] = state[ftrl.LOSSES_AT.places(n_arms)[kept[stays]]]
    rates = float(state[ftrl.TSALLIS_RATE]), float(state[ftrl.ENTROPY_RATE])
    if rates[0] and 0 < stays.sum() < n_arms:
        losses[stays] = _losses_of(_shares(state, n_arms)[kept[stays]], rates)
    if rates != (0.0, 0.0) and not stays.all():
        losses[~stays] = _entry_loss(losses, ~stays, rates)
    new[ftrl.LOSSES_AT.places(kept.size)] = losses
    return new


def _shares(state: Floats, n_arms: int) -> Floats:
    """Return the distribution for the present losses, at the rates of the last one; uniform before the first."""
    rates = float(state[ftrl.TSALLIS_RATE]), float(state[ftrl.ENTROPY_RATE])
    if rates == (0.0, 0.0):
        return np.full(n_arms, 1.0 / n_arms)
    return ftrl.distribution(state[ftrl.LOSSES_AT.places(n_arms)], *rates)


def _losses_of(shares: Floats, rates: tuple[float, float]) -> Floats:
    """Return the loss estimates that give shares in these proportions, the least being 0: (*) of `belated.core.ftrl`.

    Among arms that were hardly played estimates differ mostly by chance, and by much, which did not matter beside a
    better arm. When that goes, their shares tell what to make of them.
    """
    roots = np.sqrt(shares.sum() / shares)
    losses = rates[0] * roots + 2.0 * rates[1] * np.log(roots)
    return np.asarray(losses - losses.min())


def young_part(state: Floats, n_arms: int, kept: Integers, age: float, youth: float) -> float:
    """Return the part of its age at which a leader goes on: `youth` for each arm where one comes; where arms only go,
    the share of those that stay if that is more. They are known as well as they were played. At 1 or more its age stays
    as it is.
    """
    if age <= 0.0:
        return 1.0
    part = youth * kept.size / age
    if not (kept == NEW).any():
        part = max(part, float(_shares(state, n_arms)[kept].sum()))
    return part


def _entry_loss(losses: Floats, entering: NDArray[np.bool_], rates: tuple[float, float]) -> float:
    """Return the loss estimate that gives every arm that enters the share 1 / K, given those of the others."""
    wanted = 1.0 / losses.size
    if entering.all():
        return 0.0
    least = float(losses[~entering].min())
    tried = losses.copy()

    def share(above: float) -> float:
        tried[entering] = least + above
        return float(ftrl.distribution(tried, *rates)[entering][0])

    low, high = -sum(rates), sum(rates)
    while share(low) < wanted:
        low *= 2.0
    while share(high) > wanted:
        high *= 2.0
    for _ in range(_NARROWINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if share(middle) > wanted else (low, middle)
    return least + high


def make_younger(state: Floats, n_arms: int, part: float) -> None:
    """Take a leader's losses and rates back, all by the square root of a part, so that its shares stay as they are.

    It then follows new outcomes as fast as one that has played that part of its rounds.
    """
    places = ftrl.LOSSES_AT.places(n_arms)
    root = math.sqrt(part)
    state[places] = root * (state[places] - state[places].min())
    state[[ftrl.TSALLIS_RATE, ftrl.ENTROPY_RATE]] *= root


def growing_leader(state: Floats, n_arms: int, kept: Integers) -> Floats:
    """Rearm a leader whose rates grow with the square roots of t and D_t.

    When an arm comes, the leader goes on as one of YOUTH rounds an arm: else it would follow what is new as slowly as
    what it has known for long. When arms only go, as one of its rounds for those that stay (`young_part`).
    """
    new = leader(state, n_arms, kept)
    part = young_part(state, n_arms, kept, float(state[ftrl_steps.ROUND]), YOUTH)
    if part < 1.0:
        make_younger(new, kept.size, part)
        new[[ftrl_steps.ROUND, ftrl_steps.CUMULATIVE_OUTSTANDING]] *= part
    return new


def means(state: Floats, n_arms: int, kept: Integers) -> Floats:
    """Rearm a state of means: an arm that comes has no outcomes."""
    new = np.zeros(mean_steps.size(kept.size))
    new[: mean_steps.SINGLES] = state[: mean_steps.SINGLES]
    fields = state[mean_steps.SINGLES :].reshape(n_arms, mean_steps.FIELDS)
    new[mean_steps.SINGLES :] = columns(fields.T, kept).T.ravel()
    return new


def columns(table: Floats, kept: Integers) -> Floats:
    """Return a table with a column for each arm, zeros for one that comes."""
    stays = kept != NEW
    new = np.zeros((len(table), kept.size))
    new[:, stays] = table[:, kept[stays]]
    return new


def move_pages(new: Floats, head: int, moved: Floats) -> Floats:
    """Return a new state with pages behind it, a row of `moved` for each; `head` is where the head of the pages is."""
    new[head + pages.FIRST] = new.size
    new[head + pages.SIZE] = moved.shape[1]
    return np.concatenate([new, moved.ravel()])


def pages_of(state: Floats, head: int) -> Floats:
    """Return the pages of a state, a row for each."""
    first, size = (int(state[head + place]) for place in (pages.FIRST, pages.SIZE))
    return state[first:].reshape(-1, size)
