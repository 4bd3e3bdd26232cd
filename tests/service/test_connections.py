"""Strangers: whatever somebody without a key sends, or does not send, or does not read, others are served."""

import asyncio
import json
import logging
import os
import random
import re
import resource
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from belated.ledger import open_ledger
from belated.ledger.keys import ensure_admin
from belated.service import server as module
from belated.service.app import application
from belated.service.gate import READ, STALL_SECONDS, TICK_SECONDS
from belated.service.limits import Limits
from belated.service.protocol import LINGER_SECONDS
from support.http_helpers import EXPERIMENTS, at, create, exchange, head, serving, talk
from support.serving import ADMIN_KEY, Server
from support.wire import SYSTEM, Worker

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST /some HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
MB = 1 << 20


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def post(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: here", *lines, "", ""]).encode()


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)]


def code(answer: bytes, status: int) -> str:
    """The code of an error that is a whole answer, after which the connection is closed."""
    first, _, body = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert b"\r\nconnection: close" in first
    assert b"\r\ncontent-type: application/json" in first
    said = json.loads(body)
    assert set(said) == {"code", "message", "field"}
    return str(said["code"])


ENDLESS = {
    "one header": (b"GET /healthz HTTP/1.1\r\nHost: here\r\nX-Long: ", b"x" * 50_000),
    "many headers": (b"GET /healthz HTTP/1.1\r\nHost: here\r\n", b"X-Another: and another\r\n" * 2_000),
    "a long path": (b"GET /", b"x" * 50_000),
    "empty lines": (b"", b"\r\n" * 25_000),
    "what follows a chunked body": (CHUNKED + b"0\r\n", b"X-Another: and another\r\n" * 2_000),
    "a chunk's extension": (CHUNKED + b"1;x=", b"x" * 50_000),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_headers_without_end_are_refused_and_not_kept(case: str) -> None:
    first, more = ENDLESS[case]

    async def scenario() -> None:
        worker = Worker()
        visitor = worker.connect()
        await visitor.send(first, *[more[k : k + 5_000] for k in range(0, len(more), 5_000)])
        assert code(visitor.answer, 431) == "headers_too_large"
        before = len(visitor.answer)
        for _ in range(20):
            await visitor.send(more)
            assert visitor.kept < 100_000
        worker.clock.go_on(LINGER_SECONDS + 2 * TICK_SECONDS)
        assert visitor.is_aborted
        assert len(visitor.answer) == before
        await worker.rest()
        assert worker.counters.get("connections") == 0

    run(scenario)


def test_the_limit_of_headers_is_met_to_the_byte() -> None:
    async def scenario() -> None:
        start = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Long: "
        for length, status in ((4_050, 200), (4_096 + 64, 431), (40_000, 431)):
            request = start + b"x" * (length - len(start) - 4) + b"\r\n\r\n"
            for size in (length, 700):
                visitor = Worker(head=4096).connect()
                await visitor.send(*(request[k : k + size] for k in range(0, length, size)))
                assert statuses(visitor.answer) == [status], (length, size)

    run(scenario)


@pytest.mark.parametrize("path", [b"/short", b"/long"])
def test_requests_whose_answers_nobody_reads_are_not_taken_in(path: bytes) -> None:
    async def scenario() -> None:
        worker = Worker(unread_seconds=1)
        visitor = worker.connect()
        visitor.reads = False
        request = b"GET %b HTTP/1.1\r\n\r\n" % path
        await visitor.send(request * (4 * MB // len(request)))
        for _ in range(200):
            await worker.rest()
        assert visitor.taken <= 4 * MB / 2
        assert visitor.kept < 4 * READ
        if visitor.get_write_buffer_size():
            worker.clock.go_on(0.9)
            assert not visitor.is_over
            worker.clock.go_on(0.6)
            assert visitor.is_aborted

    run(scenario)


def test_a_reader_who_is_slow_but_reads_gets_it_all() -> None:
    async def scenario() -> None:
        worker = Worker(unread_seconds=1)
        slow, stuck = worker.connect(), worker.connect()
        for visitor in (slow, stuck):
            visitor.reads = False
            await visitor.send(b"GET /long HTTP/1.1\r\nConnection: close\r\n\r\n")
        for _ in range(30):
            slow.read(20_000)
            await worker.rest()
            worker.clock.go_on(0.75)
        assert slow.answer.endswith(b"0\r\n\r\n")
        assert slow.answer.count(b"x") == 500_000
        assert slow.is_closed
        assert stuck.is_aborted

    run(scenario)


def test_a_buffer_that_is_fuller_each_time_has_been_emptied_in_between() -> None:
    """An export fills it again as soon as it is empty: whoever looks four times a second may never see it shrink."""

    async def is_given_up(reads: bool) -> bool:
        worker = Worker(unread_seconds=1)
        visitor = worker.connect()
        visitor.reads = False
        for k in range(1, 41):
            visitor._unread = b"x" * (SYSTEM + 100 * k)
            visitor.connection.pause_writing()
            if reads:
                visitor.connection.resume_writing()
            worker.clock.go_on(TICK_SECONDS)
        return visitor.is_over

    assert asyncio.run(is_given_up(reads=False))
    assert not asyncio.run(is_given_up(reads=True))


def test_half_open_requests_keep_nobody_out() -> None:
    async def scenario() -> None:
        worker = Worker(connections=50, connections_per_address=30)
        crowd = [worker.connect() for _ in range(30)]
        for k, visitor in enumerate(crowd):
            await visitor.send(HEALTH[: 5 + k % 30])
        more = [worker.connect() for _ in range(10)]
        assert [each.is_aborted for each in crowd] == [True] * 10 + [False] * 20
        assert statuses(await more[-1].send(HEALTH)) == [200]
        others = [worker.connect(f"127.0.0.{2 + k}") for k in range(25)]
        assert [each.is_aborted for each in crowd] == [True] * 15 + [False] * 15
        assert statuses(await others[-1].send(LAST)) == [200]
        assert others[-1].is_closed
        assert worker.counters.get("connections") == 49
        assert worker.counters.get("connections_gave_way") == 15
        assert worker.counters.get("connections_refused") == 0

    run(scenario)


def test_who_has_waited_longest_gives_way() -> None:
    async def scenario() -> None:
        worker = Worker(connections=6, connections_per_address=4)
        mine = [worker.connect() for _ in range(2)]
        others = [worker.connect("127.0.0.2") for _ in range(6)]
        assert [each.is_aborted for each in (*mine, *others)] == [False, False, True, True, *[False] * 4]
        for each in [*mine, *others[2:]]:
            assert statuses(await each.send(HEALTH)) == [200]
        third = worker.connect("127.0.0.3")
        assert statuses(await third.send(HEALTH)) == [200]
        assert [each.is_aborted for each in (*mine, *others[2:])] == [True, *[False] * 5]  # answered first

    run(scenario)


def test_addresses_of_one_network_count_as_one() -> None:
    async def scenario() -> None:
        worker = Worker(connections_per_address=1)
        first = worker.connect("2001:db8:1:2::5")
        worker.connect("2001:db8:1:3::5")
        assert not first.is_aborted
        worker.connect("2001:db8:1:2::6")
        assert first.is_aborted
        mapped = worker.connect("::ffff:10.0.0.1")
        worker.connect("10.0.0.1")
        assert mapped.is_aborted

    run(scenario)


def test_where_everybody_is_being_served_a_newcomer_is_told() -> None:
    async def scenario() -> None:
        worker = Worker(connections=3)
        served = [worker.connect() for _ in range(3)]
        for each in served:
            await each.send(b"GET /endless HTTP/1.1\r\n\r\n")
        late = worker.connect()
        assert code(late.answer, 503) == "busy"
        assert b"\r\nretry-after: 1" in late.answer
        assert late.is_closed
        assert worker.counters.get("connections_refused") == 1
        served[1].leave()
        await worker.rest()
        assert statuses(await worker.connect().send(HEALTH)) == [200]
        assert not served[0].is_over
        for task in worker.state.tasks:
            task.cancel()

    run(scenario)


def test_one_who_reads_nothing_gives_way_where_all_are_being_served() -> None:
    async def scenario() -> None:
        worker = Worker(connections=2)
        stuck, served = worker.connect(), worker.connect()
        stuck.reads = False
        await stuck.send(b"GET /long HTTP/1.1\r\n\r\n")
        await served.send(b"GET /endless HTTP/1.1\r\n\r\n")
        assert statuses(await worker.connect().send(HEALTH)) == [200]
        assert (stuck.is_aborted, served.is_over) == (True, False)
        for task in worker.state.tasks:
            task.cancel()

    run(scenario)


SLOW: dict[str, tuple[bytes, bytes, float]] = {
    "a head": (b"GET /healthz HTTP/1.1\r\n", b"", 10),
    "a head that drips": (b"GET /healthz HTTP/1.1\r\nX-Drip: ", b"x", 10),
    "empty lines that drip": (b"\r\n", b"\r\n", 10),
    "a body": (post("/some", "Content-Length: 50"), b"", 30),
    "a body that drips": (post("/some", "Content-Length: 500"), b"x", 30),
    "chunks that drip": (CHUNKED, b"1\r\nx\r\n", 30),
    "a long body that drips": (post("/some", "Content-Length: 500000") + b" " * 200_000, b"x", 30),
    "a body that was asked for": (post("/some", "Content-Length: 500", "Expect: 100-continue"), b"x", 30),
    "the second request": (HEALTH + b"GET /healthz HT", b"", 10),
}


@pytest.mark.parametrize("case", SLOW)
def test_a_request_that_takes_too_long_is_refused(case: str) -> None:
    first, drip, seconds = SLOW[case]

    async def scenario() -> None:
        worker = Worker(head_seconds=10, body_seconds=30, idle_seconds=20)
        visitor = worker.connect()
        await visitor.send(first)
        whole = 1 if "second" in case or "asked" in case else 0
        for _ in range(int(seconds)):
            assert statuses(visitor.answer) == [200 if "second" in case else 100] * whole
            await visitor.send(drip)
            worker.clock.go_on(1)
        worker.clock.go_on(2 * TICK_SECONDS)
        await worker.finish()
        before, _, refused = visitor.answer.rpartition(b"HTTP/1.1 408")
        assert code(b"HTTP/1.1 408" + refused, 408) == "slow_request"
        assert before.count(b"HTTP/1.1 ") == whole
        worker.clock.go_on(LINGER_SECONDS + 2 * TICK_SECONDS)
        assert visitor.is_over
        assert len(worker.app.heard) == ("second" in case)

    run(scenario)


def test_a_worker_that_has_slept_gives_clients_another_chance() -> None:
    async def scenario() -> None:
        worker = Worker(head_seconds=10)
        visitor = worker.connect()
        await visitor.send(HEALTH[:9])
        worker.clock.jump(max(STALL_SECONDS, 10) + 1)
        assert visitor.answer == b""
        worker.clock.go_on(2 * TICK_SECONDS)
        assert code(visitor.answer, 408) == "slow_request"

    run(scenario)


def test_a_connection_that_nothing_comes_on_is_closed_without_a_word() -> None:
    async def scenario() -> None:
        worker = Worker(idle_seconds=20)
        for first, count in ((b"", 0), (HEALTH, 1)):
            visitor = worker.connect()
            await visitor.send(first)
            worker.clock.go_on(19)
            assert not visitor.is_over
            worker.clock.go_on(2)
            assert visitor.is_closed
            assert len(statuses(visitor.answer)) == count

    run(scenario)


def test_a_body_that_nobody_wants_ends_with_the_connection() -> None:
    """An answer before the end of the body is sent, and what still comes is not taken in for ever."""

    async def scenario() -> None:
        worker = Worker(body=MB)
        visitor = worker.connect()
        await visitor.send(b"POST /refused HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        await visitor.send(*[chunk] * 60)
        assert statuses(visitor.answer) == [401]
        assert visitor.taken < 3 * MB
        assert visitor.kept < 2 * READ
        worker.clock.go_on(LINGER_SECONDS + 2 * TICK_SECONDS)
        assert visitor.is_over

    run(scenario)


def request(chance: random.Random) -> tuple[bytes, int]:
    """Some request, and the status of its answer."""
    body = b"{}".ljust(chance.choice((2, 30, 900, 3_000, 70_000)))
    kind = chance.randrange(6)
    if kind == 0:
        return HEALTH, 200
    if kind == 1:
        return b"HEAD /some HTTP/1.1\r\n\r\n", 200
    if kind == 2:
        return post("/some", f"Content-Length: {len(body)}") + body, 200
    if kind == 3:
        chunks = b""
        rest = body
        while rest:
            size = chance.choice((1, 10, 5_000, 100_000))
            chunks += b"%x\r\n%b\r\n" % (len(rest[:size]), rest[:size])
            rest = rest[size:]
        return CHUNKED + chunks + b"0\r\n\r\n", 200
    if kind == 4:
        return post("/refused", f"Content-Length: {len(body)}") + body, 401
    return b"GET /nothing HTTP/1.1\r\nX-Long: " + b"x" * chance.choice((1, 2_000, 20_000)) + b"\r\n\r\n", 404


def cut(sent: bytes, chance: random.Random) -> Iterator[bytes]:
    while sent:
        size = chance.choice((1, 7, 100, 1_000, 1_024, 1_500, 30_000, 200_000))
        yield sent[:size]
        sent = sent[size:]


@pytest.mark.parametrize("seed", range(4))
def test_requests_behind_each_other_are_answered_in_turn_however_they_are_cut(seed: int) -> None:
    async def scenario() -> None:
        chance = random.Random(seed)
        asked = [request(chance) for _ in range(40)]
        visitor = Worker().connect()
        await visitor.send(*cut(b"".join(each for each, _ in asked) + LAST, chance))
        for _ in range(500):
            await visitor.worker.rest()
        assert statuses(visitor.answer) == [status for _, status in asked] + [200]
        assert visitor.is_closed

    run(scenario)


@pytest.mark.parametrize(
    "bad",
    [b"\x00\x01\x02", b"NONSENSE\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n"],
)
def test_what_is_no_request_is_refused_after_those_that_are(bad: bytes) -> None:
    async def scenario() -> None:
        worker = Worker()
        assert code(await worker.connect().send(bad), 400) == "bad_request"
        assert statuses(await worker.connect().send(HEALTH + HEALTH + bad)) in ([200, 200], [200, 200, 400])
        broken = await worker.connect().send(CHUNKED + b"20000\r\n" + b" " * 0x20000, b"?" * 9)
        await worker.finish()
        assert code(broken or b"", 400) == "bad_request"

    run(scenario)


def test_another_protocol_is_offered_in_vain() -> None:
    async def scenario() -> None:
        upgrade = b"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
        assert statuses(await Worker().connect().send(upgrade + upgrade + LAST)) == [200, 200, 200]

    run(scenario)


def test_http_of_old_has_an_end_too() -> None:
    async def scenario() -> None:
        for version, is_chunked in ((b"1.0", False), (b"1.1", True)):
            visitor = Worker().connect()
            await visitor.send(b"GET /long HTTP/%b\r\n\r\n" % version)
            await visitor.worker.finish()
            assert visitor.answer.startswith(b"HTTP/1.1 200 ")
            assert visitor.answer.count(b"x") == 500_000
            assert (b"chunked" in visitor.answer) == is_chunked
            assert (b"\r\nconnection: close" in visitor.answer) == visitor.is_closed == (not is_chunked)

    run(scenario)


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /some HT",
        post("/some", "Content-Length: 2"),
        post("/some", "Content-Length: 200000") + b" " * 100_000,
        CHUNKED + b"2\r\n{}\r\n",
    ],
    ids=["head", "body", "long body", "chunks"],
)
def test_a_request_that_does_not_come_holds_up_no_stop(begun: bytes) -> None:
    async def scenario() -> None:
        worker = Worker()
        idle, half, stuck = worker.connect(), worker.connect(), worker.connect()
        await half.send(begun)
        stuck.reads = False
        await stuck.send(b"GET /long HTTP/1.1\r\n\r\n")
        for each in (idle, half, stuck):
            each.connection.shutdown()
        assert [each.is_over for each in (idle, half, stuck)] == [True, False, False]
        for each in (half, stuck):
            each.connection.hurry()
        await worker.finish()
        assert code(half.answer, 503) == "stopping"
        assert stuck.is_aborted
        assert worker.app.heard == [0]  # what stuck asked for

    run(scenario)


HALVES = {
    "length, no body": (["Content-Length: 2"], b""),
    "length, half a body": (["Content-Length: 11"], b'{"id":'),
    "chunked, no body": (["Transfer-Encoding: chunked"], b""),
    "chunked, half a chunk": (["Transfer-Encoding: chunked"], b"b\r\n{"),
    "chunked, no end": (["Transfer-Encoding: chunked"], b"2\r\n{}\r\n"),
    "length, half of a long body": (["Content-Length: 200000"], b"{}".ljust(199_999)),
    "chunked, half of a long body": (["Transfer-Encoding: chunked"], b"30d40\r\n" + b"{}".ljust(200_000) + b"\r\n"),
    "asked whether to go on": (["Content-Length: 2", "Expect: 100-continue"], b""),
}


def test_who_goes_away_in_the_middle_of_a_body_has_asked_for_nothing(tmp_path: Path, caplog: Any) -> None:
    """The whole of it counts, even if nobody waits for the answer."""
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, ADMIN_KEY)
    app = application(lambda: open_ledger(store))
    key = f"Authorization: Bearer {ADMIN_KEY}"

    async def scenario() -> None:
        worker = Worker(app)

        async def ask(method: str, path: str, body: bytes = b"", *, stays: bool = True, lines: Any = None) -> bytes:
            lines = [f"Content-Length: {len(body)}"] if lines is None else lines
            visitor = worker.connect()
            await visitor.send(post(path, key, *lines).replace(b"POST", method.encode(), 1) + body)
            if not stays:
                visitor.leave()
            else:
                while not visitor.answer.partition(b"\r\n\r\n")[2]:
                    await asyncio.sleep(0.001)
            await worker.finish()
            return visitor.answer.partition(b"\r\n\r\n")[2]

        async with app.lifespan_context(app):
            await ask("POST", EXPERIMENTS, b'{"name": "kept", "arms": 2}')
            before = json.loads(await ask("GET", at("kept") + "?digest=true"))
            for lines, body in HALVES.values():
                await ask("POST", at("kept", "decisions"), body, stays=False, lines=lines)
            half = b'{"name": "half", "arms": 2}'
            await ask("POST", EXPERIMENTS, half, stays=False, lines=[f"Content-Length: {len(half) + 1}"])
            assert json.loads(await ask("GET", at("half")))["code"] == "unknown_experiment"
            assert json.loads(await ask("GET", at("kept") + "?digest=true")) == before
            assert caplog.records == []
            for _ in range(5):
                await ask("POST", at("kept", "decisions"), b"{}", stays=False)
            last = json.loads(await ask("POST", at("kept", "decisions"), b"{}"))
            assert last["round"] == 6  # in the order in which they came

    with caplog.at_level(logging.INFO):
        run(scenario)


def test_too_few_open_files_lower_the_limit_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 1_000))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    assert module._within_open_files(Limits(connections=2_000)).connections == 900
    assert module._within_open_files(Limits(connections=700)).connections == 700
    assert module._within_open_files(Limits(connections=100)).connections == 100
    assert asked == [(1_000, 1_000), (800, 1_000)]


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        yield raw


def read_all(raw: socket.socket) -> bytes:
    answer = b""
    with suppress(ConnectionError):
        while part := raw.recv(1 << 16):
            answer += part
    return answer


def test_a_real_server_answers_whole_requests_and_lets_half_ones_give_way(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = serving("sqlite", tmp_path_factory, connections=20, head_seconds=600)
    with run as server, talk(server) as http, ExitStack() as stack:
        create(http, "kept")
        decide = head("POST", at("kept", "decisions"), "Content-Length: 2").replace(b"Connection: close\r\n", b"")
        sent = (decide + b"{}") * 20 + HEALTH * 5 + LAST
        assert statuses(exchange(server, *cut(sent, random.Random(7)))) == [200] * 26
        crowd = [stack.enter_context(connected(server)) for _ in range(60)]
        for raw in crowd:
            with suppress(OSError):  # the first ones have given way by now
                raw.sendall(HEALTH[:9])
        assert statuses(exchange(server, LAST)) == [200]
        assert read_all(crowd[0]) == b""
        assert 'belated_connections_refused_total{worker="0"} 0.0' in http.get("/metrics").text


def test_a_real_server_tells_who_is_slow_and_stops_though_half_a_request_has_come(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whole heads come at once: they are never slow."""
    quick = {"belated.service.server.STUCK_SECONDS": 0.1}
    with serving("sqlite", tmp_path_factory, head_seconds=0.1, body_seconds=600, constants=quick) as server:
        with connected(server) as raw:
            raw.sendall(HEALTH[:9])
            assert code(read_all(raw), 408) == "slow_request"
        with connected(server) as raw:
            raw.sendall(head("POST", at("kept", "decisions"), "Content-Length: 9") + b"{")
            assert statuses(exchange(server, LAST)) == [200]
            os.kill(server.pid, signal.SIGTERM)
            assert code(read_all(raw), 503) == "stopping"
        server.wait_until_gone()
        assert "ERROR" not in server.log.read_text()
