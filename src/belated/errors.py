"""The errors and warnings that belated raises, and the checks that raise errors."""

import difflib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


class BelatedError(Exception):
    """The base of the errors below."""


class InvalidValue(BelatedError, ValueError):
    """A value that is not allowed. `field` is the name of the parameter or setting that it was given for."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownDecision(BelatedError, LookupError):
    """No decision was made in this round."""


class AlreadyObserved(BelatedError, ValueError):
    """The outcome of this decision was reported before."""


class SnapshotError(BelatedError, ValueError):
    """These bytes are not a snapshot that can be continued."""


class BelatedWarning(UserWarning):
    """A learner cannot be right about what it is told."""


def unknown(kind: str, given: object, allowed: Iterable[str], field: str | None = None) -> InvalidValue:
    """Return the error for a name that is not one of those allowed. It suggests the nearest name where one is near."""
    names = sorted(allowed)
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = f"one of {', '.join(names)}" if names else "none here"
    return InvalidValue(f"unknown {kind} {given!r}: allowed is {listed}.{hint}", field or kind)


def is_whole(value: object) -> bool:
    """Return whether a value is an integer, of Python or numpy, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`, or raise."""
    if not is_whole(value) or value < least:
        raise InvalidValue(f"{name} is {value!r}; a whole number of at least {least} is needed", name)
    return int(value)


def check_share(name: str, value: Any) -> float:
    """Return a number from 0 to 1, or raise."""
    if not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise InvalidValue(f"{name} is {value!r}; a number from 0 to 1 is needed", name)
    return float(value)


def check_alpha(value: Any) -> None:
    """Refuse what is no probability with which a statement may be wrong."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise InvalidValue(f"alpha is {value!r}; a number above 0 and below 1 is needed", "alpha")


def check_positive(name: str, value: Any) -> float:
    """Return a positive, finite number, or raise."""
    if not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise InvalidValue(f"{name} is {value!r}; a positive number is needed", name)
    return float(value)


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import of an optional package into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "belated":
            raise
        raise ImportError(f"{what} needs {error.name}: pip install 'belated[{extra}]'") from error
