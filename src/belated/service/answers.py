"""Which arm wins, in parts that a page puts in their places."""

import msgspec

from belated.inference import Estimates
from belated.inference.estimates import MAX_NAMED, movement_note
from belated.inference.randomisation import OPEN, PLAIN
from belated.templates.display import number

MOST_CANDIDATES = 24
"""Arms that may be the best and are named one by one."""


class Answer(msgspec.Struct):
    """The verdict of estimates in sentences; one is empty where there is nothing to say."""

    headline: str
    meaning: str
    """What the headline is about, or under which condition it holds."""
    progress: int | None
    """The evidence in percent of what is needed; None where an arm wins, or that is not known."""
    candidates: str
    """The arms that may be the best, where the headline does not name them."""
    remaining: str
    """How many more days and decisions it takes at the present pace."""
    named: str
    """The arm that was ahead when it was named, if it is not the one that wins now."""
    level: str
    """How the level of outcomes moves."""
    ruled_out: list[str]
    """Arms that take part but cannot be the best."""
    notes: list[str]
    """What else there is to know."""


NOTHING = Answer("", "", None, "", "", "", "", [], [])
"""Said as long as nobody has looked."""


def answer(found: Estimates) -> Answer:
    """Return what estimates say of which arm wins."""
    level = "" if found.movement is None else movement_note(found.movement, found.scale)
    assumed = [] if found.outcomes == "settled" else found.assumptions[1:]
    is_open = found.leader is not None
    gone = {*found.retired, *found.candidates}
    return Answer(
        headline=found.headline,
        meaning=_meaning(found) if is_open else "",
        progress=_percent(found),
        candidates=_candidates(found) if is_open else "",
        remaining=found.remaining,
        named=_named(found),
        level=level,
        ruled_out=[str(each.arm) for each in found.arms if each.arm not in gone] if is_open else [],
        notes=[note for note in (*found.notes, *assumed) if note not in (PLAIN, OPEN, level)],
    )


def _meaning(found: Estimates) -> str:
    if found.average == "same":
        return f"This holds if rates do not move: each arm's mean {found.measure} stays the same over time."
    return PLAIN if found.average == "plain" else OPEN


def _percent(found: Estimates) -> int | None:
    """Return the evidence in percent: not all of it before an arm wins."""
    if found.winner is not None or found.progress is None:
        return None
    return min(int(100 * found.progress), 99)


def _candidates(found: Estimates) -> str:
    others = [arm for arm in found.candidates if arm != found.leader]
    if found.winner is not None or len(others) <= MAX_NAMED:
        return ""
    names = [str(arm) for arm in (found.leader, *others)]
    more = len(names) - MOST_CANDIDATES
    return ", ".join(names[:MOST_CANDIDATES]) + (f" and {more:,} more" if more > 0 else "")


def _named(found: Estimates) -> str:
    if found.named is None or found.named[0] == found.winner:
        return ""
    return f"{found.named[0]}, after {number(found.named[1])} decisions"
