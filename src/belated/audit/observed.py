"""A leader under observation: a learner whose functions are called through others, which measure what they change.

A leader keeps the solver's state (`belated.core.ftrl`), so everything is there to be read: its distribution x, its loss
estimates L, its rates (a, b). The functions below have the signatures of the learner contract. The ordinary loop plays
them as it plays any learner; they call the learner's own and look at L before and after. The learner sees its own
state, parameters and marks, and does what it always does.

What they measure is written where parameters stand: the book, one for each run. It has

- single numbers: the addresses of the learner's functions, sizes, rates, sums;
- a leader without delay: another state of the solver, solved for the learner's L after every change of it;
- for each arm: its distribution z before the last change, the change, the sums of the changes;
- the learner's own parameters, and room for a copy of its state;
- a row for each round: the learner's mark, whether its outcome was learned from, x.

With Phi(L) = min over x of <L, x> + F(x), a change of L by c at rates that stay has the stability
<z, c> - (Phi(L + c) - Phi(L)), at least 0. A change of the rates changes Phi at an L that stays: this is the penalty.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.core import ftrl
from belated.core.kernels import (
    VECTOR,
    Vector,
    call_chosen,
    call_decide,
    call_forget,
    call_learn,
    call_patience,
    entry,
    kernel,
)
from belated.errors import InvalidValue
from belated.learners import TunedLearner

Floats = NDArray[np.float64]

# The single numbers of a book. First the addresses of the learner's functions, in the order of `Learner.addresses`.
DECIDE = 0
CHOSEN = 1
LEARN = 2
PATIENCE = 3
FORGET = 4
ARMS = 5
OWN_SIZE = 6  # of the learner's parameters
COPY_SIZE = 7  # of the room for a copy of its state; 0 for learners that leave no outcome out
ROUND = 8
TSALLIS = 9  # a, 0 before the first solution
ENTROPY = 10  # b, likewise
PLAYED = 11  # the sum of <x_s, lhat_s> over the outcomes learned from
LED = 12  # the sum of <z_n, lhat_n> over the same
UNASKED = 13  # the sum of <z, c> over changes of L that no outcome brought
STABILITY = 14
LEAST_STABILITY = 15  # of one change
PENALTY = 16
END = 17  # F(u) - Phi(L) at the end, the part of the slack that no arm is in
DISTANCE = 18  # the largest difference between a share that was solved for and that of the leader without delay
SINGLES = 19

# For each arm.
BEFORE = 0  # z before the last change
NOW = 1  # z
ROOT = 2  # sqrt(z)
LOG_PART = 3  # z (log z - 1), or 0 where b is
CHANGE = 4  # of L
LEARNED_SUM = 5  # of the changes that outcomes brought
UNASKED_SUM = 6  # of the others
VECTORS = 7

# In the row of a round; then x.
MARK = 0
LEARNED = 1
SHARES = 2


@kernel(inline=True)
def _leader_size(arms: int) -> int:
    return ftrl.SINGLES + ftrl.FIELDS * ftrl.LANES * ((arms + ftrl.LANES - 1) // ftrl.LANES)


@kernel(inline=True)
def _vector(arms: int, which: int) -> int:
    """Return where a number of arm 0 stands; that of arm i is i further."""
    return SINGLES + _leader_size(arms) + which * arms


@kernel(inline=True)
def _own(book: Vector) -> int:
    """Return where the learner's parameters begin."""
    return _vector(int(book[ARMS]), VECTORS)


@kernel(inline=True)
def _row(book: Vector, number: float) -> int:
    """Return where the row of a round begins; rounds are counted from 1."""
    first = _own(book) + int(book[OWN_SIZE]) + int(book[COPY_SIZE])
    return first + (int(number) - 1) * (SHARES + int(book[ARMS]))


@kernel
def _solve(book: Vector, a: float, b: float) -> float:
    """Solve the leader without delay for its losses at these rates; return how its objective has changed.

    That is <L, z'> + F'(z') - <L, z> - F(z), arm by arm, with z the distribution before and F at the rates before. A
    constant common to all losses cancels; their least is taken off first, so that large sums do not.
    """
    arms = int(book[ARMS])
    leader = book[SINGLES : SINGLES + _leader_size(arms)]
    before, now = _vector(arms, BEFORE), _vector(arms, NOW)
    root, log_part = _vector(arms, ROOT), _vector(arms, LOG_PART)
    least = leader[ftrl.at(0) + ftrl.LOSSES]
    for i in range(arms):
        book[before + i] = book[now + i]
        least = min(least, leader[ftrl.at(i) + ftrl.LOSSES])
    ftrl.solve(leader, a, b, book[now : now + arms])
    change = 0.0
    for i in range(arms):
        z = book[now + i]
        change += (leader[ftrl.at(i) + ftrl.LOSSES] - least) * (z - book[before + i])
        change += 2.0 * book[TSALLIS] * book[root + i] - book[ENTROPY] * book[log_part + i]
        book[root + i] = math.sqrt(z)
        book[log_part + i] = z * (math.log(z) - 1.0) if z > 0.0 and b > 0.0 else 0.0
        change += b * book[log_part + i] - 2.0 * a * book[root + i]
    book[TSALLIS] = a
    book[ENTROPY] = b
    return change


@kernel
def _changed(state: Vector, book: Vector) -> bool:
    """Take over what has changed in the learner's losses: write the change, solve, add its stability."""
    arms = int(book[ARMS])
    leader = book[SINGLES : SINGLES + _leader_size(arms)]
    change = _vector(arms, CHANGE)
    found = False
    for i in range(arms):
        place = ftrl.at(i) + ftrl.LOSSES
        book[change + i] = state[place] - leader[place]
        if book[change + i] != 0.0:
            found = True
            ftrl.add_loss(leader, i, book[change + i])
            leader[place] = state[place]
    if found:
        stability = -_solve(book, book[TSALLIS], book[ENTROPY])
        book[STABILITY] += stability
        book[LEAST_STABILITY] = min(book[LEAST_STABILITY], stability)
    return found


@kernel
def _changed_unasked(state: Vector, book: Vector) -> bool:
    """Take over a change that no outcome brought."""
    if not _changed(state, book):
        return False
    arms = int(book[ARMS])
    before, change, total = _vector(arms, BEFORE), _vector(arms, CHANGE), _vector(arms, UNASKED_SUM)
    for i in range(arms):
        book[UNASKED] += book[before + i] * book[change + i]
        book[total + i] += book[change + i]
    return True


@kernel
def finish(book: Vector) -> None:
    """End the account of a leader: its penalty gets F(u), its slack F(u) - Phi(L); u being an arm, F(u) = -2a - b."""
    arms = int(book[ARMS])
    leader = book[SINGLES : SINGLES + _leader_size(arms)]
    pure = -2.0 * book[TSALLIS] - book[ENTROPY]
    value = 0.0
    for i in range(arms):
        value += leader[ftrl.at(i) + ftrl.LOSSES] * book[_vector(arms, NOW) + i]
        value += book[ENTROPY] * book[_vector(arms, LOG_PART) + i] - 2.0 * book[TSALLIS] * book[_vector(arms, ROOT) + i]
    book[PENALTY] += pure
    book[END] += pure - value


@kernel(inline=True)
def _begins_anew(state: Vector, book: Vector) -> bool:
    """Return whether the learner has put all its losses back to 0."""
    arms = int(book[ARMS])
    some = False
    for i in range(arms):
        place = ftrl.at(i) + ftrl.LOSSES
        if state[place] != 0.0:
            return False
        some = some or book[SINGLES + place] != 0.0
    return some


@kernel
def _forget_all(book: Vector) -> None:
    arms = int(book[ARMS])
    for place in range(SINGLES, SINGLES + _leader_size(arms)):
        book[place] = 0.0
    for i in range(arms):
        book[_vector(arms, NOW) + i] = 0.0
    book[TSALLIS] = book[ENTROPY] = 0.0


@kernel(inline=True)
def _distance(book: Vector, row: int) -> float:
    """Return how far the shares of a round are from the leader without delay."""
    arms = int(book[ARMS])
    now = _vector(arms, NOW)
    largest = 0.0
    for i in range(arms):
        largest = max(largest, abs(book[row + SHARES + i] - book[now + i]))
    return largest


@kernel
def decide(state: Vector, book: Vector, outstanding: int, p: Vector) -> float:
    arms = p.size
    own = book[_own(book) : _own(book) + int(book[OWN_SIZE])]
    _changed_unasked(state, book)
    book[ROUND] += 1.0
    row = _row(book, book[ROUND])
    for i in range(arms):
        book[row + SHARES + i] = ftrl.share(state, i)
    book[row + MARK] = call_decide(int(book[DECIDE]), state, own, outstanding, p)
    solved = False
    for i in range(arms):
        share = ftrl.share(state, i)
        solved = solved or share != book[row + SHARES + i]
        book[row + SHARES + i] = share
    a, b = state[ftrl.TSALLIS_RATE], state[ftrl.ENTROPY_RATE]
    if a == 0.0 and b == 0.0:  # nothing was ever solved: no leader
        return book[ROUND]
    if _begins_anew(state, book):
        finish(book)
        _forget_all(book)
    if a != book[TSALLIS] or b != book[ENTROPY]:
        book[PENALTY] -= _solve(book, a, b)
    distance = _distance(book, row)
    if _changed_unasked(state, book):  # before the learner solved, or after: who knows
        distance = min(distance, _distance(book, row))
    if solved:
        book[DISTANCE] = max(book[DISTANCE], distance)
    return book[ROUND]


@kernel
def chosen(state: Vector, book: Vector, arm: int, propensity: float, mark: float) -> float:
    own = book[_own(book) : _own(book) + int(book[OWN_SIZE])]
    row = _row(book, mark)
    book[row + MARK] = call_chosen(int(book[CHOSEN]), state, own, arm, propensity, book[row + MARK])
    return mark


@kernel
def _would_use(state: Vector, book: Vector, arm: int, propensity: float, mark: float) -> bool:
    """Return whether a loss of 1 would change the learner's losses, where a loss of 0 does not tell."""
    first = _own(book) + int(book[OWN_SIZE])
    own = book[_own(book) : first]
    copy = book[first : first + int(book[COPY_SIZE])]
    for place in range(copy.size):
        copy[place] = state[place]
    call_learn(int(book[LEARN]), copy, own, arm, 1.0, propensity, mark)
    return bool(copy[ftrl.at(arm) + ftrl.LOSSES] != state[ftrl.at(arm) + ftrl.LOSSES])


@kernel
def learn(state: Vector, book: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    arms = int(book[ARMS])
    own = book[_own(book) : _own(book) + int(book[OWN_SIZE])]
    row = _row(book, mark)
    _changed_unasked(state, book)
    used = book[COPY_SIZE] == 0.0 or (loss == 0.0 and _would_use(state, book, arm, propensity, book[row + MARK]))
    call_learn(int(book[LEARN]), state, own, arm, loss, propensity, book[row + MARK])
    if _changed(state, book):
        used = True
        before, change, total = _vector(arms, BEFORE), _vector(arms, CHANGE), _vector(arms, LEARNED_SUM)
        for i in range(arms):
            book[PLAYED] += book[row + SHARES + i] * book[change + i]
            book[LED] += book[before + i] * book[change + i]
            book[total + i] += book[change + i]
    book[row + LEARNED] = 1.0 if used else 0.0


@kernel
def patience(state: Vector, book: Vector) -> float:
    return float(call_patience(int(book[PATIENCE]), state, book[_own(book) : _own(book) + int(book[OWN_SIZE])]))


@kernel
def forget(state: Vector, book: Vector, mark: float) -> None:
    own = book[_own(book) : _own(book) + int(book[OWN_SIZE])]
    call_forget(int(book[FORGET]), state, own, book[_row(book, mark) + MARK])


@cache
def _compiled_finish() -> Any:
    return entry(finish, types.void(VECTOR))


def check_no_floor(tuned: TunedLearner) -> None:
    """Refuse a learner with a floor under its distribution: what is proved is about the distribution itself."""
    if tuned.share_floor:
        raise InvalidValue(
            f"share_floor is {tuned.share_floor!r}; 0 is needed, as an audit is about the learner's own distribution",
            "share_floor",
        )


@dataclass(frozen=True, repr=False)
class Observed(TunedLearner):
    """A leader under observation, for a number of rounds: its parameters are a new book."""

    original: TunedLearner = field(kw_only=True)
    n_arms: int = field(kw_only=True)
    rounds: int = field(kw_only=True)

    @classmethod
    def of(cls, tuned: TunedLearner, n_arms: int, rounds: int) -> "Observed":
        """Return the same learner, observed."""
        check_no_floor(tuned)
        learner = replace(
            tuned.learner,
            decide=decide,
            learn=learn,
            chosen=chosen if tuned.learner.chosen else None,
            patience=patience if tuned.learner.patience else None,
            forget=forget if tuned.learner.forget else None,
        )
        return cls(learner, tuned.values, tuned.settled, original=tuned, n_arms=n_arms, rounds=rounds)

    def params_given(self, truth: Any) -> Floats:
        learner, arms = self.original.learner, self.n_arms
        own = self.original.params_given(truth)
        plain = learner.pages is None and learner.size(arms) == ftrl.size(arms)
        copy = ftrl.size(arms) if plain else 0  # others learn from every outcome
        head = SINGLES + ftrl.size(arms) + VECTORS * arms
        book = np.zeros(head + own.size + copy + self.rounds * (SHARES + arms))
        book[: len(learner.addresses)] = learner.addresses
        book[[ARMS, OWN_SIZE, COPY_SIZE]] = arms, own.size, copy
        book[head : head + own.size] = own
        return book

    def read(self, book: Floats) -> "Account":
        """Return what a book says once all rounds were played."""
        _compiled_finish()(book)
        arms = self.n_arms
        rows = book[book.size - self.rounds * (SHARES + arms) :].reshape(self.rounds, -1)
        vectors = book[SINGLES + ftrl.size(arms) :][: VECTORS * arms].reshape(VECTORS, arms)
        return Account(
            singles=book[:SINGLES],
            learned_sum=vectors[LEARNED_SUM],
            unasked_sum=vectors[UNASKED_SUM],
            learned=rows[:, LEARNED] != 0.0,
            shares=rows[:, SHARES:],
        )


@dataclass(frozen=True)
class Account:
    """A book that was closed."""

    singles: Floats
    learned_sum: Floats
    """By arm: the sum of the changes of L that outcomes brought."""
    unasked_sum: Floats
    """By arm: the sum of all other changes."""
    learned: NDArray[np.bool_]
    """Of each decision: whether its outcome was learned from."""
    shares: Floats
    """x_s, shape (rounds, arms)."""

    def __getitem__(self, place: int) -> float:
        return float(self.singles[place])
