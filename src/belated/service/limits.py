"""What the service accepts at most."""

from dataclasses import dataclass

from belated.api.types import MOST_AT_ONCE


@dataclass(frozen=True)
class Limits:
    """Limits of one worker. What is over them is refused at once, with a sentence that says so."""

    body: int = 1 << 20
    """Bytes of a request's body."""
    at_once: int = MOST_AT_ONCE
    """Decisions or outcomes in one request."""
    queue: int = 10_000
    """Decisions and outcomes waiting for a commit; beyond, 503 with Retry-After."""
    commit: int = 2_000
    """Decisions and outcomes in one commit."""
    wait: float = 5.0
    """Seconds that a command may wait for its commit, and a probe of the ledger take; longer, and the worker is not
    ready.
    """
    experiments: int = 1_000
    streams: int = 100
    """Live views at once."""
    rate: float | None = None
    """Requests a second of a key that has no rate of its own, of all workers together; beyond, 429 with Retry-After."""
    forget_after: float | None = None
    """Seconds after which the ids of decisions are erased; None: never."""
