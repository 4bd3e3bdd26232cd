"""Strangers: whatever somebody without a key sends, or does not send, or does not read, others are served."""

import json
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

from support.http_helpers import at, create, exchange, head, serving, state, talk
from support.serving import ADMIN_KEY, Server
from support.waiting import until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
MB = 1 << 20


def memory(server: Server) -> int:
    """Bytes of memory that a server of one process has in use."""
    with open(f"/proc/{server.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def is_well(server: Server) -> bool:
    """Whether a newcomer is served, soon; the bound is wide, since tests share their machine."""
    begun = time.monotonic()
    assert httpx.get(f"{server.url}/healthz", timeout=5).status_code == 200
    return time.monotonic() - begun < 5


@contextmanager
def connected(server: Server, host: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(host, 0)) as raw:
        yield raw


def read_all(raw: socket.socket) -> bytes:
    answer = b""
    with suppress(ConnectionError):
        while part := raw.recv(1 << 16):
            answer += part
    return answer


def code(answer: bytes, status: int) -> str:
    """The code of an error that is a whole answer, after which the connection is closed."""
    first, _, body = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert b"\r\nconnection: close" in first
    assert b"\r\ncontent-type: application/json" in first
    said = json.loads(body)
    assert set(said) == {"code", "message", "field"}
    return str(said["code"])


def push(raw: socket.socket, data: Callable[[], bytes], most: int) -> int:
    """Send until nobody takes more, at most so many bytes; how many were sent."""
    raw.settimeout(2)
    sent = 0
    with suppress(OSError):
        while sent < most:
            sent += raw.send(data())
    return sent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running, talk(running) as http:
        create(http, "kept")
        is_well(running)
        yield running


ENDLESS = {
    "one header": (b"GET /healthz HTTP/1.1\r\nHost: here\r\nX-Long: ", b"x" * 50_000),
    "many headers": (b"GET /healthz HTTP/1.1\r\nHost: here\r\n", b"X-Another: and another\r\n" * 2_000),
    "a long path": (b"GET /", b"x" * 50_000),
    "empty lines": (b"", b"\r\n" * 25_000),
    "what follows a chunked body": (
        b"POST /v1/experiments/kept/decisions HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"X-Another: and another\r\n" * 2_000,
    ),
    "a chunk's extension": (
        b"POST /v1/experiments/kept/decisions HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n1;x=",
        b"x" * 50_000,
    ),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_headers_without_end_are_refused_and_cost_no_memory(server: Server, case: str) -> None:
    first, more = ENDLESS[case]
    before = memory(server)
    with connected(server) as raw:
        raw.sendall(first)
        push(raw, lambda: more, 30 * MB)
        assert is_well(server)
        assert memory(server) - before < 15 * MB
        raw.settimeout(20)
        assert read_all(raw)[:13] in (b"HTTP/1.1 431 ", b"")  # it may have gone under while we were still sending
    with connected(server) as raw:
        raw.sendall(first + more)
        assert code(read_all(raw), 431) == "headers_too_large"


def test_the_limit_of_headers_is_met_to_the_byte(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, head=4096) as server:
        for length, status in ((3_950, b"200"), (4_100, b"431"), (40_000, b"431")):
            start = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Long: "
            request = start + b"x" * (length - len(start) - 4) + b"\r\n\r\n"
            assert exchange(server, request)[9:12] == status, length
            assert exchange(server, *(request[k : k + 700] for k in range(0, len(request), 700)))[9:12] == status


def test_requests_whose_answers_nobody_reads_are_not_taken_in(server: Server) -> None:
    before = memory(server)
    with ExitStack() as stack:
        for request in (HEALTH, b"GET /docs HTTP/1.1\r\n\r\n", b"GET /openapi.json HTTP/1.1\r\n\r\n"):
            raw = stack.enter_context(connected(server))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            sent = push(raw, lambda request=request: request * (30_000 // len(request)), 40 * MB)  # type: ignore[misc]
            assert sent < 30 * MB
            assert is_well(server)
        assert memory(server) - before < 15 * MB


def test_answers_that_nobody_reads_are_given_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, unread_seconds=1) as server, connected(server) as raw:
        push(raw, lambda: b"GET /docs HTTP/1.1\r\n\r\n" * 1000, 40 * MB)
        connections = f"{server.url}/metrics"
        key = {"Authorization": f"Bearer {ADMIN_KEY}"}
        until(lambda: '\nbelated_connections{worker="0"} 1.0\n' in httpx.get(connections, headers=key).text)


def test_a_reader_who_is_slow_but_reads_gets_it_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, unread_seconds=0.6) as server:
        with talk(server) as http:
            create(http, "long")
            for _ in range(11):
                http.post(at("long", "decisions"), json=[{}] * 1000)
        with connected(server) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            raw.sendall(head("GET", at("long", "ledger")))
            answer = b""
            begun = time.monotonic()
            while part := raw.recv(1 << 14):
                answer += part
                if time.monotonic() - begun < 2.5:
                    time.sleep(0.05)
        assert answer.count(b'"kind":"decision"') == 11_000
        assert answer.endswith(b"0\r\n\r\n")


def test_a_thousand_half_open_requests_keep_nobody_out(server: Server) -> None:
    before = memory(server)
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(server)) for _ in range(1_100)]
        for k, raw in enumerate(lines):
            with suppress(OSError):  # the first ones have given way by now
                raw.sendall(HEALTH[: 5 + k % 30])
        for _ in range(3):
            assert is_well(server)
        assert memory(server) - before < 30 * MB
    with talk(server) as http:
        assert 'belated_connections_refused_total{worker="0"} 0.0' in http.get("/metrics").text
        shown = re.search(r"belated_connections_gave_way_total\S+ (\S+)", http.get("/metrics").text)
        assert shown is not None
        assert float(shown[1]) >= 100


def test_who_has_waited_longest_gives_way(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, connections=6, connections_per_address=4) as server, ExitStack() as stack:
        mine = [stack.enter_context(connected(server)) for _ in range(2)]
        time.sleep(0.1)
        others = [stack.enter_context(connected(server, "127.0.0.2")) for _ in range(6)]
        assert [read_all(raw) for raw in others[:2]] == [b"", b""]  # its own oldest ones, and nobody else's
        for raw in [*mine, *others[2:]]:
            raw.sendall(HEALTH)
            assert raw.recv(1000).startswith(b"HTTP/1.1 200 ")
        third = stack.enter_context(connected(server, "127.0.0.3"))
        third.sendall(HEALTH)
        assert third.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert read_all(mine[0]) == b""  # of all, it was answered first


def test_where_everybody_is_being_served_a_newcomer_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, connections=3) as server, talk(server) as http:
        create(http, "watched")
        http.close()
        with ExitStack() as stack:
            for _ in range(3):
                raw = stack.enter_context(connected(server))
                raw.sendall(head("GET", at("watched", "stream")))
                assert b"event: state" in raw.recv(5000)
            with connected(server) as raw:
                answer = read_all(raw)
            assert code(answer, 503) == "busy"
            assert b"\r\nretry-after: 1" in answer
        until(lambda: exchange(server, HEALTH[:-2] + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200 "))


SLOW: dict[str, tuple[bytes, bytes]] = {
    "a head": (b"GET /healthz HTTP/1.1\r\n", b""),
    "a head that drips": (b"GET /healthz HTTP/1.1\r\nX-Drip: ", b"x"),
    "empty lines that drip": (b"\r\n", b"\r\n"),
    "a body": (head("POST", at("kept", "decisions"), "Content-Length: 50"), b""),
    "a body that drips": (head("POST", at("kept", "decisions"), "Content-Length: 500"), b"x"),
    "chunks that drip": (head("POST", at("kept", "decisions"), "Transfer-Encoding: chunked"), b"1\r\nx\r\n"),
    "a long body that drips": (head("POST", at("kept", "decisions"), "Content-Length: 500000") + b" " * 200_000, b"x"),
    "a body that was asked for": (
        head("POST", at("kept", "decisions"), "Content-Length: 500", "Expect: 100-continue"),
        b"x",
    ),
    "the second request": (HEALTH + b"GET /healthz HT", b""),
}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory, head_seconds=0.6, body_seconds=0.7, idle_seconds=2) as running:
        with talk(running) as http:
            create(http, "kept")
        yield running


@pytest.mark.parametrize("case", SLOW)
def test_a_request_that_takes_too_long_is_refused(hasty: Server, case: str) -> None:
    first, drip = SLOW[case]
    with connected(hasty) as raw:
        raw.sendall(first)
        raw.settimeout(0.05)
        answer = b""
        begun = time.monotonic()
        while time.monotonic() - begun < 15:
            with suppress(TimeoutError):
                if not (part := raw.recv(1000)):
                    break
                answer += part
            with suppress(OSError):
                raw.send(drip)
        assert time.monotonic() - begun > 0.3
    before, _, refused = answer.rpartition(b"HTTP/1.1 408")
    assert code(b"HTTP/1.1 408" + refused, 408) == "slow_request"
    assert before.count(b"HTTP/1.1 ") == (1 if "second" in case or "asked" in case else 0)
    with talk(hasty) as http:
        assert state(http, "kept")["rounds"] == 0
    assert "ERROR" not in hasty.log.read_text()


def test_a_connection_that_nothing_comes_on_is_closed_without_a_word(hasty: Server) -> None:
    for first in (b"", HEALTH):
        with connected(hasty) as raw:
            raw.sendall(first)
            begun = time.monotonic()
            assert read_all(raw).count(b"HTTP/1.1") == (1 if first else 0)
            assert 1 < time.monotonic() - begun < 15


def test_a_body_that_nobody_wants_ends_with_the_connection(server: Server) -> None:
    """An answer before the end of the body is sent, and what still comes is not taken in for ever."""
    with connected(server) as raw:
        raw.sendall(b"POST /v1/experiments/kept/decisions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        assert push(raw, lambda: chunk, 100 * MB) < 50 * MB
        raw.settimeout(20)
        assert read_all(raw)[:13] in (b"HTTP/1.1 401 ", b"")


def request(chance: random.Random, k: int) -> tuple[bytes, int]:
    """Some request, and the status of its answer."""
    body = json.dumps({"id": f"d{k}"}).encode().ljust(chance.choice((1, 30, 900, 3_000, 70_000)))
    path, key = at("kept", "decisions"), f"Authorization: Bearer {ADMIN_KEY}\r\n"
    kind = chance.randrange(6)
    if kind == 0:
        return HEALTH, 200
    if kind == 1:
        return b"HEAD /docs HTTP/1.1\r\n\r\n", 200
    if kind == 2:
        return f"POST {path} HTTP/1.1\r\n{key}Content-Length: {len(body)}\r\n\r\n".encode() + body, 200
    if kind == 3:
        chunks = b""
        rest = body
        while rest:
            size = chance.choice((1, 10, 5_000, 100_000))
            chunks += b"%x\r\n%b\r\n" % (len(rest[:size]), rest[:size])
            rest = rest[size:]
        return f"POST {path} HTTP/1.1\r\n{key}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n", 200
    if kind == 4:
        return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body, 401
    return b"GET /nothing HTTP/1.1\r\nX-Long: " + b"x" * chance.choice((1, 2_000, 20_000)) + b"\r\n\r\n", 404


@pytest.mark.parametrize("seed", range(4))
def test_requests_behind_each_other_are_answered_in_turn_however_they_are_cut(server: Server, seed: int) -> None:
    chance = random.Random(seed)
    asked = [request(chance, k) for k in range(60)]
    sent = b"".join(each for each, _ in asked) + HEALTH[:-2] + b"Connection: close\r\n\r\n"
    parts = []
    while sent:
        size = chance.choice((1, 7, 100, 1_000, 1_024, 1_500, 30_000, 200_000))
        parts.append(sent[:size])
        sent = sent[size:]
    answer = exchange(server, *parts)
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)]
    assert statuses == [status for _, status in asked] + [200]


@pytest.mark.parametrize(
    "bad",
    [b"\x00\x01\x02", b"NONSENSE\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n"],
)
def test_what_is_no_request_is_refused_after_those_that_are(server: Server, bad: bytes) -> None:
    assert code(exchange(server, bad), 400) == "bad_request"
    both = exchange(server, HEALTH + HEALTH + bad)
    assert re.findall(rb"HTTP/1\.1 (\d\d\d) ", both) in ([b"200", b"200"], [b"200", b"200", b"400"])
    broken = exchange(
        server,
        head("POST", at("kept", "decisions"), "Transfer-Encoding: chunked") + b"20000\r\n" + b" " * 0x20000,
        b"?" * 9,
    )
    assert code(broken, 400) == "bad_request"


def test_another_protocol_is_offered_in_vain(server: Server) -> None:
    upgrade = b"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    answer = exchange(server, upgrade + upgrade + HEALTH[:-2] + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 3


def test_http_of_old_has_an_end_too(server: Server) -> None:
    answer = exchange(
        server, f"GET {at('kept', 'ledger')} HTTP/1.0\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"chunked" not in answer
    assert b"\r\nconnection: close" in answer


def test_too_few_open_files_lower_the_limit_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    from belated.service import server as module
    from belated.service.limits import Limits

    asked: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 1_000))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    assert module._within_open_files(Limits(connections=2_000)).connections == 900
    assert module._within_open_files(Limits(connections=700)).connections == 700
    assert module._within_open_files(Limits(connections=100)).connections == 100
    assert asked == [(1_000, 1_000), (800, 1_000)]


def test_a_buffer_that_is_fuller_each_time_has_been_emptied_in_between() -> None:
    """An export fills it again as soon as it is empty: whoever looks four times a second may never see it shrink."""
    import asyncio

    from belated.service.counters import WorkerCounters, new_counters
    from belated.service.gate import Gate
    from belated.service.limits import Limits
    from belated.service.protocol import Connection

    class Transport:
        size = 0

        def get_write_buffer_size(self) -> int:
            self.size += 100
            return self.size

    async def main(reads: bool) -> bool:
        gate = Gate(Limits(unread_seconds=1), WorkerCounters(new_counters(1), 0))
        connection = Connection(gate, None, None)
        connection.transport = Transport()
        for k in range(40):
            gate.now = k * 0.25
            if connection._takes_nothing(gate.now):
                return False
            connection.pause_writing()
            if reads:
                connection.resume_writing()
        return True

    assert asyncio.run(main(reads=True))
    assert not asyncio.run(main(reads=False))
