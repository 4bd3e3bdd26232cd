"""What clients do when answers are lost, when the service is busy, and when it is not there at all."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest

from belated.api.types import OutcomeReceipt
from belated.client import ServiceError, ServiceUnavailable
from support.clients import BOTH, Lossy, client
from support.http_helpers import serving
from support.serving import ADMIN_KEY, KINDS, Server, free_port

BUSY = b'{"code": "busy", "message": "try again soon", "field": null}'


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("what", ["lose", "cut", "refuse"])
def test_a_request_whose_answer_is_lost_is_sent_again_as_it_was(server: Server, kind: str, what: str) -> None:
    """And it is done once."""
    name = f"{what}-{kind}"
    with Lossy(server.port) as proxy, client(kind, proxy.url, ADMIN_KEY) as service:
        proxy.plan = [what]
        assert service.create(name, 2, learner="uniform", seed=1).rounds == 0
        proxy.plan = [what, what]
        decision = service.decide(name)
        assert decision.round == 1
        proxy.plan = [what]
        receipt = service.observe(name, decision, loss=0.5)
        assert receipt in (OutcomeReceipt(decision.id, "repeated", "used"), OutcomeReceipt(decision.id, "used"))
        proxy.plan = [what]
        made = service.decide_many(name, 1200)
        assert [each.round for each in made] == list(range(2, 1202))
        assert service.experiment(name).rounds == 1201
        assert service.experiment(name).outcomes.used == 1
        sent = proxy.bodies
        assert sent[0] == sent[1]
        assert sent[2] == sent[3] == sent[4]
        assert decision.id.encode() in sent[2]
        assert sent[5] == sent[6]
        assert sent[7] == sent[8] != sent[9]
        assert len(sent) == 12


def test_an_answer_that_comes_too_late_is_asked_for_again(server: Server, kind: str) -> None:
    with Lossy(server.port, 1.5) as proxy, client(kind, proxy.url, ADMIN_KEY, timeout=1) as service:
        service.create(f"late-{kind}", 2)
        proxy.plan = ["late"]
        assert service.decide(f"late-{kind}").round == 1
        assert service.experiment(f"late-{kind}").rounds == 1
        assert proxy.bodies[1] == proxy.bodies[2]


def test_a_service_that_is_killed_and_started_again_is_waited_for(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving("sqlite", tmp_path_factory) as server, client(kind, server.url, ADMIN_KEY) as service:
        service.create("waited", 2, seed=1)
        service.decide("waited")
        server.kill()
        later = threading.Timer(0.3, server.start)
        later.start()
        assert service.decide("waited", "second").round == 2
        later.join()
        assert service.experiment("waited").rounds == 2


def stub(kind: str, handler: Callable[[httpx.Request], httpx.Response], **settings: Any) -> Any:
    """A client whose requests go to a function."""
    return client(kind, "http://stub", "k" * 20, transport=httpx.MockTransport(handler), **settings)


def test_a_busy_service_is_asked_again_when_it_said(kind: str) -> None:
    heard: list[tuple[float, bytes]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append((time.monotonic(), request.content))
        if len(heard) < 3:
            wait = {1: {"Retry-After": "1"}, 2: {}}[len(heard)]
            return httpx.Response(503, content=BUSY, headers=wait)
        return httpx.Response(200, content=b'{"id": "x", "round": 1, "arm": 0, "propensity": 0.5}')

    with stub(kind, handle) as service:
        assert service.decide("some").round == 1
    times = [when for when, _ in heard]
    assert len({body for _, body in heard}) == 1
    assert times[1] - times[0] >= 1.0
    assert 0.01 < times[2] - times[1] < 1.0


@pytest.mark.parametrize("status", [502, 503, 504])
def test_patience_ends_with_what_the_service_said_last(kind: str, status: int) -> None:
    heard: list[float] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(time.monotonic())
        return httpx.Response(status, content=BUSY if status == 503 else b"<html>Bad gateway</html>")

    begun = time.monotonic()
    with stub(kind, handle, retry_seconds=0.5) as service, pytest.raises(ServiceUnavailable) as caught:
        service.decide("some")
    assert (caught.value.status, caught.value.code) == (status, "busy" if status == 503 else "unreadable")
    assert ("try again soon" in str(caught.value)) == (status == 503)
    assert 0.1 < time.monotonic() - begun < 2
    assert 3 <= len(heard) <= 12
    pauses = [after - before for before, after in pairwise(heard)]
    assert max(pauses) > 1.5 * pauses[0]  # less and less often


def test_patience_ends_where_nobody_answers(kind: str) -> None:
    begun = time.monotonic()
    url = f"http://127.0.0.1:{free_port()}"
    with client(kind, url, "k" * 20, retry_seconds=0.4) as service:
        asks: list[Callable[[], Any]] = [
            lambda: service.decide("some"),
            lambda: service.experiments(),
            lambda: next(service.ledger("some")),
            lambda: next(service.watch("some")),
        ]
        for ask in asks:
            with pytest.raises(ServiceUnavailable, match="does not answer") as caught:
                ask()
            assert (caught.value.status, caught.value.code, caught.value.field) == (503, "unreachable", None)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 500, 501])
def test_what_is_refused_is_not_asked_again(kind: str, status: int) -> None:
    heard: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(request.url.path)
        return httpx.Response(status, content=b'{"code": "word", "message": "a sentence", "field": "loss"}')

    with stub(kind, handle) as service:
        asks: list[Callable[[], Any]] = [
            lambda: service.decide("some"),
            lambda: service.observe("some", "x", loss=1),
            lambda: next(service.ledger("some")),
        ]
        for ask in asks:
            with pytest.raises(ServiceError) as caught:
                ask()
            assert str(caught.value) == "a sentence"
            assert not isinstance(caught.value, ServiceUnavailable)
            assert (caught.value.status, caught.value.code, caught.value.field) == (status, "word", "loss")
    assert [path.rpartition("/")[2] for path in heard] == ["decisions", "outcomes", "ledger"]


def test_a_ledger_that_is_cut_short_goes_on_after_the_last_event(server: Server, kind: str) -> None:
    name = f"short-{kind}"
    with Lossy(server.port) as proxy, client(kind, proxy.url, ADMIN_KEY) as service:
        service.create(name, 2, learner="uniform")
        service.decide_many(name, 500)
        proxy.plan = ["cut"]
        assert [event.number for event in service.ledger(name)] == list(range(1, 501))
        assert proxy.plan == []
