"""The errors that belated raises, and the sentences they speak."""

import difflib
from collections.abc import Iterable


class BelatedError(Exception):
    """The base of the errors below."""


class UnknownDecision(BelatedError, LookupError):
    """No decision was made under this round."""


class AlreadyObserved(BelatedError, ValueError):
    """The outcome of this decision was reported before."""


class SnapshotError(BelatedError, ValueError):
    """These bytes are not a snapshot that can be continued."""


def unknown(kind: str, given: object, allowed: Iterable[str]) -> ValueError:
    """An error for a name that is not one of those allowed, with the nearest of them where one is near."""
    names = sorted(allowed)
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = f"one of {', '.join(names)}" if names else "none here"
    return ValueError(f"unknown {kind} {given!r}: allowed is {listed}.{hint}")
