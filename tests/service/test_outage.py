"""A ledger whose database goes away, hangs, or is lost in the middle of a commit; and comes back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import apsw
import psycopg
import pytest

import belated.ledger.processor
from belated.api.types import DecisionResponse
from belated.ledger import open_ledger, sqlite
from belated.ledger.base import LedgerUnavailable, Uncertain
from belated.ledger.commands import Answer, Decide
from belated.ledger.events import Event, Status
from belated.ledger.postgres import PostgresLedger
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.sqlite import SqliteLedger
from support.ledger_helpers import append, decision, experiment, look, observe
from support.postgres import Postgres
from support.serving import KINDS, Stores
from support.waiting import until

GONE: dict[str, Exception] = {"sqlite": apsw.IOError("gone"), "postgresql": psycopg.OperationalError("gone")}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One that may be killed."""
    with Postgres.start() as server:
        yield server


def sql_ledger(store: str) -> SqlLedger:
    ledger = open_ledger(store)
    assert isinstance(ledger, SqlLedger)
    return ledger


def fill_pool(ledger: SqlLedger, connections: int) -> None:
    """Leave so many idle connections behind."""
    with ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(ledger.connection())


def named(answer: Answer) -> list[tuple[str, int]]:
    assert isinstance(answer, list)
    return [(each.id, each.round) for each in answer if isinstance(each, DecisionResponse)]


def test_after_a_restart_the_first_turn_and_the_first_read_work(server: Postgres) -> None:
    with closing(sql_ledger(server.new_database())) as ledger:
        record = experiment(ledger)
        append(ledger, record.number, [decision(1, 1)])
        fill_pool(ledger, 3)
        server.restart()
        append(ledger, record.number, [decision(2, 2)])
        fill_pool(ledger, 3)
        server.kill()
        server.restart()
        assert ledger.events(record.number) == [decision(1, 1), decision(2, 2)]
        fill_pool(ledger, 3)
        server.restart()
        assert ledger.create(record.settings, 0, 9) == (record._replace(events=2, rounds=2), False)
        fill_pool(ledger, 3)
        server.restart()
        ledger.probe()


def test_while_the_database_is_away_everything_is_refused_and_then_works_again(server: Postgres) -> None:
    with closing(sql_ledger(server.new_database())) as ledger:
        record = experiment(ledger)
        append(ledger, record.number, [decision(1, 1)])
        server.kill()
        uses: list[Callable[[], object]] = [
            lambda: append(ledger, record.number, [decision(2, 2)]),
            lambda: ledger.events(record.number),
            lambda: ledger.create(record.settings, 0, 9),
            ledger.probe,
            ledger.all_keys,
            ledger.migrate,
        ]
        for use in uses:
            with pytest.raises(LedgerUnavailable):
                use()
        server.restart()
        assert ledger.events(record.number) == [decision(1, 1)]
        append(ledger, record.number, [decision(2, 2)])
        for use in uses[1:]:
            use()
        assert ledger.events(record.number) == [decision(1, 1), decision(2, 2)]


def test_a_turn_whose_database_is_killed_has_not_happened(server: Postgres) -> None:
    with closing(sql_ledger(server.new_database())) as ledger:
        record = experiment(ledger)
        append(ledger, record.number, [decision(1, 1)])

        def turn_of(kill_before_append: bool) -> None:
            with ledger.transaction() as transaction:
                transaction.lock(record.number, 1, [])
                if kill_before_append:
                    server.kill()
                transaction.append(record.number, [decision(2, 2)], Status.PAUSED, 2)
                server.kill()

        for early in (True, False):
            with pytest.raises(LedgerUnavailable):
                turn_of(early)
            server.restart()
            assert ledger.events(record.number) == [decision(1, 1)]
            assert ledger.find("one") == record._replace(events=1, rounds=1)


def test_a_book_asks_the_database_that_came_back_what_became_of_a_commit(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is killed after the events were sent and before they were committed, and started again."""
    monkeypatch.setattr(belated.ledger.processor, "RESOLVE_SECONDS", 30.0)
    with closing(sql_ledger(server.new_database())) as ledger:
        experiment(ledger)
        processor = CommandProcessor(ledger)
        (first,) = processor.run([Decide("one", ["a"])])
        run = ledger.run
        back = Thread(target=server.restart)

        def killed(connection: Any, statement: str, given: Sequence[Any] = ()) -> list[Any]:
            if statement == "COMMIT" and not back.ident:
                server.kill()
                back.start()
            return run(connection, statement, given)

        ledger.run = killed  # type: ignore[method-assign]
        with pytest.raises(LedgerUnavailable) as caught:
            processor.run([Decide("one", ["b"]), observe("one", [("a", 0.5)])])
        assert not isinstance(caught.value, Uncertain)
        back.join()
        assert processor.run([Decide("one", ["a"])]) == [first]
        (second,) = processor.run([Decide("one", ["b"])])
        assert named(second) == [("b", 2)]
        assert [event.id for event in ledger.events(1)] == ["a", "b"]


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_whose_end_nobody_saw_is_uncertain_and_a_book_finds_out(
    kind: str, happened: bool, tmp_path: Path
) -> None:
    with closing(sql_ledger(Stores.fresh(kind, tmp_path))) as ledger:
        record = experiment(ledger)
        run = ledger.run
        losses = [2]

        def lost(connection: Any, statement: str, given: Sequence[Any] = ()) -> list[Any]:
            if statement == "COMMIT" and losses[0]:
                losses[0] -= 1
                if happened:
                    run(connection, statement, given)
                raise GONE[kind]
            return run(connection, statement, given)

        ledger.run = lost  # type: ignore[method-assign]
        with pytest.raises(Uncertain):
            append(ledger, record.number, [decision(1, 1, "a", propensity=1 / 3)])
        assert len(ledger.events(record.number)) == happened
        processor = CommandProcessor(ledger)
        command = Decide("one", ["b"])
        if happened:
            (answer,) = processor.run([command])
            assert named(answer) == [("b", 2)]
        else:
            with pytest.raises(LedgerUnavailable) as caught:
                processor.run([command])
            assert not isinstance(caught.value, Uncertain)
            (answer,) = processor.run([command])
            assert named(answer) == [("b", 1)]
        assert processor.run([command]) == CommandProcessor(ledger).run([command]) == [answer]
        assert len(ledger.events(record.number)) == 1 + happened


def test_a_connection_that_was_ended_by_the_server_is_replaced_unseen(tmp_path: Path) -> None:
    store = Stores.fresh("postgresql", tmp_path)
    with closing(sql_ledger(store)) as ledger, psycopg.connect(store, autocommit=True) as other:
        record = experiment(ledger)
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'belated'"
        uses: list[Callable[[], object]] = [
            lambda: append(ledger, record.number, [decision(1, 1)]),
            lambda: ledger.find("one"),
            ledger.probe,
            ledger.migrate,
        ]
        for use in uses:
            fill_pool(ledger, 2)
            ended = other.execute(end + " AND datname = current_database()").fetchall()
            assert len(ended) >= 2
            use()
        assert ledger.events(record.number) == [decision(1, 1)]


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_whatever_isolation_the_database_is_set_to_a_turn_sees_all_before_it(level: str, tmp_path: Path) -> None:
    store = Stores.fresh("postgresql", tmp_path)
    with psycopg.connect(store, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{level}'".encode())
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with closing(open_ledger(store)) as ledger, psycopg.connect(store, autocommit=True) as other:
        record = experiment(ledger)
        seen: list[Event | str] = []
        begun = Flag()

        def second() -> None:
            try:
                with ledger.transaction() as transaction:
                    begun.set()
                    seen.extend(transaction.lock(record.number, 0, []).tail)
            except LedgerUnavailable as error:
                seen.append(str(error))

        with ledger.transaction() as transaction:
            transaction.lock(record.number, 0, [])
            thread = Thread(target=second, daemon=True)
            thread.start()
            assert begun.wait(60)
            until(lambda: other.execute(waiting).fetchall() == [(1,)])
            transaction.append(record.number, [decision(1, 1)], Status.ACTIVE, 1)
        thread.join(60)
        assert seen == [decision(1, 1)]


def test_a_file_that_another_process_holds_is_waited_for_once_and_works_when_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gave_up = []

    class Patience(sqlite._Patience):
        def __call__(self, tries: int) -> bool:
            goes_on = super().__call__(tries)
            gave_up.extend([True] * (not goes_on))
            return goes_on

    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(sqlite, "_Patience", Patience)
    with closing(sql_ledger(Stores.fresh("sqlite", tmp_path))) as ledger:
        record = experiment(ledger)
        fill_pool(ledger, 5)
        other = apsw.Connection(str(tmp_path / "ledger.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable):
            append(ledger, record.number, [decision(1, 1)])
        assert gave_up == [True]  # and not once for each idle connection
        assert ledger.events(record.number) == []  # who only reads does not wait
        other.execute("COMMIT")
        other.close()
        append(ledger, record.number, [decision(1, 1)])
        assert ledger.events(record.number) == [decision(1, 1)]


def test_a_file_in_a_folder_that_is_not_there_is_unavailable_until_it_is(tmp_path: Path) -> None:
    with closing(SqliteLedger(str(tmp_path / "later" / "ledger.db"))) as ledger:
        with pytest.raises(LedgerUnavailable):
            ledger.migrate()
        (tmp_path / "later").mkdir()
        assert ledger.migrate() != []
        assert look(ledger, experiment(ledger).number).tail == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_that_was_closed_is_unavailable(kind: str, tmp_path: Path) -> None:
    ledger = open_ledger(Stores.fresh(kind, tmp_path))
    record = experiment(ledger)
    with ledger.transaction() as transaction:
        ledger.close()  # what is under way ends in order
        transaction.lock(record.number, 0, [])
        transaction.append(record.number, [decision(1, 1)], Status.ACTIVE, 1)
    uses: list[Callable[[], object]] = [ledger.probe, ledger.experiments, lambda: look(ledger, record.number)]
    for use in uses:
        with pytest.raises(LedgerUnavailable):
            use()


def test_nobody_hears_the_password() -> None:
    ledger = PostgresLedger("postgresql://somebody:very-secret@127.0.0.1:1/base?connect_timeout=2")
    assert ledger.store == "postgresql://127.0.0.1/base"
    with pytest.raises(LedgerUnavailable) as refused:
        ledger.probe()
    assert "very-secret" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)
