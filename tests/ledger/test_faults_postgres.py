"""Ways to PostgreSQL that are cut, at any message: acknowledged and kept, or refused and absent."""

import random
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest

from belated.api.types import Deadline, DecisionResponse
from belated.ledger import processor as processor_module
from belated.ledger.commands import Answer, Decide
from belated.ledger.events import SECOND, ExperimentSettings, Kind
from belated.ledger.postgres import PostgresLedger
from belated.ledger.processor import CommandProcessor
from belated.ledger.verify import verify
from support.cutting_proxy import Cut, How, Proxy
from support.faults import (
    MOST,
    SETTINGS,
    agree,
    all_of,
    attempt,
    found_in,
    kept,
    recorded,
)
from support.protocol_model import Controls
from support.sampling import SEED
from support.serving import Stores


@pytest.fixture
def straight() -> Iterator[PostgresLedger]:
    """A ledger with an experiment that has decided something, reached without a detour."""
    with closing(PostgresLedger(Stores.new_database())) as ledger:
        ledger.migrate()
        ledger.create(SETTINGS, 1, MOST)
        assert attempt(CommandProcessor(ledger), "first").answers
        yield ledger


@pytest.fixture
def proxy(straight: PostgresLedger) -> Iterator[Proxy]:
    with Proxy(straight.address) as proxy:
        yield proxy


CUTS: list[tuple[How, bool]] = [
    ("before", True),
    ("farewell", True),
    ("after", True),
    ("reply", True),
    ("late", True),
    ("before", False),
    ("reply", False),
]


def messages(proxy: Proxy, is_open: bool) -> int:
    """How many messages a batch takes."""
    with closing(PostgresLedger(proxy.url)) as ledger:
        processor = CommandProcessor(ledger)
        if is_open:
            assert attempt(processor, "counted before").answers
        with proxy.cutting(Cut("before")):
            assert attempt(processor, "counted").answers
            return proxy.messages


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("how", "is_open"), CUTS)
def test_wherever_the_way_is_cut_a_batch_is_kept_or_refused_and_absent(
    straight: PostgresLedger, proxy: Proxy, how: How, is_open: bool, whole: bool
) -> None:
    """Cut at each message of a batch, or at some of them and those of the commit."""
    there, absent, survived = ["first"], [], set()
    last = messages(proxy, is_open)
    drawn = sorted(random.Random(SEED).sample(range(1, last - 1), 3))
    for at in range(1, last + 1) if whole else [*drawn, last - 1, last]:
        with closing(PostgresLedger(proxy.url)) as ledger:
            processor = CommandProcessor(ledger)
            if is_open:
                assert attempt(processor, f"before-{at}").answers
            cut = Cut(how, at)
            with proxy.cutting(cut):
                tried = attempt(processor, label := f"batch-{at}")
            assert cut.done
            agree(tried, label, found_in(all_of(straight)))
            assert not tried.uncertain
            if tried.answers is None:  # ask again with the same ids, or go on with others
                absent.append(label)
                label = label if at % 2 else f"after-{at}"
                assert attempt(processor, label).answers
            else:
                survived.add(at)
            there.append(label)
    found = found_in(recorded(straight))
    assert [label for label in there if not kept(found, label)] == []
    assert [label for label in absent if kept(found, label) and label not in there] == []
    assert absent
    # the last two messages carry out COMMIT and ask for its answer
    assert (last - 1 in survived) == (how not in ("before", "farewell"))
    assert last in survived


def test_a_way_that_is_down_is_said_and_work_goes_on_when_it_is_up(straight: PostgresLedger, proxy: Proxy) -> None:
    with closing(PostgresLedger(proxy.url)) as ledger:
        processor = CommandProcessor(ledger)
        assert attempt(processor, "before").answers
        proxy.down()
        for k in range(3):
            tried = attempt(processor, f"down-{k}")
            assert tried.answers is None
            assert not tried.uncertain
        proxy.up()
        assert attempt(processor, "after").answers
    found = found_in(recorded(straight))
    assert kept(found, "before")
    assert kept(found, "after")
    assert not any(kept(found, f"down-{k}") for k in range(3))


def test_where_the_way_stays_down_during_a_commit_asking_again_tells_what_came_of_it(
    straight: PostgresLedger, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_module, "RESOLVE_SECONDS", 0.0)
    with closing(PostgresLedger(proxy.url)) as ledger:
        processor = CommandProcessor(ledger)
        with proxy.cutting(cut := Cut("committed", and_stay_down=True)):
            tried = attempt(processor, "lost")
        assert cut.done
        assert tried.uncertain
        events = recorded(straight)
        assert kept(found_in(events), "lost")
        proxy.up()
        again = attempt(processor, "lost")
        assert again.answers is not None
        rounds = [decision.round for decision in [*_decisions(again.answers[0]), *_decisions(again.answers[2])]]
        assert rounds == [event.round for event in events if event.kind == Kind.DECISION][-3:]
        assert recorded(straight) == events


def _decisions(answer: Answer) -> list[DecisionResponse]:
    assert isinstance(answer, list)
    return [each for each in answer if isinstance(each, DecisionResponse)]


def test_a_commit_whose_end_nobody_saw_is_found_when_the_way_is_up_again(
    straight: PostgresLedger, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way is up again after it was found to be down."""
    ups = iter([proxy.up])
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: next(ups)())
    with closing(PostgresLedger(proxy.url)) as ledger:
        monkeypatch.setattr(processor_module, "time", clock)
        with proxy.cutting(cut := Cut("committed", and_stay_down=True)):
            tried = attempt(CommandProcessor(ledger), "lost")
        assert cut.done
        assert list(ups) == []
        assert tried.answers is not None
        agree(tried, "lost", found_in(recorded(straight)))


def test_a_commit_of_deadlines_whose_end_nobody_saw_is_followed_by_what_was_asked(
    straight: PostgresLedger, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where many deadlines have passed, some of them come before the command that is carried out."""
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 3)
    name = "deadline"
    straight.create(ExperimentSettings(name, ["a", "b"], "balanced", {}, 3, Deadline(10.0, 1.0)), 1, MOST)
    controls = Controls(straight)
    CommandProcessor(straight).run([Decide(name, [f"old-{k}" for k in range(8)])])
    with closing(PostgresLedger(proxy.url)) as ledger:
        Controls(ledger).now = controls.now + 10 * SECOND
        with proxy.cutting(cut := Cut("committed")):
            (answer,) = CommandProcessor(ledger).run([Decide(name, ["new"])])
        assert cut.done
    assert [decision.id for decision in _decisions(answer)] == ["new"]
    record = straight.find(name)
    assert record is not None
    assert verify(straight, record).faults == []
    assert [event.kind for event in straight.events(record.number)] == [1] * 8 + [3] * 3 + [1]


def test_a_worker_that_vanishes_does_not_hold_an_experiment_for_ever(straight: PostgresLedger) -> None:
    """A machine that loses its power sends no farewell: the server must let go of its transaction by itself."""
    with straight.connection() as connection:
        ((seconds,),) = straight.run(
            connection,
            "SELECT extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)::float8",
        )
    assert 0 < seconds <= 60
