"""A PostgreSQL that says nothing: it is frozen, or the way to it swallows what is sent. Nobody waits for ever."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from belated.ledger import postgres as module
from belated.ledger import processor as processor_module
from belated.ledger.base import LedgerUnavailable, Uncertain
from belated.ledger.commands import Decide
from belated.ledger.postgres import BoundedConnection, PostgresLedger
from belated.ledger.processor import CommandProcessor
from support.cutting_proxy import Proxy
from support.faults import MOST, NAME, SETTINGS, attempt, found_in, kept, recorded
from support.serving import Stores

FOR_EVER = 1_000_000


class Patience:
    """The clock by which answers are waited for: it stands still, or jumps ahead each time somebody looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jumps = 0
        """How often it will jump."""
        self.given_up = 0
        """How many connections were hung up."""
        self.then: Callable[[], object] = lambda: None
        """What happens after that."""
        self._now = 0.0
        self._patch = monkeypatch
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self._look))
        monkeypatch.setattr(module, "CONNECT_SECONDS", 60)
        monkeypatch.setattr(processor_module, "RESOLVE_SECONDS", 0.0)
        hang_up = BoundedConnection.hang_up

        def noted(connection: BoundedConnection) -> None:
            hang_up(connection)
            self.given_up += 1
            self.then()

        monkeypatch.setattr(BoundedConnection, "hang_up", noted)

    def _look(self) -> float:
        before = self._now
        if self.jumps:
            self.jumps -= 1
            self._now += module.ANSWER_SECONDS + 1
        return before

    @contextmanager
    def gone(self, jumps: int = FOR_EVER) -> Iterator[None]:
        """Nobody waits for long any more."""
        with self._patch.context() as patch:
            patch.setattr(module, "CONNECT_SECONDS", 2)  # the least that libpq takes
            self.jumps = jumps
            yield
        self.jumps = 0


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Patience:
    return Patience(monkeypatch)


@pytest.fixture
def straight(patience: Patience) -> Iterator[PostgresLedger]:
    """A ledger with an experiment."""
    with closing(PostgresLedger(Stores.new_database())) as ledger:
        ledger.migrate()
        ledger.create(SETTINGS, 1, MOST)
        yield ledger


@pytest.fixture
def proxy(straight: PostgresLedger) -> Iterator[Proxy]:
    with Proxy(straight.address) as proxy:
        yield proxy


@pytest.fixture
def ledger(proxy: Proxy) -> Iterator[PostgresLedger]:
    """The same, by a way that can be frozen, with a few idle connections."""
    with closing(PostgresLedger(proxy.url)) as ledger:
        with ExitStack() as stack:
            for _ in range(5):
                stack.enter_context(ledger.connection())
        yield ledger


@pytest.mark.parametrize("swallows", [False, True])
def test_a_silent_server_is_given_up_on_and_used_again_when_it_answers(
    straight: PostgresLedger, ledger: PostgresLedger, proxy: Proxy, patience: Patience, swallows: bool
) -> None:
    processor = CommandProcessor(ledger)
    assert attempt(processor, "before").answers
    with proxy.silent() if swallows else proxy.frozen(), patience.gone():
        tried = attempt(processor, "silent")
        assert tried.answers is None
        assert not tried.uncertain
        with pytest.raises(LedgerUnavailable):
            ledger.probe()
        assert patience.given_up == 1  # not once for each idle connection
    assert attempt(processor, "after").answers
    found = found_in(recorded(straight))
    assert [kept(found, label) for label in ("before", "silent", "after")] == [True, False, True]


def freeze_at(
    at: str, ledger: PostgresLedger, freeze: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Freeze once, right before a word is sent; return the words at which it was done."""
    frozen: list[str] = []

    def met(word: str) -> None:
        if word == at and not frozen:
            frozen.append(word)
            freeze()

    run, lock, append = ledger.run, module.PostgresTransaction.lock_many, module.PostgresTransaction.append_many

    def running(connection: Any, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        met(statement)
        return run(connection, statement, given)

    def locking(self: Any, *given: Any) -> Any:
        met("SELECT")
        return lock(self, *given)

    def appending(self: Any, *given: Any) -> None:
        met("COPY")
        append(self, *given)

    monkeypatch.setattr(ledger, "run", running)
    monkeypatch.setattr(module.PostgresTransaction, "lock_many", locking)
    monkeypatch.setattr(module.PostgresTransaction, "append_many", appending)
    return frozen


@pytest.mark.parametrize("at", ["SELECT", "COPY", "COMMIT"])
def test_a_server_that_freezes_in_the_middle_is_given_up_on(
    straight: PostgresLedger,
    ledger: PostgresLedger,
    proxy: Proxy,
    patience: Patience,
    at: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the lock, before the events, and before the end: what has become of a commit is uncertain, then told."""
    processor = CommandProcessor(ledger)
    assert attempt(processor, "before").answers
    with ExitStack() as freezing:

        def freeze() -> None:
            freezing.enter_context(proxy.frozen())
            freezing.enter_context(patience.gone())

        frozen = freeze_at(at, ledger, freeze, monkeypatch)
        with pytest.raises(LedgerUnavailable) as refused:
            processor.run([Decide(NAME, ["asked"])])
        assert frozen == [at]
        assert isinstance(refused.value, Uncertain) == (at == "COMMIT")
        assert patience.given_up == 1
    (answer,) = processor.run([Decide(NAME, ["asked"])])
    assert isinstance(answer, list)
    assert [each.id for each in recorded(straight) if each.kind == 1].count("asked") == 1


def test_a_commit_that_is_not_heard_of_is_found_where_the_server_moves_again(
    straight: PostgresLedger,
    ledger: PostgresLedger,
    proxy: Proxy,
    patience: Patience,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor_module, "RESOLVE_SECONDS", 60.0)
    processor = CommandProcessor(ledger)
    assert attempt(processor, "before").answers
    freezing = ExitStack()

    def freeze() -> None:
        freezing.enter_context(proxy.frozen())
        freezing.enter_context(patience.gone())

    patience.then = freezing.close
    assert freeze_at("COMMIT", ledger, freeze, monkeypatch) == []
    (answer,) = processor.run([Decide(NAME, ["asked"])])
    assert patience.given_up == 1
    assert isinstance(answer, list)
    assert recorded(straight)[-1].id == "asked"


@pytest.mark.parametrize("reads", [False, True])
def test_connections_that_died_unseen_are_replaced_and_nothing_is_refused(
    ledger: PostgresLedger, proxy: Proxy, patience: Patience, reads: bool
) -> None:
    """One of them is asked, not all."""
    proxy.swallow(new_ones=False)
    patience.jumps = 2
    if reads:
        assert ledger.find(NAME) is not None
    else:
        assert attempt(CommandProcessor(ledger), "after").answers
    assert patience.given_up == 1


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


def test_migrations_may_take_their_time(straight: PostgresLedger, patience: Patience) -> None:
    """Longer than any other statement; the connection is as impatient as the others afterwards."""
    with straight.committing() as connection:
        straight.take_time(connection)
        patience.jumps = 1
        straight.run(connection, "SELECT pg_sleep(0.3)")
        assert patience.jumps == 0
        assert straight.run(connection, "SHOW statement_timeout") == [("1h",)]
    with straight.committing() as again:
        assert again is connection
        assert straight.run(again, "SHOW statement_timeout") == [("12s",)]

    def sleep() -> None:
        with straight.committing() as again:
            patience.jumps = 1
            straight.run(again, "SELECT pg_sleep(60)")

    with pytest.raises(LedgerUnavailable):
        sleep()
    assert patience.given_up == 1
