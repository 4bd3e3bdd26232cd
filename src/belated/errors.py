"""The errors that belated raises, and the sentences they speak."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


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


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Where an optional package is imported: an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "belated":
            raise
        raise ImportError(f"{what} needs {error.name}: pip install 'belated[{extra}]'") from error
