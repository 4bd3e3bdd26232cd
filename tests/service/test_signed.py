"""Events say which key asked for them, and exports say so by its id."""

import csv
import io
from collections.abc import Iterator
from contextlib import closing

import httpx
import pyarrow.parquet
import pytest

from belated.ledger import open_ledger
from belated.ledger.keys import id_of, new_key
from belated.ledger.verify import verify
from support.http_helpers import MOSTLY_SQLITE, at, create, decide, done, observe, rows, serving, talk
from support.serving import ADMIN_KEY, Server
from support.waiting import until

ADMIN = id_of(ADMIN_KEY.encode())


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


def somebody(server: Server) -> tuple[httpx.Client, str]:
    secret, key = new_key("somebody", "decide")
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
    return talk(server, secret), key.id


def test_every_event_has_the_key_of_who_asked_and_deadlines_have_none(server: Server) -> None:
    one, first = somebody(server)
    two, second = somebody(server)
    with talk(server) as admin, one, two:
        create(admin, "signed", missing={"deadline": 3600, "loss": 1.0})
        decide(one, "signed", "a", "b", "c")
        done(two.post(at("signed", "decisions"), json={"id": "d"}))
        decide(two, "signed", "a")  # made before, by another
        observe(two, "signed", {"a": 0.5})
        done(admin.post(at("signed", "pause")))
        done(admin.post(at("signed", "resume")))
        server.pass_time(3600)
        until(lambda: len(rows(admin, "signed")) == 10)
        found = rows(admin, "signed")
        assert [each["kind"] for each in found[:7]] == ["decision"] * 4 + ["outcome", "pause", "resume"]
        assert [each["key"] for each in found[:7]] == [first, first, first, second, second, ADMIN, ADMIN]
        assert [(each["kind"], each["key"]) for each in found[7:]] == [("default", None)] * 3
        assert "key" in found[0]
        text = admin.get(at("signed", "ledger"), params={"format": "csv"}).text
        cells = list(csv.DictReader(io.StringIO(text)))
        assert [each["key"] for each in cells] == [each["key"] or "" for each in found]
        packed = admin.get(at("signed", "ledger"), params={"format": "parquet"}).content
        table = pyarrow.parquet.read_table(io.BytesIO(packed))
        assert "key" in table.column_names
        assert table["key"].to_pylist() == [each["key"] for each in found]
    with closing(open_ledger(server.store)) as ledger:
        record = ledger.find("signed")
        assert record is not None
        assert verify(ledger, record).faults == []
        numbers = {key.id: key.number for key in ledger.all_keys()}
        assert [each.key for each in ledger.events(record.number)[:4]] == [numbers[first]] * 3 + [numbers[second]]


def test_what_is_settled_at_a_deadline_was_asked_for_by_nobody(server: Server) -> None:
    with talk(server) as http:
        create(http, "held", missing={"deadline": 3600, "loss": 1.0, "learn": "deadline"})
        decide(http, "held", "a")
        assert observe(http, "held", {"a": 0.5})[0]["receipt"] == "held"
        server.pass_time(3600)
        until(lambda: len(rows(http, "held")) == 3)
        assert [(each["kind"], each["key"]) for each in rows(http, "held")] == [
            ("decision", ADMIN),
            ("outcome", ADMIN),
            ("settled", None),
        ]
