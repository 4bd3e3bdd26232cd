"""Half a request is none: nothing of it is recorded, nobody is answered, nothing is held up."""

import os
import signal
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from support.http_helpers import EXPERIMENTS, at, create, done, head, serving, state, talk
from support.serving import Server, is_alive
from support.waiting import until

TIMES = 20
LONG = 200_000
"""More than what is read before the application hears of a request."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running, talk(running) as http:
        create(http, "kept")
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with talk(server) as connection:
        yield connection


HALVES = {
    "length, no body": ["Content-Length: 2"],
    "length, half a body": ["Content-Length: 11"],
    "chunked, no body": ["Transfer-Encoding: chunked"],
    "chunked, half a chunk": ["Transfer-Encoding: chunked"],
    "chunked, no end": ["Transfer-Encoding: chunked"],
    "length, half of a long body": [f"Content-Length: {LONG}"],
    "chunked, half of a long body": ["Transfer-Encoding: chunked"],
    "asked whether to go on": ["Content-Length: 2", "Expect: 100-continue"],
}
BODIES = {
    "length, no body": b"",
    "length, half a body": b'{"id":',
    "chunked, no body": b"",
    "chunked, half a chunk": b"b\r\n{",
    "chunked, no end": b"2\r\n{}\r\n",
    "length, half of a long body": b"{}".ljust(LONG - 1),
    "chunked, half of a long body": b"%x\r\n%b\r\n" % (LONG, b"{}".ljust(LONG)),
    "asked whether to go on": b"",
}


@pytest.mark.parametrize("case", HALVES)
def test_who_goes_away_in_the_middle_of_a_body_has_asked_for_nothing(
    server: Server, http: httpx.Client, case: str
) -> None:
    before = state(http, "kept")
    said = server.log.read_text()
    for k in range(TIMES):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(head("POST", at("kept", "decisions"), *HALVES[case]) + BODIES[case])
            if k % 2:
                time.sleep(0.01)  # the server has seen what there is
            if k % 4 > 1:
                raw.shutdown(socket.SHUT_WR)
                raw.settimeout(10)
                answer = raw.recv(1000)
                assert answer in (b"", b"HTTP/1.1 100 Continue\r\n\r\n"), answer
    done(http.get(at("kept")))
    time.sleep(0.1)
    assert state(http, "kept") == before
    assert server.log.read_text() == said


def test_a_whole_request_counts_even_if_its_sender_does_not_wait(server: Server, http: httpx.Client) -> None:
    before = state(http, "kept")["rounds"]
    for _ in range(TIMES):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(head("POST", at("kept", "decisions"), "Content-Length: 2") + b"{}")
    until(lambda: state(http, "kept")["rounds"] == before + TIMES)


def test_an_experiment_that_came_by_half_does_not_exist(server: Server, http: httpx.Client) -> None:
    body = b'{"name": "half", "arms": 2}'
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(head("POST", EXPERIMENTS, f"Content-Length: {len(body) + 1}") + body)
    time.sleep(0.2)
    assert http.get(at("half")).status_code == 404


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /v1/experiments/x/decisions HT",
        head("POST", at("kept", "decisions"), "Content-Length: 2"),
        head("POST", at("kept", "decisions"), f"Content-Length: {LONG}") + b" " * (LONG // 2),
        head("POST", at("kept", "decisions"), "Transfer-Encoding: chunked") + b"2\r\n{}\r\n",
    ],
    ids=["head", "body", "long body", "chunks"],
)
def test_a_request_that_does_not_come_holds_up_no_stop(tmp_path_factory: pytest.TempPathFactory, begun: bytes) -> None:
    with serving("sqlite", tmp_path_factory) as server:
        with talk(server) as http:
            create(http, "kept")
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(begun)
            time.sleep(0.2)
            os.kill(server.pid, signal.SIGTERM)
            answer = b""
            while part := raw.recv(1 << 16):
                answer += part
        until(lambda: not is_alive(server.pid), 8)
        assert answer.startswith(b"HTTP/1.1 503 "), answer
        assert b'"code":"stopping"' in answer
        assert "ERROR" not in server.log.read_text()
