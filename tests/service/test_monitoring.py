"""Ids of requests, and the log as JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from belated.service.log import given_id, id_maker
from support.http_helpers import at, create, exchange, serving, talk
from support.serving import Server


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
    assert logged.url in first["message"]
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
    assert line["milliseconds"] > 0
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
            said = [line for line in lines(server) if "exception" in line]
            assert [line["request_id"] for line in said] == ["unlucky-13", "unlucky-14"]
            assert all("Traceback" in line["exception"] for line in said)
        else:
            errors = [line for line in server.log.read_text().splitlines() if " ERROR belated.service: " in line]
            assert [re.findall(r"unlucky-\d+", line) for line in errors] == [["unlucky-13"], ["unlucky-14"]]


def test_without_the_option_there_is_no_access_log(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        http.get("/healthz")
        assert "healthz" not in server.log.read_text()
