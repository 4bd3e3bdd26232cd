"""Addresses, keys, proxies, and connections that are given back; the same for both clients."""

import math
import pickle
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from belated.client import ServiceError, ServiceUnavailable
from support.clients import BOTH, Clock, client, ledger_lines
from support.refusals import refused

DECISION = b'{"id": "x", "round": 1, "arm": 0, "propensity": 0.5}'
PROBLEM = b'{"code": "word", "message": "a sentence", "field": null}'


class Service(BaseHTTPRequestHandler):
    """Answers two of three requests with 503, keeps connections open, and counts them."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    server: "Counting"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(DECISION)

    def do_GET(self) -> None:
        if "nobody" in self.path:
            self._answer(PROBLEM, 404)
        else:
            self._answer(ledger_lines(*range(1, 2000)))

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.server.requests.append(self.requestline)
        if len(self.server.requests) % 3:
            body, status = PROBLEM, 503
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: Any) -> None:
        pass


class Counting(ThreadingHTTPServer):
    """The server of `Service`."""

    connections = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Service)
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves a stream closes the connection: no error."""


@pytest.fixture
def counting() -> Iterator[Counting]:
    with Counting() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def one_connection(kind: str) -> Any:
    transport = httpx.HTTPTransport if kind == "Client" else httpx.AsyncHTTPTransport
    return transport(limits=httpx.Limits(max_connections=1))


def test_one_connection_is_enough(kind: str, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with client(kind, counting.url, "k" * 20, timeout=5, transport=one_connection(kind)) as service:
        for _ in range(10):
            assert service.decide("some").round == 1
        with pytest.raises(ServiceError) as caught:
            next(service.ledger("nobody"))
        assert len(list(service.ledger("some"))) == 1999
        assert str(caught.value) == "a sentence"
        with pytest.raises(ServiceError) as caught:
            service.experiment("nobody")
        assert str(caught.value) == "a sentence"
        assert (len(counting.requests), len(clock.pauses), counting.connections) == (39, 26, 1)
        for _ in range(3):  # a stream that is left before its end gives up its connection, but frees the place
            with closing(service.ledger("some")) as events:
                assert next(events).number == 1
        assert service.decide("some").round == 1
        assert counting.connections <= 4


class Closable(httpx.MockTransport):
    """A transport that knows whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


def test_a_client_closes_its_transport(kind: str) -> None:
    transport = Closable(lambda request: httpx.Response(200, content=DECISION))
    with client(kind, "http://stub", "k" * 20, transport=transport) as service:
        service.decide("some")
        assert not transport.is_closed
    assert transport.is_closed


class Raw(socketserver.StreamRequestHandler):
    """Sends half of an answer and hangs up."""

    server: "HangingUp"

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.server.heard += 1
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + DECISION)


class HangingUp(socketserver.ThreadingTCPServer):
    """The server of `Raw`."""

    heard = 0


def test_connections_that_are_cut_leave_room_for_the_next(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with HangingUp(("127.0.0.1", 0), Raw) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        settings = {"timeout": 5, "retry_seconds": 60, "transport": one_connection(kind)}
        with client(kind, url, "k" * 20, **settings) as service, pytest.raises(ServiceUnavailable) as caught:
            service.experiment("some")
        server.shutdown()
        thread.join()
    assert isinstance(caught.value.__cause__, httpx.RemoteProtocolError | httpx.ReadError)
    assert server.heard == len(clock.pauses) + 1 > 15


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_proxy_of_the_environment(
    kind: str, counting: Counting, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv(variable, counting.url if variable == "HTTP_PROXY" else counting.url.removeprefix("http://"))
    with client(kind, "http://belated.example", "k" * 20) as service:
        assert service.decide("some").round == 1
    assert counting.requests == ["POST http://belated.example/v1/experiments/some/decisions HTTP/1.1"] * 3
    monkeypatch.setenv("NO_PROXY", "other.example,127.0.0.1")
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    with client(kind, counting.url, "k" * 20) as service:
        assert service.decide("some").round == 1
    assert counting.requests[3:] == ["POST /v1/experiments/some/decisions HTTP/1.1"] * 3


@pytest.mark.parametrize("url", ["localhost:8000", "", "/v1", "http://", "ftp://example.com", "http://x:port"])
def test_an_address_that_is_none(kind: str, url: str) -> None:
    with refused("url", repr(url)):
        client(kind, url, "k" * 20)


@pytest.mark.parametrize("key", ["secret-key\n", "two secret", "secret\x00", "secr\u00e9t"])
def test_a_key_that_no_header_can_hold_is_not_shown(kind: str, key: str) -> None:
    with refused("key") as caught:
        client(kind, "http://stub", key)
    assert "secr" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retry_seconds", -1),
        ("retry_seconds", math.nan),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", math.nan),
        ("timeout", math.inf),
        ("timeout", None),
    ],
)
def test_times_that_are_none(kind: str, name: str, value: float) -> None:
    with refused(name, value):
        client(kind, "http://stub", "k" * 20, **{name: value})


@pytest.mark.parametrize("error", [ServiceError, ServiceUnavailable])
def test_errors_pass_from_one_process_to_another(error: type[ServiceError]) -> None:
    found = pickle.loads(pickle.dumps(error(422, "invalid", "loss is 2", "loss")))
    assert type(found) is error
    assert (found.status, found.code, found.message, found.field) == (422, "invalid", "loss is 2", "loss")
    assert str(found) == "loss is 2"
