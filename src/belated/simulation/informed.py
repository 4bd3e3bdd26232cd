"""How tables and figures mark the learners that were told something about the problem."""

from collections.abc import Iterable

INFORMED = "†"
"""The mark behind the name of a learner that was told something about the problem."""

Told = Iterable[tuple[str, tuple[str, ...]]]
"""Each learner's name, and what it was told."""


def marked_names(told: Told) -> list[str]:
    """Return the names of learners, those of informed ones with a mark."""
    return [name + (INFORMED if what else "") for name, what in told]


def informed_note(told: Told) -> str:
    """Return the sentence that explains the marks; an empty one where there are none."""
    listed = [f"{name} ({', '.join(what)})" for name, what in told if what]
    return f"{INFORMED} told about the problem: {', '.join(listed)}" if listed else ""
