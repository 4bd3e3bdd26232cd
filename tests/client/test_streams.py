"""Streams that are cut short, refused or left before their end; the same for both clients."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from belated.api.types import LedgerEvent
from belated.client import ServiceError, ServiceUnavailable, requests
from belated.client.requests import Request
from support.clients import BOTH, Body, Clock, Lossy, client, stub
from support.clients import ledger_lines as lines
from support.http_helpers import serving
from support.serving import ADMIN_KEY, KINDS, Server

BUSY = b'{"code": "busy", "message": "try again soon", "field": null}'
CUT = httpx.RemoteProtocolError("cut short")
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Streams:
    """A service that answers with these bodies, or with 503 for None; the last of them again and again."""

    def __init__(self, *bodies: tuple[bytes | Exception, ...] | None) -> None:
        self._planned = bodies
        self.after: list[int] = []
        self.bodies: list[Body] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.after.append(int(request.url.params["after"]))
        pieces = self._planned[min(len(self.after), len(self._planned)) - 1]
        self.bodies.append(Body(BUSY) if pieces is None else Body(*pieces))
        return httpx.Response(503 if pieces is None else 200, stream=self.bodies[-1])


def numbers(events: Iterator[LedgerEvent]) -> list[int]:
    return [event.number for event in events]


def test_a_ledger_goes_on_after_the_last_event(kind: str, clock: Clock) -> None:
    half = lines(4)[:20]
    streams = Streams(
        (lines(1, 2), lines(3) + half, CUT),
        None,
        (CUT,),
        (lines(4)[:5], lines(4)[5:], httpx.ReadTimeout("too late")),
        (lines(5), lines(6, 7)),
    )
    with stub(kind, streams) as service:
        assert numbers(service.ledger("some")) == [1, 2, 3, 4, 5, 6, 7]
    assert streams.after == [0, 3, 3, 3, 4]
    assert all(body.is_closed for body in streams.bodies)
    bounds = [0.05, 0.1, 0.2, 0.05]  # the fourth stream had an event
    assert all(high / 2 <= pause <= high for pause, high in zip(clock.pauses, bounds, strict=True))


def test_a_ledger_begins_after_a_number(kind: str, clock: Clock) -> None:
    streams = Streams((CUT,), (lines(41), CUT), (lines(42),))
    with stub(kind, streams) as service:
        assert numbers(service.ledger("some", after=40)) == [41, 42]
    assert streams.after == [40, 40, 41]


@pytest.mark.parametrize("planned", [[(CUT,)], [(lines(1)[:9], CUT)], [(CUT,), None] * 500])
def test_streams_that_are_all_cut_at_once_end_in_time(kind: str, clock: Clock, planned: list[Any]) -> None:
    """Whether it is the stream or its beginning that fails: the time is one, and the pauses grow."""
    streams = Streams(*planned)
    with stub(kind, streams, retry_seconds=60) as service, pytest.raises(ServiceUnavailable) as caught:
        numbers(service.ledger("some"))
    assert caught.value.code in ("unreachable", "busy")
    assert 55 <= sum(clock.pauses) <= 60
    assert 15 <= len(streams.after) == len(clock.pauses) + 1 <= 35
    assert set(streams.after) == {0}


def test_the_error_of_a_ledger_that_is_cut_short_for_good(kind: str, clock: Clock) -> None:
    streams = Streams((lines(1, 2), CUT), (CUT,))
    with stub(kind, streams, retry_seconds=3) as service:
        events = service.ledger("some")
        assert [next(events).number, next(events).number] == [1, 2]
        with pytest.raises(ServiceUnavailable) as caught:
            next(events)
    assert (caught.value.status, caught.value.code) == (503, "unreachable")
    assert caught.value.__cause__ is CUT
    assert sum(clock.pauses) <= 3


def test_the_time_starts_anew_after_every_event(kind: str, clock: Clock) -> None:
    """Each stream takes ten seconds for one event; there are fifteen for each, not for all."""

    def handle(request: httpx.Request) -> httpx.Response:
        clock.now += 10
        after = int(request.url.params["after"])
        return httpx.Response(200, stream=Body(lines(after + 1), CUT) if after < 30 else Body())

    with stub(kind, handle, retry_seconds=15) as service:
        assert numbers(service.ledger("some")) == list(range(1, 31))
    assert max(clock.pauses) <= 0.05


def test_a_reader_may_take_longer_than_retries_do(kind: str, clock: Clock) -> None:
    streams = Streams((lines(1), CUT), (lines(2),))
    with stub(kind, streams, retry_seconds=5) as service:
        events = service.ledger("some")
        assert next(events).number == 1
        clock.now += 3600
        assert numbers(events) == [2]


def test_a_ledger_that_is_gone_when_it_is_opened_again(kind: str, clock: Clock) -> None:
    gone = b'{"code": "unknown_experiment", "message": "there is no experiment", "field": "name"}'

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.params["after"] == "0":
            return httpx.Response(200, stream=Body(lines(1), CUT))
        return httpx.Response(404, stream=Body(gone))

    with stub(kind, handle) as service, pytest.raises(ServiceError) as caught:
        numbers(service.ledger("some"))
    assert (caught.value.status, caught.value.code, caught.value.field) == (404, "unknown_experiment", "name")


def test_an_event_that_is_none_is_an_error_of_the_service(kind: str, clock: Clock) -> None:
    streams = Streams((lines(1) + b"<html>\n",))
    with stub(kind, streams) as service, pytest.raises(ServiceError) as caught:
        numbers(service.ledger("some"))
    assert caught.value.code == "unreadable"


@pytest.mark.parametrize("method", ["ledger", "watch"])
def test_a_stream_is_given_on_as_it_comes_and_closed_when_it_is_left(
    kind: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(requests, "watch", lambda name: Request("GET", f"/{name}", LedgerEvent, prefix=b"data:"))
    prefix = b"" if method == "ledger" else b"data: "
    body = Body(prefix + lines(1), AssertionError("nobody has asked for more"))
    with stub(kind, lambda request: httpx.Response(200, stream=body)) as service:
        with closing(getattr(service, method)("some")) as items:
            assert next(items).number == 1
            assert not body.is_closed
        assert body.is_closed


def test_watching_begins_again_but_does_not_go_on(kind: str, clock: Clock) -> None:
    bodies = [Body(BUSY), Body(b": nothing new\n\n", b"event: other\n", httpx.ReadError("cut"))]
    left = list(bodies)

    def handle(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"] == {"connect": 7.0, "read": None, "write": 7.0, "pool": 7.0}
        return httpx.Response(503 if len(left) == 2 else 200, stream=left.pop(0))

    with stub(kind, handle, timeout=7) as service, pytest.raises(ServiceUnavailable) as caught:
        next(service.watch("some"))
    assert caught.value.code == "unreachable"
    assert (left, len(clock.pauses)) == ([], 1)
    assert all(body.is_closed for body in bodies)


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


def test_a_real_ledger_that_is_cut_short_goes_on_after_the_last_event(server: Server, kind: str) -> None:
    name = f"short-{kind}"
    with Lossy(server.port) as proxy, client(kind, proxy.url, ADMIN_KEY) as service:
        service.create(name, 2, learner="uniform")
        service.decide_many(name, 500)
        proxy.plan = ["cut", "cut", "refuse", "lose"]
        assert numbers(service.ledger(name)) == list(range(1, 501))
        assert proxy.plan == []
