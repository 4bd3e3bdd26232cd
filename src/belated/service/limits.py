"""What the service accepts at most. Every limit is an option of `belated serve`, as --limit-head is for `head`."""

from dataclasses import dataclass, field, fields
from typing import Any

from belated.api.most import MOST_AT_ONCE
from belated.errors import InvalidValue

MOST = 1 << 40
"""What no limit goes beyond."""


def _limit(default: float, summary: str, least: float = 1, most: float = MOST) -> Any:
    return field(default=default, metadata={"summary": summary, "least": least, "most": most})


@dataclass(frozen=True)
class Limits:
    """Limits of one worker. What is over them is refused at once, with a sentence that says so."""

    body: int = _limit(1 << 20, "bytes of a request's body", most=1 << 30)
    at_once: int = _limit(MOST_AT_ONCE, "decisions or outcomes in one request", most=MOST_AT_ONCE)
    queue: int = _limit(10_000, "decisions and outcomes waiting for a commit; beyond, 503 with Retry-After")
    commit: int = _limit(2_000, "decisions and outcomes in one commit")
    experiments: int = _limit(1_000, "experiments that are not archived")
    streams: int = _limit(100, "live views at once", least=0)
    head: int = _limit(32_768, "bytes of a request's first line and headers", least=1_024, most=1 << 24)
    head_seconds: float = _limit(10.0, "seconds to send the headers of a request", least=0.1)
    body_seconds: float = _limit(30.0, "seconds to send the body of a request", least=0.1)
    idle_seconds: float = _limit(75.0, "seconds that a connection is kept open for the next request", least=0.1)
    unread_seconds: float = _limit(30.0, "seconds that an answer may wait for a reader who takes nothing", least=0.1)
    connections: int = _limit(2_000, "connections; then the one that has been idle for longest gives way")
    connections_per_address: int = _limit(1_000, "connections from one address; then one of the same address gives way")
    wait: float = 5.0
    """Seconds that a command may wait for its commit, and a probe of the ledger take; longer, and the worker is not
    ready.
    """
    rate: float | None = None
    """Requests a second of a key that has no rate of its own, of all workers together; beyond, 429 with Retry-After."""
    forget_after: float | None = None
    """Seconds after which the ids of decisions are erased; None: never."""

    def __post_init__(self) -> None:
        for each in options_of_limits():
            value, least, most = getattr(self, each.name), each.metadata["least"], each.metadata["most"]
            kinds = (int,) if each.type is int else (int, float)
            if type(value) not in kinds or not least <= value <= most:
                kind = "a whole number" if each.type is int else "a number"
                raise InvalidValue(f"{option(each.name)} is {value!r}; {kind} from {least:,} to {most:,} is needed")


def options_of_limits() -> list[Any]:
    """Return the fields of `Limits` that have an option of their own name."""
    return [each for each in fields(Limits) if each.metadata]


def option(name: str) -> str:
    """Return the option of `belated serve` that sets a limit."""
    return f"--limit-{name.replace('_', '-')}"
