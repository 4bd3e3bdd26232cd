"""Messages of the client: what is wrong with an address or a key, what a service did not do, and what a flag logs."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx

from belated.api.ids import new_id
from belated.client import Client, Flag, ServiceError, ServiceUnavailable
from belated.client.flag import _Outage, _Outcome

KEY = "k" * 20
REFUSALS: list[tuple[str, dict[str, Any]]] = [
    ("localhost:8000", {}),
    ("", {}),
    ("ftp://example.com", {}),
    ("http://stub", {"key": "two secret"}),
    ("http://stub", {"key": "secret\n"}),
    ("http://stub", {"key": "secr\u00e9t"}),
    ("http://stub", {"timeout": 0}),
    ("http://stub", {"retry_seconds": -1}),
]


def refusals(_: Path) -> str:
    said = []
    for url, given in REFUSALS:
        try:
            Client(url, **{"key": KEY} | given)
        except ValueError as error:
            said.append(f"{url} {given}: {error}")
    return "\n".join(said)


def answered(answer: httpx.Response | Exception) -> Callable[[Path], object]:
    """What is raised where the service answers this, or fails so."""

    def ask(_: Path) -> None:
        def handle(request: httpx.Request) -> httpx.Response:
            if isinstance(answer, Exception):
                raise answer
            return answer

        with Client("http://stub", KEY, retry_seconds=0, transport=httpx.MockTransport(handle)) as client:
            client.experiment("some")

    return ask


@contextmanager
def log() -> Iterator[StringIO]:
    """What the client logs."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("belated.client")
    logger.addHandler(handler)
    try:
        yield written
    finally:
        logger.removeHandler(handler)


class StandIn:
    """A client that fails with `error`."""

    error: Exception | None = None

    def decide(self, name: str, id: str) -> Any:
        self._fail()
        return type("Decision", (), {"arm": "green"})

    def observe(self, name: str, decision: str, **outcome: Any) -> None:
        self._fail()

    def report_fallbacks(self, name: str, count: int, *, arm: str, id: str) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


def logged(_: Path) -> str:
    """What a flag logs of an outage, of what is refused, and at its end."""
    service: Any = StandIn()
    gone = ServiceUnavailable(503, "unreachable", "nobody there")
    with log() as written:
        flag = Flag(service, "button", "blue", pause=600.0)
        flag._breaker._clock = lambda: 1000.0
        flag.decide("first")
        service.error = gone
        flag.decide("second")
        assert not flag._deliver(_Outcome("first", {"reward": 1.0}))
        service.error = None
        flag._breaker._clock = lambda: 1600.0
        flag.decide("third")
        assert flag._deliver(_Outcome("first", {"reward": 1.0}))
        service.error = ServiceError(422, "invalid", "id has a space", "id")
        flag.decide("a space")
        assert flag._deliver(_Outcome("a space", {"reward": 1.0}))
        assert flag._deliver(_Outage(new_id(), 3))
        service.error = gone
        flag.observe("first", reward=1.0)
        flag.close()
    return written.getvalue()


CASES: dict[str, Callable[[Path], object]] = {
    "settings that cannot be": refusals,
    "no key": lambda _: Client("http://stub"),
    "a key besides a client": lambda _: Flag(Client("http://stub", KEY), "button", "blue", key=KEY),
    "a service that is away": answered(httpx.ConnectError("refused")),
    "an error of something else": answered(httpx.Response(502, text="<html>Bad gateway</html>")),
    "the log of a flag": logged,
}
