"""When requests are sent again, for how long, and what is raised in the end; the same for both clients."""

import asyncio
import math
import random
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from belated.api.types import OutcomeReceipt
from belated.client import AsyncClient, ServiceError, ServiceUnavailable, retries
from support.clients import BOTH, Body, Clock, Lossy, client, stub
from support.http_helpers import serving
from support.ports import free_port
from support.serving import ADMIN_KEY, KINDS, Server
from support.waiting import until_async

BUSY = b'{"code": "busy", "message": "try again soon", "field": null}'
DECISION = b'{"id": "x", "round": 1, "arm": 0, "propensity": 0.5}'
SENT_AGAIN = [
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.RemoteProtocolError,
    httpx.WriteError,
]


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def answers(*planned: httpx.Response | Exception) -> tuple[list[httpx.Request], Callable[[httpx.Request], Any]]:
    """Return the requests that come, and a service that gives these answers, the last of them again and again."""
    heard: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(request)
        answer = planned[min(len(heard), len(planned)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)

    return heard, handle


def busy(**headers: str) -> httpx.Response:
    return httpx.Response(503, content=BUSY, headers={name.replace("_", "-"): said for name, said in headers.items()})


def decided() -> httpx.Response:
    return httpx.Response(200, content=DECISION)


@pytest.mark.parametrize("share", [0.5, 0.75, 1.0])
def test_pauses_double_from_a_twentieth_of_a_second_to_five_seconds(
    kind: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    drawn: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return share

    monkeypatch.setattr(retries._random, "uniform", uniform)
    heard, handle = answers(*[busy()] * 6, *[httpx.ReadError("")] * 5, decided())
    with stub(kind, handle) as service:
        assert service.decide("some").round == 1
    full = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert clock.pauses == pytest.approx([share * pause for pause in full])
    assert set(drawn) == {(0.5, 1.0)}
    assert len(heard) == 12


def test_pauses_differ_by_chance(kind: str, clock: Clock) -> None:
    """600 shares from 0.5 to 1: none below 0.55 or above 0.95 has a probability of 2 * 0.9^600 < 1e-27."""
    _, handle = answers(busy())
    with stub(kind, handle, retry_seconds=5 * 600) as service, pytest.raises(ServiceUnavailable):
        service.decide("some")
    shares = [pause / min(0.05 * 2**index, 5.0) for index, pause in enumerate(clock.pauses)]
    assert len(shares) > 600
    assert 0.5 <= min(shares) < 0.55
    assert 0.95 < max(shares) <= 1.0


def test_chance_is_not_that_of_the_program(kind: str, clock: Clock) -> None:
    """A program that seeds `random` gets the numbers it expects, and pauses that are not those of its copies."""
    for _ in range(2):
        random.seed(7)
        before = random.getstate()
        _, handle = answers(*[busy()] * 5, decided())
        with stub(kind, handle) as service:
            service.decide("some")
        assert random.getstate() == before
    assert len(clock.pauses) == 10
    assert clock.pauses[:5] != clock.pauses[5:]


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("0", 0.025, 0.05),
        ("1", 1.0, 1.0),
        ("3", 3.0, 3.0),
        ("5", 5.0, 5.0),
        ("6", 5.0, 5.0),
        ("86400", 5.0, 5.0),
        ("9" * 400, 5.0, 5.0),
        ("", 0.025, 0.05),
        ("-3", 0.025, 0.05),
        ("1.5", 0.025, 0.05),
        ("soon", 0.025, 0.05),
        ("Wed, 21 Oct 2065 07:28:00 GMT", 0.025, 0.05),
    ],
)
def test_the_service_says_how_long_to_pause(kind: str, clock: Clock, said: str, least: float, most: float) -> None:
    _, handle = answers(busy(Retry_After=said), decided())
    with stub(kind, handle) as service:
        service.decide("some")
    assert len(clock.pauses) == 1
    assert least <= clock.pauses[0] <= most


def test_a_superscript_is_no_number_of_seconds(kind: str, clock: Clock) -> None:
    _, handle = answers(httpx.Response(503, headers=[(b"Retry-After", b"\xb2")]), decided())
    with stub(kind, handle) as service:
        service.decide("some")
    assert 0.025 <= clock.pauses[0] <= 0.05


def test_a_pause_that_grew_is_not_made_shorter(kind: str, clock: Clock) -> None:
    _, handle = answers(*[busy(Retry_After="1")] * 8, decided())
    with stub(kind, handle) as service:
        service.decide("some")
    assert clock.pauses[:5] == [1.0] * 5
    assert 1.6 <= clock.pauses[6] <= 3.2
    assert 2.5 <= clock.pauses[7] <= 5.0


@pytest.mark.parametrize("seconds", [0.5, 7.0, 60.0])
def test_no_request_is_sent_after_the_time_is_over(kind: str, clock: Clock, seconds: float) -> None:
    times: list[float] = []

    def handle(request: httpx.Request) -> httpx.Response:
        times.append(clock.now - 1000)
        return busy()

    with stub(kind, handle, retry_seconds=seconds) as service, pytest.raises(ServiceUnavailable):
        service.decide("some")
    longest_next = min(0.05 * 2 ** (len(times) - 1), 5.0)
    assert times[0] == 0
    assert seconds - longest_next <= times[-1] <= seconds


def test_the_time_of_attempts_counts(kind: str, clock: Clock) -> None:
    heard: list[float] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(clock.now)
        clock.now += 30
        raise httpx.ReadTimeout("")

    with stub(kind, handle, retry_seconds=60) as service, pytest.raises(ServiceUnavailable):
        service.decide("some")
    assert len(heard) == 2


def test_every_request_has_its_own_time(kind: str, clock: Clock) -> None:
    heard: list[int] = []

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(1)
        return busy() if len(heard) % 3 else decided()

    with stub(kind, handle, retry_seconds=1) as service:
        for _ in range(50):
            service.decide("some")
    assert clock.now - 1000 > 3
    assert max(clock.pauses[::2]) <= 0.05
    assert 0.05 <= min(clock.pauses[1::2]) <= max(clock.pauses[1::2]) <= 0.1


@pytest.mark.parametrize("answer", [busy(), busy(Retry_After="1"), httpx.ConnectError("nobody")])
def test_without_time_there_is_one_attempt(kind: str, clock: Clock, answer: Any) -> None:
    heard, handle = answers(answer)
    with stub(kind, handle, retry_seconds=0) as service, pytest.raises(ServiceUnavailable):
        service.decide("some")
    assert (len(heard), clock.pauses) == (1, [])


def test_retries_may_have_no_end(kind: str, clock: Clock) -> None:
    heard, handle = answers(*[busy()] * 500, decided())
    with stub(kind, handle, retry_seconds=math.inf) as service:
        assert service.decide("some").round == 1
    assert len(heard) == 501


def test_a_pause_beyond_the_time_is_not_waited_for(kind: str, clock: Clock) -> None:
    heard, handle = answers(busy(Retry_After="4"))
    with stub(kind, handle, retry_seconds=3.9) as service, pytest.raises(ServiceUnavailable) as caught:
        service.decide("some")
    assert (caught.value.code, len(heard), clock.pauses) == ("busy", 1, [])


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_the_last_response_is_the_error(kind: str, clock: Clock, status: int) -> None:
    body = BUSY if status == 503 else b"<html>Bad gateway</html>"
    heard, handle = answers(httpx.ConnectError("nobody"), httpx.Response(status, content=body))
    with stub(kind, handle, retry_seconds=5) as service, pytest.raises(ServiceUnavailable) as caught:
        service.decide("some")
    assert (caught.value.status, caught.value.code) == (status, "busy" if status == 503 else "unreadable")
    assert len(heard) > 5


@pytest.mark.parametrize("error", SENT_AGAIN)
def test_the_last_error_of_the_connection_is_the_cause(
    kind: str, clock: Clock, error: type[httpx.TransportError]
) -> None:
    last = error("some reason")
    heard, handle = answers(busy(), last)
    with stub(kind, handle, retry_seconds=5) as service, pytest.raises(ServiceUnavailable) as caught:
        service.decide("some")
    assert (caught.value.status, caught.value.code, caught.value.field) == (503, "unreachable", None)
    assert caught.value.__cause__ is last
    assert len(heard) > 5


def test_other_errors_are_not_retried(kind: str, clock: Clock) -> None:
    heard, handle = answers(ZeroDivisionError("a bug"))
    with stub(kind, handle) as service, pytest.raises(ZeroDivisionError):
        service.decide("some")
    assert len(heard) == 1


def test_what_is_sent_again_is_the_same(kind: str, clock: Clock) -> None:
    heard, handle = answers(busy(), httpx.ReadError(""), httpx.Response(502), httpx.WriteError(""), decided())
    with stub(kind, handle) as service:
        service.decide("some")
        service.decide("some")
    sent = [(request.method, request.url, request.content, sorted(request.headers.items())) for request in heard]
    assert all(each == sent[0] for each in sent[:5])
    assert sent[0][2].startswith(b'{"id":"')
    assert sent[5][2] != sent[0][2]
    assert len(sent) == 6


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 405, 409, 413, 422, 500, 501])
def test_what_is_refused_is_not_sent_again(kind: str, clock: Clock, status: int) -> None:
    refusal = b'{"code": "word", "message": "a sentence", "field": "loss"}'
    heard, handle = answers(httpx.Response(status, content=refusal))
    with stub(kind, handle) as service:
        asks: list[Callable[[], Any]] = [
            lambda: service.decide("some"),
            lambda: service.observe("some", "x", loss=1),
            lambda: next(service.ledger("some")),
            lambda: next(service.watch("some")),
        ]
        for ask in asks:
            with pytest.raises(ServiceError) as caught:
                ask()
            assert str(caught.value) == "a sentence"
            assert not isinstance(caught.value, ServiceUnavailable)
            assert (caught.value.status, caught.value.code, caught.value.field) == (status, "word", "loss")
    assert [request.url.path.rpartition("/")[2] for request in heard] == ["decisions", "outcomes", "ledger", "stream"]


def test_an_answer_of_something_else_is_an_error_of_the_service(kind: str, clock: Clock) -> None:
    for content in (b"<html>Welcome to the hotel</html>", b'{"id": 7}', b"\xff", b""):
        heard, handle = answers(httpx.Response(200, content=content))
        with stub(kind, handle) as service, pytest.raises(ServiceError) as caught:
            service.decide("some")
        assert (caught.value.code, len(heard)) == ("unreadable", 1)


def test_bodies_are_read_and_closed(kind: str, clock: Clock) -> None:
    bodies = [Body(BUSY), Body(b'{"id', httpx.ReadError("cut")), Body(BUSY), Body(DECISION[:9], DECISION[9:])]
    statuses = (503, 200, 504, 200)
    _, handle = answers(*map(lambda status, body: httpx.Response(status, stream=body), statuses, bodies))
    with stub(kind, handle) as service:
        assert service.decide("some").round == 1
    assert [body.is_closed for body in bodies] == [True] * 4
    assert [body.is_read for body in bodies] == [True, False, True, True]


def test_a_body_that_is_always_cut_short_is_an_error(kind: str, clock: Clock) -> None:
    bodies: list[Body] = []

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(Body(DECISION[:9], httpx.RemoteProtocolError("cut")))
        return httpx.Response(200, stream=bodies[-1])

    with stub(kind, handle, retry_seconds=5) as service, pytest.raises(ServiceUnavailable) as caught:
        service.decide("some")
    assert caught.value.code == "unreachable"
    assert len(bodies) > 5
    assert all(body.is_closed for body in bodies)


class Pauses:
    """Pauses of an event loop that end when the test says so; the clock stands still."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[float] = []
        self.end = asyncio.Event()
        patch.setattr(retries, "asyncio", SimpleNamespace(sleep=self._sleep))
        patch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: 0.0))

    async def _sleep(self, seconds: float) -> None:
        self.begun.append(seconds)
        await self.end.wait()


def test_a_request_can_be_cancelled_in_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, handle = answers(busy(Retry_After="5"), busy(Retry_After="5"), decided())

    async def cancel() -> None:
        pauses = Pauses(monkeypatch)
        async with AsyncClient("http://stub", "k" * 20, transport=httpx.MockTransport(handle)) as service:
            for number, ask in enumerate((service.decide("some"), anext(service.ledger("some"))), 1):
                task = asyncio.ensure_future(ask)
                await until_async(lambda: len(pauses.begun) == number)  # noqa: B023
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert (await service.decide("some")).round == 1
        assert pauses.begun == [5.0, 5.0]

    asyncio.run(cancel())
    assert len(heard) == 3


def test_requests_pause_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause of one request does not hold up the others."""

    def handle(request: httpx.Request) -> httpx.Response:
        heard.append(request)
        return decided() if len(heard) > 20 else busy(Retry_After="1")

    async def together() -> list[int]:
        pauses = Pauses(monkeypatch)
        async with AsyncClient("http://stub", "k" * 20, transport=httpx.MockTransport(handle)) as service:
            made = asyncio.gather(*[service.decide("some") for _ in range(20)])
            await until_async(lambda: len(pauses.begun) == 20)
            pauses.end.set()
            return [each.round for each in await made]

    heard: list[httpx.Request] = []
    assert asyncio.run(together()) == [1] * 20
    assert len(heard) == 40


def test_nobody_at_that_address(kind: str, clock: Clock) -> None:
    with client(kind, f"http://127.0.0.1:{free_port()}", "k" * 20, retry_seconds=5) as service:
        asks: list[Callable[[], Any]] = [
            lambda: service.decide("some"),
            lambda: service.experiments(),
            lambda: next(service.ledger("some")),
            lambda: next(service.watch("some")),
        ]
        for ask in asks:
            begun = clock.now
            with pytest.raises(ServiceUnavailable) as caught:
                ask()
            assert (caught.value.status, caught.value.code, caught.value.field) == (503, "unreachable", None)
            assert 0.0 < clock.now - begun <= 5.0


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


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
    with server.client() as other:
        other.create(f"late-{kind}", 2)
        with Lossy(server.port) as proxy, client(kind, proxy.url, ADMIN_KEY, timeout=1) as service:
            proxy.plan = ["late"]
            assert service.decide(f"late-{kind}").round == 1
        assert len(proxy.bodies) >= 2
        assert set(proxy.bodies) == {proxy.bodies[0]}
        assert other.experiment(f"late-{kind}").rounds == 1


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
