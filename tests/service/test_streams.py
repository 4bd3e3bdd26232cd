"""What the service sends in pieces: ledgers in three formats, and live views that end when it stops."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import msgspec
import pyarrow.parquet
import pytest

from belated.api import types
from belated.ledger import open_ledger
from belated.ledger.export import COLUMNS, pieces
from support.http_helpers import (
    Body,
    at,
    create,
    decide,
    done,
    exchange,
    head,
    observe,
    problem,
    rows,
    serving,
    state,
    talk,
)
from support.serving import KINDS, Server
from support.waiting import until

AWKWARD = ('a "quoted", and\nbroken', 7, "line\u2028separator", "next\x85line", "=1+1")
MEDIA = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with talk(server) as connection:
        yield connection


def exported(http: httpx.Client, name: str, format: str, after: int = 0) -> bytes:
    response = http.get(at(name, "ledger"), params={"format": format, "after": after})
    assert response.status_code == 200
    assert response.headers["content-type"] == MEDIA[format]
    assert response.headers["content-disposition"] == f'attachment; filename="{name}.{format}"'
    return response.content


def neutral(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def from_csv(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def from_parquet(content: bytes) -> Any:
    return pyarrow.parquet.read_table(io.BytesIO(content))


def test_the_ledger_tells_all_that_happened(http: httpx.Client) -> None:
    create(http, "told", AWKWARD, missing={"deadline": 0.05, "loss": 1})
    made = decide(http, "told", *(f"n{k}" for k in range(40)))
    until(lambda: state(http, "told")["outcomes"]["defaults"] == 40)
    receipts = observe(http, "told", {"n0": 0.25, "n39": 0.5})
    done(http.post(at("told", "pause")))
    done(http.post(at("told", "archive")))
    found = [msgspec.convert(row, types.LedgerEvent) for row in rows(http, "told")]
    assert [event.number for event in found] == list(range(1, 85))
    assert [event.at for event in found] == sorted(event.at for event in found)
    for event, decision in zip(found, made, strict=False):
        told = (event.kind, event.decision, event.round, event.arm, event.propensity)
        assert told == ("decision", *(decision[word] for word in ("id", "round", "arm", "propensity")))
        assert (event.loss, event.receipt, event.waited) == (None, None, None)
    for event, decision in zip(found[40:80], made, strict=True):
        assert (event.kind, event.decision, event.arm, event.loss) == ("default", decision["id"], decision["arm"], 1.0)
        assert event.waited is not None
        assert 0.05 <= event.waited < 20
    assert [(event.decision, event.loss, event.receipt) for event in found[80:82]] == [
        ("n0", 0.25, receipts[0]["receipt"]),
        ("n39", 0.5, receipts[1]["receipt"]),
    ]
    assert [(event.kind, event.decision, event.round, event.arm) for event in found[82:]] == [
        ("pause", None, None, None),
        ("archive", None, None, None),
    ]


@pytest.mark.parametrize("after", [0, 1, 9, 21, 22, 10**9])
def test_the_formats_hold_the_same_rows(http: httpx.Client, after: int) -> None:
    if http.get(at("formats")).status_code == 404:
        create(http, "formats", AWKWARD, learner="balanced")
        decide(http, "formats", *(f"n{k}" for k in range(20)))
        observe(http, "formats", {"n3": 1 / 3, "n11": 0})
    assert {line["receipt"] for line in rows(http, "formats")} == {None, "used", "skipped"}
    lines = rows(http, "formats", after)
    assert [line["number"] for line in lines] == list(range(after + 1, 23))
    assert all(tuple(line) == COLUMNS for line in lines)

    first, *others = from_csv(exported(http, "formats", "csv", after))
    assert tuple(first) == COLUMNS
    assert others == [["" if value is None else neutral(str(value)) for value in line.values()] for line in lines]

    table = from_parquet(exported(http, "formats", "parquet", after))
    assert tuple(table.column_names) == COLUMNS
    assert {name: str(table.schema.field(name).type) for name in ("number", "round", "propensity", "loss", "arm")} == {
        **dict.fromkeys(("number", "round"), "int64"),
        **dict.fromkeys(("propensity", "loss"), "double"),
        "arm": "string",
    }
    assert table.to_pylist() == [line | {"arm": line["arm"] and str(line["arm"])} for line in lines]


@pytest.fixture(scope="module")
def long(http: httpx.Client) -> str:
    """An experiment with 22,000 events."""
    create(http, "long", 3, learner="uniform")
    for k in range(11):
        ids = [f"n{k * 1000 + n}" for n in range(1000)]
        decide(http, "long", *ids)
        observe(http, "long", dict.fromkeys(ids, 0.5))
    return "long"


def chunks(server: Server, path: str) -> list[bytes]:
    """The pieces of an answer, as the server cut them."""
    start, _, rest = exchange(server, head("GET", path)).partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in start.lower()
    assert b"content-length" not in start.lower()
    found: list[bytes] = []
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            assert rest == b"\r\n"
            return found
        found.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]


@pytest.mark.parametrize("format", MEDIA)
def test_a_long_ledger_comes_in_pieces(server: Server, http: httpx.Client, long: str, format: str) -> None:
    parts = chunks(server, at(long, f"ledger?format={format}"))
    whole = b"".join(parts)
    assert len(parts) >= 4
    assert max(map(len, parts)) < len(whole) / 2
    numbers: list[int]
    if format == "ndjson":
        numbers = [json.loads(line)["number"] for line in whole.splitlines()]
    elif format == "csv":
        numbers = [int(row[0]) for row in from_csv(whole)[1:]]
    else:
        numbers = from_parquet(whole)["number"].to_pylist()
    assert numbers == list(range(1, 22_001))


def test_a_long_ledger_is_what_the_store_holds(server: Server, http: httpx.Client, long: str) -> None:
    with closing(open_ledger(server.store)) as ledger:
        record = ledger.find(long)
        assert record is not None
        kept = b"".join(pieces(ledger, record, "ndjson"))
    assert exported(http, long, "ndjson") == kept
    assert exported(http, long, "ndjson", 21_500) == b"".join(kept.splitlines(keepends=True)[21_500:])
    shown = state(http, long)
    waits = sorted(json.loads(line)["waited"] for line in kept.splitlines() if b'"kind":"outcome"' in line)
    assert shown["events"] == 22_000
    for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
        exact = waits[int(share * len(waits)) - 1]
        assert shown["delays"]["seconds"][name] == pytest.approx(exact, rel=1 / 8)


def test_others_are_answered_while_somebody_reads_a_long_ledger(http: httpx.Client, server: Server, long: str) -> None:
    """A reader who stops reading stops nobody."""
    with talk(server) as slow, slow.stream("GET", at(long, "ledger")) as response:
        parts = response.iter_raw(1000)
        next(parts)
        for k in range(20):
            decide(http, long, f"meanwhile-{k}")
        rest = b"".join(parts)
    assert b"meanwhile" not in rest  # up to the last event there was


class View:
    """A live view: its states as they come."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self._stream = http.stream("GET", at(name, "stream"))
        self.response = self._stream.__enter__()
        self._lines = self.response.iter_lines()

    def next(self) -> Body | None:
        """The next state; None where the view has ended."""
        event: dict[str, str] = {}
        for line in self._lines:
            word, _, value = line.partition(": ")
            if word:
                event[word] = value
            elif event.get("event") == "state":
                shown: Body = json.loads(event["data"])
                assert int(event["id"]) == shown["events"]
                return shown
        return None

    def close(self) -> None:
        self._stream.__exit__(None, None, None)


def test_a_live_view_begins_at_once_and_hears_of_changes(http: httpx.Client) -> None:
    create(http, "live")
    with closing(View(http, "live")) as view:
        assert view.response.status_code == 200
        assert view.response.headers["content-type"] == "text/event-stream"
        assert view.response.headers["cache-control"] == "no-store"
        assert view.next() == done(http.get(at("live")))
        for change in ("decisions", "pause", "archive"):
            done(http.post(at("live", change)))
            assert view.next() == done(http.get(at("live")))


def test_live_views_are_limited_and_end_with_whoever_looked(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, streams=2) as server, talk(server) as http:
        create(http, "watched")
        first, second = View(http, "watched"), View(http, "watched")
        refused = http.get(at("watched", "stream"))
        assert "2" in problem(refused, 503, "busy")
        assert refused.headers["retry-after"] == "1"
        first.close()

        def let_in() -> bool:
            with http.stream("GET", at("watched", "stream")) as response:
                return response.status_code == 200

        until(let_in)
        second.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_live_views_end_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory, workers: int) -> None:
    """In an orderly way, so that the reader knows that nothing is missing; and the server does not wait for them."""
    with serving("sqlite", tmp_path_factory, workers) as server, talk(server) as http:
        create(http, "ending")
        with closing(View(http, "ending")) as view, closing(View(http, "ending")) as other:
            assert view.next() == other.next()
            server.terminate()
            assert view.next() is None
            assert other.next() is None
        assert "Traceback" not in server.log.read_text()
