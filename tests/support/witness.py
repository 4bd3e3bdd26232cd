"""What clients were told, to be compared with what the ledger holds in the end."""

from contextlib import closing
from typing import Any

from belated.api.types import Experiment
from belated.ledger import open_ledger
from belated.ledger.events import Event, Fate, Kind
from belated.ledger.state import ExperimentState
from belated.ledger.verify import verify

RECEIPTS = {Fate.USED: "used", Fate.SKIPPED: "skipped", Fate.LATE: "skipped", Fate.HELD: "held"}


class Witness:
    """Hears every answer about one experiment. Answers that contradict each other are an error at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.decisions: dict[str, tuple[int, Any, float]] = {}
        """Id -> round, arm, propensity."""
        self.outcomes: dict[str, tuple[float, str]] = {}
        """Id of a decision -> the loss that was taken, and whether it was used, skipped or held."""
        self.firsts: set[str] = set()
        """Ids that somebody was told to be the first to report."""
        self.refused: dict[str, set[float]] = {}
        """Id -> losses that were refused because another one was there."""
        self.states: dict[int, str] = {}
        """After which event -> the digest that a worker showed."""

    def decided(self, answer: dict[str, Any]) -> None:
        told = answer["round"], answer["arm"], answer["propensity"]
        assert self.decisions.setdefault(answer["id"], told) == told

    def reported(self, loss: float, answer: dict[str, Any]) -> None:
        """A receipt; of a request that was answered 409, one with `conflict`."""
        id, receipt = answer["decision"], answer["receipt"]
        if receipt == "conflict":
            self.refused.setdefault(id, set()).add(loss)
            return
        if receipt != "repeated":
            assert receipt in ("used", "skipped", "held"), answer
            assert id not in self.firsts, f"two were told to be the first to report {id}"
            self.firsts.add(id)
        taken = loss, answer["first"] if receipt == "repeated" else receipt
        assert self.outcomes.setdefault(id, taken) == taken

    def saw(self, state: dict[str, Any]) -> None:
        """The state of a worker, with its digest."""
        assert self.states.setdefault(state["events"], state["digest"]) == state["digest"]

    def check(self, store: str, live: Experiment) -> list[Event]:
        """The ledger has all of it, in one sequence, and a replay ends in the live state; the events."""
        assert isinstance(live.digest, str)
        with closing(open_ledger(store)) as ledger:
            record = ledger.find(self.name)
            assert record is not None
            events = [event for chunk in ledger.all_events(record.number) for event in chunk]
            verdict = verify(ledger, record, (live.events, live.digest))
        assert verdict.faults == []
        assert verdict.compared >= 1
        assert (verdict.events, verdict.rounds, verdict.digest) == (live.events, live.rounds, live.digest)
        assert [event.number for event in events] == list(range(1, live.events + 1))
        decisions = [event for event in events if event.kind == Kind.DECISION]
        assert [event.round for event in decisions] == list(range(1, live.rounds + 1))
        arms = record.settings.arms
        recorded = {event.id: (event.round, arms[event.arm], event.propensity) for event in decisions}
        assert len(recorded) == len(decisions)
        assert self.decisions.items() <= recorded.items()
        outcomes = [event for event in events if event.kind == Kind.OUTCOME]
        taken = {event.id: (event.loss, RECEIPTS[Fate(event.fate)]) for event in outcomes}
        assert len(taken) == len(outcomes)
        assert self.outcomes.items() <= taken.items()
        assert all(taken[id][0] not in losses for id, losses in self.refused.items())
        assert all(event.round == recorded[event.id][0] for event in outcomes)
        if self.states:
            state = ExperimentState(record.settings)
            replayed = {}
            for event in events:
                state.apply(event)
                if event.number in self.states:
                    replayed[event.number] = state.digest()
            assert replayed == {number: digest for number, digest in self.states.items() if number}
        return events
