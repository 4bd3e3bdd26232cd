"""A PostgreSQL that says nothing: it is frozen, or the way to it swallows what is sent. Nobody waits for ever."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

import belated.ledger.processor
from belated.ledger import postgres as module
from belated.ledger.base import LedgerUnavailable, Uncertain
from belated.ledger.commands import Decide
from belated.ledger.postgres import PostgresLedger
from belated.ledger.processor import CommandProcessor
from support.cutting_proxy import Proxy
from support.faults import MOST, NAME, SETTINGS, attempt, found_in, kept, recorded
from support.postgres import Postgres
from support.serving import Stores

BOUND = 0.6


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One that may be frozen."""
    with Postgres.start() as server:
        yield server


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", BOUND)
    monkeypatch.setattr(module, "ANSWER_SECONDS", BOUND)
    monkeypatch.setattr(module, "CONNECT_SECONDS", 2)  # the least that libpq takes
    monkeypatch.setattr(belated.ledger.processor, "RESOLVE_SECONDS", 0.5)


def opened(store: str) -> PostgresLedger:
    ledger = PostgresLedger(store)
    ledger.migrate()
    ledger.create(SETTINGS, 1, MOST)
    return ledger


def fill_pool(ledger: PostgresLedger, connections: int) -> None:
    """Leave so many idle connections behind."""
    with ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(ledger.connection())


def test_a_frozen_server_is_given_up_on_and_used_again_when_it_moves(server: Postgres) -> None:
    with closing(opened(server.new_database())) as ledger:
        processor = CommandProcessor(ledger)
        assert attempt(processor, "before").answers
        fill_pool(ledger, 6)
        with server.frozen():
            begun = time.monotonic()
            tried = attempt(processor, "frozen")
            assert tried.answers is None
            assert not tried.uncertain
            with pytest.raises(LedgerUnavailable):
                ledger.find(NAME)
            with pytest.raises(LedgerUnavailable):
                ledger.probe()
            assert time.monotonic() - begun < 10  # not once for each idle connection
        assert attempt(processor, "after").answers
        found = found_in(recorded(ledger))
        assert [kept(found, label) for label in ("before", "frozen", "after")] == [True, False, True]


@pytest.mark.parametrize("at", ["SELECT", "COPY", "COMMIT"])
def test_a_server_that_freezes_in_the_middle_is_given_up_on(
    server: Postgres, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the lock, before the events, and before the end: what has become of a commit is uncertain, then told."""
    with closing(opened(server.new_database())) as ledger, ExitStack() as freezing:
        processor = CommandProcessor(ledger)
        assert attempt(processor, "before").answers
        frozen: list[str] = []

        def freeze(word: str) -> None:
            if word == at and not frozen:
                frozen.append(word)
                freezing.enter_context(server.frozen())

        run, lock, append = ledger.run, module.PostgresTransaction.lock_many, module.PostgresTransaction.append_many

        def running(connection: Any, statement: str, given: Sequence[Any] = ()) -> list[Any]:
            freeze(statement)
            return run(connection, statement, given)

        def locking(self: Any, *given: Any) -> Any:
            freeze("SELECT")
            return lock(self, *given)

        def appending(self: Any, *given: Any) -> None:
            freeze("COPY")
            append(self, *given)

        monkeypatch.setattr(ledger, "run", running)
        monkeypatch.setattr(module.PostgresTransaction, "lock_many", locking)
        monkeypatch.setattr(module.PostgresTransaction, "append_many", appending)
        begun = time.monotonic()
        with pytest.raises(LedgerUnavailable) as refused:
            processor.run([Decide(NAME, ["asked"])])
        assert frozen == [at]
        assert time.monotonic() - begun < 10
        assert isinstance(refused.value, Uncertain) == (at == "COMMIT")
        assert "no answer for 0.6 s" in str(refused.value) or at == "COMMIT"
        freezing.close()
        (answer,) = processor.run([Decide(NAME, ["asked"])])
        assert isinstance(answer, list)
        assert [each.id for each in recorded(ledger) if each.kind == 1].count("asked") == 1


def test_a_commit_that_is_not_heard_of_is_found_where_the_server_moves_again(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(belated.ledger.processor, "RESOLVE_SECONDS", 20.0)
    with closing(opened(server.new_database())) as ledger:
        processor = CommandProcessor(ledger)
        run = ledger.run
        thread: list[threading.Thread] = []

        def freeze_for_a_while() -> None:
            with server.frozen():
                ready.set()
                time.sleep(2 * BOUND)

        ready = threading.Event()

        def running(connection: Any, statement: str, given: Sequence[Any] = ()) -> list[Any]:
            if statement == "COMMIT" and not thread:
                thread.append(threading.Thread(target=freeze_for_a_while))
                thread[0].start()
                assert ready.wait(10)
            return run(connection, statement, given)

        monkeypatch.setattr(ledger, "run", running)
        (answer,) = processor.run([Decide(NAME, ["asked"])])
        thread[0].join(10)
        assert isinstance(answer, list)
        assert [event.id for event in recorded(ledger)] == ["asked"]


def test_connections_that_died_unseen_are_replaced_and_nothing_is_refused() -> None:
    with closing(opened(Stores.new_database())) as straight, Proxy(straight.address) as proxy:
        for reads in (False, True):
            with closing(PostgresLedger(proxy.url)) as ledger:
                processor = CommandProcessor(ledger)
                assert attempt(processor, f"before-{reads}").answers
                fill_pool(ledger, 5)
                proxy.swallow(new_ones=False)
                begun = time.monotonic()
                if reads:
                    assert ledger.find(NAME) is not None
                else:
                    assert attempt(processor, "after").answers
                assert BOUND <= time.monotonic() - begun < 2.5 * BOUND + 1  # one of them was asked, not all


def test_a_way_that_swallows_everything_is_given_up_on() -> None:
    with closing(opened(Stores.new_database())) as straight, Proxy(straight.address) as proxy:
        with closing(PostgresLedger(proxy.url)) as ledger:
            processor = CommandProcessor(ledger)
            assert attempt(processor, "before").answers
            proxy.swallow(new_ones=True)
            begun = time.monotonic()
            tried = attempt(processor, "swallowed")
            assert tried.answers is None
            assert not tried.uncertain
            assert time.monotonic() - begun < 10
            proxy.swallows = False
            assert attempt(processor, "after").answers
        found = found_in(recorded(straight))
        assert [kept(found, label) for label in ("before", "swallowed", "after")] == [True, False, True]


def test_what_the_server_is_told_of_patience() -> None:
    with closing(PostgresLedger(Stores.new_database())) as ledger, ledger.connection() as connection:
        told = {
            name: ledger.run(connection, f"SHOW {name}")[0][0]
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        }
        assert told == {
            "statement_timeout": "12s",
            "lock_timeout": "10s",
            "idle_in_transaction_session_timeout": "30s",
        }
        given = connection.info.get_parameters()
        assert given["tcp_user_timeout"] == "10000"
        assert (given["keepalives_idle"], given["keepalives_interval"], given["keepalives_count"]) == ("10", "3", "3")


def test_migrations_may_take_their_time(server: Postgres) -> None:
    """Longer than any other statement; the connection is as impatient as the others afterwards."""
    with closing(PostgresLedger(server.new_database())) as ledger:
        with ledger.committing() as connection:
            ledger.take_time(connection)
            ledger.run(connection, f"SELECT pg_sleep({2 * BOUND})")
            assert ledger.run(connection, "SHOW statement_timeout") == [("1h",)]
        with ledger.committing() as again:
            assert again is connection
            assert ledger.run(again, "SHOW statement_timeout") == [("12s",)]
        with pytest.raises(LedgerUnavailable, match="no answer"), ledger.committing() as again:
            ledger.run(again, f"SELECT pg_sleep({3 * BOUND})")
