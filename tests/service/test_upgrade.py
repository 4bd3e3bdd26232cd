"""A newer belated upgrades the ledger while this one serves: it stops, and answers what it has accepted."""

import os
import re
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import httpx
import pytest

from belated.ledger import open_ledger
from belated.ledger.base import NewerLedger
from belated.ledger.postgres import PostgresLedger
from belated.ledger.sql import SqlLedger
from belated.ledger.sqlite import SqliteLedger
from support.serving import ADMIN_KEY, Stores
from support.waiting import until

HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}


def upgrade(store: str) -> None:
    with closing(open_ledger(store)) as ledger:
        assert isinstance(ledger, SqlLedger)
        with ledger.committing() as connection:
            ledger.run(connection, "INSERT INTO migrations (number, name, applied) VALUES (999, 'of tomorrow', 0)")


def closed(store: str) -> SqlLedger:
    """The ledger, without looking whether it is of a newer version."""
    return SqliteLedger(store.removeprefix("sqlite:///")) if store.startswith("sqlite") else PostgresLedger(store)


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("sqlite", 1), *[pytest.param(*case, marks=pytest.mark.slow) for case in (("postgresql", 1), ("sqlite", 2))]],
)
def test_workers_stop_with_a_line_and_are_not_started_again(kind: str, workers: int, tmp_path: Path) -> None:
    store = Stores.fresh(kind, tmp_path)
    log = tmp_path / "log"
    command = [sys.executable, "-m", "belated.cli", "serve", "--store", store, "--port", "0"]
    environment = {**os.environ, "BELATED_ADMIN_KEY": ADMIN_KEY}
    answered: list[int] = []

    def keep_asking(url: str) -> None:
        """Every request that is accepted is answered: with 200, or with 503 while the worker stops."""
        with httpx.Client(base_url=url, headers=HEADERS, timeout=60) as http, suppress(httpx.TransportError):
            while True:
                answered.append(http.post("/v1/experiments/one/decisions", json={}).status_code)

    with log.open("wb") as said:
        process = subprocess.Popen([*command, "--workers", str(workers)], stderr=said, env=environment)
    try:
        found = until(lambda: process.poll() is not None or re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))
        assert isinstance(found, re.Match), log.read_text()
        body = {"name": "one", "arms": 2}
        assert httpx.post(f"{found[0]}/v1/experiments", json=body, headers=HEADERS, timeout=60).status_code == 201
        thread = Thread(target=keep_asking, args=(found[0],))
        thread.start()
        until(lambda: len(answered) >= 5)
        upgrade(store)
        assert process.wait(60) == 4, log.read_text()
        thread.join(60)
    finally:
        process.kill()
    assert set(answered) <= {200, 503}
    ledger = closed(store)
    record = ledger.find("one")
    ledger.close()
    assert record is not None
    assert record.rounds == answered.count(200)  # whatever was accepted was answered
    text = log.read_text()
    assert "999" in text
    assert "Traceback" not in text
    with pytest.raises(NewerLedger):
        open_ledger(store)
