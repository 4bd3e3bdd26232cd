"""What the tests of failing storage share: batches that can be found again, and requests whose answers are kept."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import httpx

from belated.ledger import open_ledger
from belated.ledger.base import Ledger, LedgerUnavailable, Uncertain
from belated.ledger.commands import Answer, Command, Decide
from belated.ledger.events import Event, ExperimentSettings, Kind
from belated.ledger.processor import CommandProcessor
from belated.ledger.verify import verify
from support.ledger_helpers import observe
from support.serving import ADMIN_KEY
from support.waiting import until

NAME = "shaken"
SETTINGS = ExperimentSettings(NAME, ["a", "b", "c"], "balanced", {}, 7, "wait")
MOST = 10
HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}
PATH = f"/v1/experiments/{NAME}"

Trace = tuple[int, str]
"""Kind of an event, id of the decision."""


def batch(label: str) -> list[Command]:
    """Decisions, and outcomes of some of them."""
    return [
        Decide(NAME, [f"{label}-1", f"{label}-2"]),
        observe(NAME, [(f"{label}-1", 0.25)]),
        Decide(NAME, [f"{label}-3"]),
        observe(NAME, [(f"{label}-3", 1.0)]),
    ]


def traces(label: str) -> list[Trace]:
    """What a batch leaves in the ledger."""
    return [(1, f"{label}-1"), (1, f"{label}-2"), (2, f"{label}-1"), (1, f"{label}-3"), (2, f"{label}-3")]


def all_of(ledger: Ledger) -> list[Event]:
    """All that is on record."""
    record = ledger.find(NAME)
    assert record is not None
    events = [event for some in ledger.all_events(record.number) for event in some]
    assert len(events) == record.events
    return events


def recorded(ledger: Ledger) -> list[Event]:
    """All that is on record, which makes sense."""
    record = ledger.find(NAME)
    assert record is not None
    verdict = verify(ledger, record)
    assert verdict.faults == []
    events = all_of(ledger)
    assert verdict.events == len(events)
    return events


def found_in(events: Sequence[Event]) -> set[Trace]:
    traces = [(int(event.kind), event.id) for event in events]
    assert len(set(traces)) == len(traces)
    return set(traces)


def kept(found: set[Trace], label: str) -> bool:
    """Whether a batch is on record: it is there wholly or not at all."""
    there = [trace in found for trace in traces(label)]
    assert all(there) or not any(there), f"batch {label} is there in part: {there}"
    return all(there)


class Attempt(NamedTuple):
    """What came of a batch."""

    answers: list[Answer] | None
    """None where it was refused."""
    uncertain: bool = False
    message: str = ""


def attempt(processor: CommandProcessor, label: str) -> Attempt:
    try:
        return Attempt(processor.run(batch(label)))
    except LedgerUnavailable as error:
        return Attempt(None, isinstance(error, Uncertain), str(error))


def agree(tried: Attempt, label: str, *found: set[Trace]) -> None:
    """Either acknowledged and kept, or refused and absent; uncertain: one of both."""
    for each in found:
        there = kept(each, label)
        assert tried.uncertain or there == (tried.answers is not None), (
            f"batch {label} is {'there' if there else 'not there'}, but was answered: {tried}"
        )


class Answered(NamedTuple):
    """A request and its answer."""

    trace: Trace
    status: int
    """0 where the connection was lost."""
    code: str
    retry_after: str | None
    begun: float
    ended: float


class Load:
    """People who ask for decisions under ids of their own and report outcomes, until told to stop."""

    def __init__(self, url: str, people: int = 4) -> None:
        self.answers: list[Answered] = []
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(k,)) for k in range(people)]

    @contextmanager
    def going_on(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "somebody waits for an answer for ever"

    def _ask(self, who: int) -> None:
        with httpx.Client(base_url=self._url, headers=HEADERS, timeout=60) as http:
            for number in range(100_000):
                if self._stop.is_set():
                    return
                id = f"{who}-{number}"
                if self._post(http, (int(Kind.DECISION), id), "decisions", {"id": id}) == 200:
                    self._post(http, (int(Kind.OUTCOME), id), "outcomes", {"decision": id, "loss": 0.5})
                else:
                    time.sleep(0.02)

    def _post(self, http: httpx.Client, trace: Trace, what: str, body: dict[str, Any]) -> int:
        begun = time.monotonic()
        try:
            response = http.post(f"{PATH}/{what}", json=body)
        except httpx.TransportError:
            self.answers.append(Answered(trace, 0, "", None, begun, time.monotonic()))
            return 0
        status = response.status_code
        code = "" if status == 200 else str(response.json()["code"])
        retry_after = response.headers.get("retry-after")
        self.answers.append(Answered(trace, status, code, retry_after, begun, time.monotonic()))
        return status

    def wait_for(self, status: int, count: int = 10) -> None:
        """Until so many more requests are answered with this status."""
        begun = len(self.answers)
        until(lambda: sum(answer.status == status for answer in self.answers[begun:]) >= count)

    def agrees_with(self, store: str) -> None:
        """Every answer is what the ledger says."""
        with closing(open_ledger(store)) as ledger:
            found = found_in(recorded(ledger))
        lost = [answer for answer in self.answers if answer.status == 200 and answer.trace not in found]
        assert lost == []
        refused = [answer for answer in self.answers if answer.status == 503 and answer.code != "uncertain"]
        assert [answer for answer in refused if answer.trace in found] == []
        assert {answer.status for answer in self.answers} <= {0, 200, 503}
        assert {answer.code for answer in self.answers} <= {"", "ledger_unavailable", "uncertain", "busy"}
        assert all(answer.retry_after == "1" for answer in self.answers if answer.status == 503)


def readiness(url: str) -> tuple[int, str]:
    """What /readyz answers: the status, and the reason if there is one."""
    response = httpx.get(f"{url}/readyz", timeout=60)
    return response.status_code, response.json()["reason"] or ""


def wait_until_ready(url: str) -> None:
    """Until the service is ready, by asking nothing else."""

    def is_ready() -> bool:
        status, reason = readiness(url)
        assert status == 200, reason
        return True

    until(is_ready)
