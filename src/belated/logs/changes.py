"""Arms that come and go: which of them were there at which decision."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_count

FEWEST_PRESENT = 2
"""Arms that are there at any time: with fewer there is nothing to decide."""


class Change(NamedTuple):
    """An arm comes or leaves, between two decisions."""

    after: int
    """How many decisions were made before."""
    arm: int
    """Its number, for good. A new arm has the next one."""
    present: bool
    """Whether it comes, anew or back; otherwise it leaves."""


def check_change(change: Change, present: Sequence[bool] | NDArray[np.bool_], earliest: int) -> None:
    """Refuse a change that cannot follow: `present` says which arms are there before it, `earliest` when it may be."""
    after, arm, comes = change
    check_count("after", after, least=0)
    check_count("arm", arm, least=0)
    if after < earliest:
        raise InvalidValue(
            f"after is {after}, but there is more already: at least {earliest} is needed, changes come in their order",
            "after",
        )
    if arm > len(present) or (arm == len(present) and not comes):
        raise InvalidValue(f"arm is {arm}; there are {len(present)} arms, and a new one has the next number", "arm")
    if arm < len(present) and present[arm] == comes:
        raise InvalidValue(f"arm {arm} {'is there' if comes else 'has left'} already", "arm")
    if not comes and sum(present) <= FEWEST_PRESENT:
        raise InvalidValue(f"arm {arm} is one of {sum(present)} that are left; at least {FEWEST_PRESENT} stay", "arm")


def newcomers(changes: Iterable[Change]) -> list[int]:
    """Return the arms that were not there at the beginning, those whose first change is to come, in their order."""
    firsts: dict[int, bool] = {}
    for change in changes:
        firsts.setdefault(change.arm, change.present)
    return [arm for arm, came in firsts.items() if came]


def arms_at_first(n_arms: int, changes: Iterable[Change]) -> int:
    """Return how many of the arms were there at the beginning."""
    return n_arms - len(newcomers(changes))


def check_changes(arms: NDArray[np.int64], n_arms: int, changes: Sequence[Change]) -> None:
    """Refuse changes that cannot be, and decisions of arms that were not there."""
    for change in changes:
        if change.arm >= n_arms:
            raise InvalidValue(f"changes has arm {change.arm}; allowed is 0 to {n_arms - 1}", "changes")
    present = [True] * arms_at_first(n_arms, changes)
    if len(present) < FEWEST_PRESENT:
        raise InvalidValue(f"{len(present)} arms are there at first; at least {FEWEST_PRESENT} are needed", "changes")
    begin = 0
    for change in changes:
        check_change(change, present, begin)
        check_present(arms[begin : change.after], present, begin)
        begin = change.after
        if change.arm == len(present):
            present.append(True)
        else:
            present[change.arm] = change.present
    check_present(arms[begin:], present, begin)


def check_present(arms: NDArray[np.int64], present: Sequence[bool] | NDArray[np.bool_], before: int) -> None:
    """Refuse decisions of arms that are not there; `before` is how many decisions there were before."""
    is_there = np.asarray(present, dtype=np.bool_)
    absent = np.flatnonzero(~is_there[np.minimum(arms, is_there.size - 1)] | (arms >= is_there.size))
    if absent.size:
        raise InvalidValue(
            f"decision {before + 1 + int(absent[0])} is of arm {int(arms[absent[0]])}, which was not there then", "arms"
        )
