"""To see it run: requests by route and status, the age of what waits, processes; ids of requests; the log as JSON."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import apsw
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from belated.service.log import given_id, id_maker
from support.http_helpers import at, create, decide, done, exchange, serving, talk
from support.serving import Server, is_alive
from support.waiting import until

Figure = Callable[..., float]


def figures(http: httpx.Client) -> Figure:
    response = http.get("/metrics")
    samples = [sample for family in text_string_to_metric_families(response.text) for sample in family.samples]

    def figure(name: str, **labels: str) -> float:
        return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())

    return figure


def test_requests_are_counted_by_route_and_status(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "one")
        create(http, "two")
        for name in ("one", "two", "one"):
            decide(http, name, "a", "b")
        for name in ("three", "four"):
            assert http.post(at(name, "decisions")).status_code == 404
        http.post(at("one", "decisions"), json={"id": 5})
        for k in range(30):
            assert http.get(f"/nothing/{k}").status_code == 404
        http.put("/healthz")
        http.head("/healthz")
        assert b" 431 " in exchange(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
        text = http.get("/metrics").text
        figure = figures(http)
        route = {"method": "POST", "route": "/v1/experiments/{name}/decisions"}
        assert figure("belated_requests_total", status="200", **route) == 3
        assert figure("belated_requests_total", status="404", **route) == 2
        assert figure("belated_requests_total", status="422", **route) == 1
        assert figure("belated_requests_total", route="", status="404") == 30
        assert figure("belated_requests_total", route="", status="405") == 1
        assert figure("belated_requests_total", route="", status="431") == 1
        assert figure("belated_requests_total", route="/healthz", status="200", method="GET") == 1
        assert figure("belated_request_seconds_count", **route) == 6
        assert figure("belated_request_seconds_bucket", le="+Inf", **route) == 6
        assert 0 < figure("belated_request_seconds_sum", **route) < 60
        assert figure("belated_request_seconds_bucket", le="0.0005", **route) < 6
        for name in ("three", "four", "/nothing"):
            assert name not in text


def test_any_worker_shows_the_requests_and_processes_of_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, workers=2) as server:

        def ask(_: int) -> None:
            with talk(server) as mine:
                for _ in range(5):
                    done(mine.get("/healthz"))

        asked = 0
        for _ in range(20):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(ask, range(8)))
            asked += 40
            with talk(server) as http:
                figure = figures(http)
            if all(figure("belated_requests_total", route="/healthz", worker=worker) for worker in "01"):
                break
        for _ in range(4):
            with talk(server) as http:
                figure = figures(http)
            assert figure("belated_requests_total", route="/healthz") == asked
            for worker in "01":
                assert 20e6 < figure("belated_process_resident_memory_bytes", worker=worker) < 2e9
                assert 0.01 < figure("belated_process_cpu_seconds_total", worker=worker) < 600
                assert 5 < figure("belated_process_open_fds", worker=worker) < 500
                assert abs(time.time() - figure("belated_process_start_time_seconds", worker=worker)) < 300


def test_the_age_of_what_waits_is_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "held")
        until(lambda: figures(http)("belated_queue_oldest_seconds") == 0)
        with closing(apsw.Connection(server.store.removeprefix("sqlite:///"))) as other, ThreadPoolExecutor(3) as pool:
            other.execute("BEGIN IMMEDIATE")
            begun = time.monotonic()
            asked = [
                pool.submit(httpx.post, f"{server.url}{at('held', 'decisions')}", headers=http.headers, timeout=60)
                for _ in range(2)
            ]
            until(lambda: figures(http)("belated_queue_oldest_seconds") > 0.7)
            assert figures(http)("belated_queue_oldest_seconds") < time.monotonic() - begun
            other.execute("COMMIT")
            assert [each.result().status_code for each in asked] == [200, 200]
        until(lambda: figures(http)("belated_queue_oldest_seconds") == 0)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory, more={"log_format": "json", "access_log": True}) as running:
        with talk(running) as http:
            create(http, "kept")
        yield running


def lines(server: Server) -> list[dict[str, Any]]:
    """The log, which must be one JSON object a line."""
    return [json.loads(line) for line in server.log.read_text().splitlines()]


def test_the_log_is_json_from_the_first_line_to_the_last(logged: Server) -> None:
    first = lines(logged)[0]
    assert "belated serves http://127.0.0.1" in first["message"]
    assert {"time", "level", "logger", "message", "process"} <= set(first)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first["time"])


def test_a_request_has_an_id_and_a_line(logged: Server) -> None:
    with talk(logged) as http:
        given = http.post(at("kept", "decisions") + "?x=1", headers={"X-Request-Id": "order-17/a:b"})
        made = http.get("/healthz").headers["x-request-id"]
        other = http.get("/nothing\u2028here").headers["x-request-id"]
    assert given.headers["x-request-id"] == "order-17/a:b"
    assert made != other
    found = {line["request_id"]: line for line in lines(logged) if line["logger"] == "belated.access"}
    line = found["order-17/a:b"]
    assert (line["method"], line["path"], line["status"]) == ("POST", at("kept", "decisions"), 200)
    assert line["client"] == "127.0.0.1"
    assert 0 < line["milliseconds"] < 60_000
    assert found[made]["path"] == "/healthz"
    assert found[other]["status"] == 404


@pytest.mark.parametrize("bad", [b"", b"x" * 129, b"a b", b'a"b', b"a\x01b", b"caf\xe9", b"a,b"])
def test_an_id_that_could_spoil_the_log_is_not_taken(logged: Server, bad: bytes) -> None:
    answer = exchange(logged, b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Request-Id: " + bad + b"\r\n\r\n")
    if b"\x01" in bad:
        assert answer.startswith(b"HTTP/1.1 400 ")
        return
    found = re.search(rb"\r\nx-request-id: (\S+)\r\n", answer)
    assert found is not None
    assert found[1] != bad
    assert re.fullmatch(rb"[0-9a-f]{12}-[0-9a-f]+", found[1])


def test_ids_differ_and_are_checked() -> None:
    first, second = id_maker(), id_maker()
    assert len({maker() for maker in (first, second) for _ in range(100)}) == 200
    assert given_id(b"x" * 128) == "x" * 128
    assert given_id(b"x" * 129) is None
    assert given_id(b"a\nb") is None


def test_refusals_before_a_request_are_in_the_access_log_too(logged: Server) -> None:
    exchange(logged, b"GET /x HTTP/1.1\r\nX: " + b"x" * 40_000)
    assert [line for line in lines(logged) if line.get("status") == 431]


def broken_by_the_ledger(server: Server, id: str) -> None:
    """A request for which the log has something to say."""
    with talk(server) as http:
        answer = http.get("/v1/experiments", headers={"X-Request-Id": id})
    assert answer.status_code == 500


@pytest.mark.parametrize("format", ["text", "json"])
def test_every_line_of_a_request_has_its_id(tmp_path_factory: pytest.TempPathFactory, format: str) -> None:
    broken = {"belated.service.views.summary": None}
    with serving("sqlite", tmp_path_factory, more={"log_format": format}, constants=broken) as server:
        with talk(server) as http:
            create(http, "gone")
        broken_by_the_ledger(server, "unlucky-13")
        broken_by_the_ledger(server, "unlucky-14")
        if format == "json":
            said = [line for line in lines(server) if line["message"] == "GET /v1/experiments failed"]
            assert [line["request_id"] for line in said] == ["unlucky-13", "unlucky-14"]
            assert all("Traceback" in line["exception"] for line in said)
        else:
            found = re.findall(r"ERROR belated.service: GET /v1/experiments failed (.*)", server.log.read_text())
            assert found == ["[request unlucky-13]", "[request unlucky-14]"]


def test_without_the_option_there_is_no_access_log(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        http.get("/healthz")
        assert "healthz" not in server.log.read_text()


def workers_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    return [child for child in children if b"spawn_main" in command(child)]


def command(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_supervisor_that_is_killed_takes_its_workers_along(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, workers=2) as server:
        workers = workers_of(server.pid)
        assert len(workers) == 2
        os.kill(server.pid, signal.SIGKILL)
        try:
            until(lambda: all(map(has_ended, workers)), 15)
        finally:
            for worker in workers:
                if not has_ended(worker):
                    os.kill(worker, signal.SIGKILL)
        with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", server.port), timeout=5):
            pass
        assert not is_alive(server.pid)
