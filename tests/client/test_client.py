"""Both clients, every method, against a real server."""

import inspect
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest

from belated.api.types import (
    ArmState,
    Deadline,
    DecisionResponse,
    DelayQuantiles,
    Experiment,
    LedgerEvent,
    OutcomeCounts,
    OutcomeReceipt,
    Quantiles,
    Summary,
)
from belated.client import AsyncClient, Client, ServiceError, ServiceUnavailable
from belated.errors import BelatedError
from support.clients import BOTH, client
from support.http_helpers import serving
from support.refusals import refused
from support.serving import ADMIN_KEY, KINDS, Server


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


@pytest.fixture(params=BOTH)
def service(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    with client(request.param, server.url, ADMIN_KEY) as made:
        made.kind = request.param
        yield made


def named(service: Any, name: str) -> str:
    """A name that is this client's own."""
    return f"{name}-{service.kind}"


def test_an_experiment_with_a_floor(service: Any) -> None:
    name = named(service, "floored")
    assert service.create(name, 4, learner="ucb", seed=5, share_floor=0.1).share_floor == 0.1
    assert service.experiment(name).share_floor == 0.1
    assert {each.propensity for each in service.decide_many(name, 50)} == {0.1, 0.1 + (1 - 4 * 0.1)}
    assert service.create(named(service, "no-floor"), 4).share_floor == 0.0
    with pytest.raises(ServiceError) as caught:
        service.create(named(service, "unmade"), 4, share_floor=0.3)
    assert caught.value.field == "share_floor"


def test_an_experiment_from_its_creation_to_its_archive(service: Any) -> None:
    name = named(service, "life")
    made = service.create(
        name, ["x", 7], learner="robust", parameters={"delay_constant": 2}, seed=5, missing=Deadline(3600.0, 1.0)
    )
    assert isinstance(made, Experiment)
    assert (made.name, made.learner, made.parameters, made.seed) == (name, "robust", {"delay_constant": 2.0}, 5)
    assert made.missing == Deadline(3600.0, 1.0)
    assert [arm.arm for arm in made.arms] == ["x", 7]
    assert all(isinstance(arm, ArmState) for arm in made.arms)
    assert made.outcomes == OutcomeCounts(0, 0, 0)
    assert made.delays == DelayQuantiles(Quantiles(None, None, None), Quantiles(None, None, None))
    assert service.experiment(name) == made
    with_digest = service.experiment(name, digest=True)
    assert isinstance(with_digest.digest, str)
    assert msgspec.structs.replace(with_digest, digest=msgspec.UNSET) == made
    assert [service.pause(name).status, service.resume(name).status, service.archive(name).status] == [
        *("paused", "active", "archived")
    ]
    (summary,) = [each for each in service.experiments() if each.name == name]
    assert summary == Summary(name, "archived", made.created, "robust", 2, 0, 3)
    assert name in [each.name for each in service.experiments("archived")]
    assert name not in [each.name for each in service.experiments("active")]


def test_an_experiment_needs_a_name_and_arms_only(service: Any) -> None:
    name = named(service, "simple")
    made = service.create(name, 3)
    assert [arm.arm for arm in made.arms] == [0, 1, 2]
    assert (made.learner, made.missing) == ("guarded", "wait")
    assert service.create(name, 3) == made
    with pytest.raises(ServiceError) as caught:
        service.create(name, 4)
    assert (caught.value.status, caught.value.code, caught.value.field) == (409, "exists", "name")


def test_decisions_and_their_outcomes(service: Any) -> None:
    name = named(service, "decided")
    service.create(name, ["x", "y"], seed=1)
    first = service.decide(name)
    assert isinstance(first, DecisionResponse)
    assert (first.round, first.propensity) == (1, 0.5)
    assert UUID(first.id).version == 7
    second = service.decide(name, "visit-2")
    assert (second.id, second.round) == ("visit-2", 2)
    assert service.decide(name, "visit-2") == second
    assert service.observe(name, first, reward=1.0) == OutcomeReceipt(first.id, "used")
    assert service.observe(name, "visit-2", loss=0.5) == OutcomeReceipt("visit-2", "used")
    assert service.observe(name, second, reward=0.5) == OutcomeReceipt("visit-2", "repeated", "used")
    state = service.experiment(name)
    assert (state.rounds, state.outstanding, state.events) == (2, 0, 4)
    assert state.outcomes == OutcomeCounts(2, 0, 0)
    for decision, loss, status, code, field in (
        ("visit-2", 0.75, 409, "conflict", "loss"),
        ("nobody", 0.75, 404, "unknown_decision", "decision"),
        ("visit-2", 1.5, 422, "invalid", "loss"),
    ):
        with pytest.raises(ServiceError) as caught:
            service.observe(name, decision, loss=loss)
        assert (caught.value.status, caught.value.code, caught.value.field) == (status, code, field)
    assert service.experiment(name) == state


def test_numbers_of_numpy_are_numbers_and_what_is_none_is_no_loss(service: Any) -> None:
    name = named(service, "numbers")
    service.create(name, 2, learner="uniform", seed=1)
    made = service.decide_many(name, 4)
    assert service.observe(name, made[0], loss=np.float64(0.5)).receipt == "used"
    (receipt,) = service.observe_many(name, rewards={made[1].id: np.float64(1.0)})
    assert receipt.receipt == "used"
    assert service.observe(name, made[2], loss=1).receipt == "used"
    for loss in (math.nan, math.inf, None):
        with pytest.raises((ServiceError, ValueError)):
            service.observe(name, made[3], loss=loss)
    assert [event.loss for event in service.ledger(name, after=4)] == [0.5, 0.0, 1.0]


def test_many_decisions_and_outcomes_are_sent_in_parts(service: Any) -> None:
    name = named(service, "parts")
    service.create(name, 2, learner="uniform", seed=1)
    made = service.decide_many(name, 2500)
    assert [each.round for each in made] == list(range(1, 2501))
    assert len({each.id for each in made}) == 2500
    ids = [each.id for each in made]
    assert service.decide_many(name, ids) == made
    assert service.decide_many(name, iter(ids[:3])) == made[:3]
    receipts = service.observe_many(name, losses=dict.fromkeys(ids[:1500], 0.5), rewards=dict.fromkeys(ids[1500:], 1.0))
    assert [each.decision for each in receipts] == ids
    assert {each.receipt for each in receipts} == {"used"}
    again = service.observe_many(name, losses={ids[0]: 0.5, ids[1]: 0.25, "nobody": 0.5})
    assert [each.receipt for each in again] == ["repeated", "conflict", "unknown"]
    assert service.experiment(name).outcomes == OutcomeCounts(2500, 0, 0)
    assert [service.decide_many(name, []), service.decide_many(name, 0), service.observe_many(name)] == [[], [], []]


def test_the_ledger_is_read_event_by_event(service: Any) -> None:
    """Labels that other programs may take for the end of a line too."""
    name = named(service, "told")
    labels = ["line\u2028separator", "paragraph\u2029separator", "next\x85line", 'quoted " and\nbroken']
    service.create(name, labels, seed=1)
    made = service.decide_many(name, 40)
    service.observe(name, made[0], loss=0.25)
    events = list(service.ledger(name))
    assert all(isinstance(event, LedgerEvent) for event in events)
    assert [event.number for event in events] == list(range(1, 42))
    assert [event.arm for event in events[:40]] == [decision.arm for decision in made]
    assert {event.arm for event in events} == set(labels)
    assert (events[40].kind, events[40].decision, events[40].loss) == ("outcome", made[0].id, 0.25)
    assert list(service.ledger(name, after=39)) == events[39:]
    assert list(service.ledger(name, after=41)) == []


def test_an_experiment_is_watched(service: Any) -> None:
    name = named(service, "watched")
    service.create(name, ["line\u2028separator", "next\x85line"])
    with closing(service.watch(name)) as states:
        assert next(states) == service.experiment(name)
        service.decide(name)
        seen = next(states)
    assert isinstance(seen, Experiment)
    assert seen == service.experiment(name)
    assert seen.rounds == 1


@pytest.mark.parametrize("kind", BOTH)
def test_watching_ends_when_the_service_stops(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, client(kind, server.url, ADMIN_KEY) as service:
        service.create("watched", 2)
        states = service.watch("watched")
        next(states)
        server.terminate()
        assert list(states) == []


def test_what_is_refused_is_an_error_of_the_service(service: Any) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: service.experiment("nobody"),
        lambda: service.decide("nobody"),
        lambda: service.observe_many("nobody", losses={"x": 1}),
        lambda: service.pause("nobody"),
        lambda: next(service.ledger("nobody")),
        lambda: next(service.watch("nobody")),
    ]
    for ask in asks:
        with pytest.raises(ServiceError) as caught:
            ask()
        assert (caught.value.status, caught.value.code, caught.value.field) == (404, "unknown_experiment", "name")
        assert not isinstance(caught.value, ServiceUnavailable)
        assert isinstance(caught.value, BelatedError)
    for name in ("a/b", "../x", "ä?#", ""):
        with pytest.raises(ServiceError):
            service.experiment(name, digest=True)


@pytest.mark.parametrize("kind", BOTH)
def test_a_key_of_the_environment(kind: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELATED_KEY", ADMIN_KEY)
    with client(kind, server.url) as service:
        assert isinstance(service.experiments(), list)
    with client(kind, server.url, "another-key-comes-first") as service, pytest.raises(ServiceError) as caught:
        service.experiments()
    assert (caught.value.status, caught.value.code) == (401, "wrong_key")
    monkeypatch.delenv("BELATED_KEY")
    with refused("key", "BELATED_KEY"):
        client(kind, server.url)


def test_both_clients_have_the_same_methods_and_parameters() -> None:
    def parameters(kind: type) -> dict[str, list[str]]:
        methods = {
            name: method for name, method in vars(kind).items() if not name.startswith("_") or name == "__init__"
        }
        return {
            name: [str(each) for each in inspect.signature(method).parameters.values()]
            for name, method in methods.items()
        }

    sync, awaited = parameters(Client), parameters(AsyncClient)
    assert len(sync) == 20
    assert sync.pop("__init__")[:-1] == awaited.pop("__init__")[:-1]  # the last is the transport
    assert sync == awaited


HEAVY = ("numba", "numpy", "starlette", "uvicorn", "apsw", "psycopg", "prometheus_client")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import belated", (*HEAVY, "msgspec", "httpx")),
        ("from belated.cli.main import main; main(['--help'])", (*HEAVY, "msgspec", "httpx")),
        ("from belated.cli.main import main; main(['serve', '--help'])", (*HEAVY, "msgspec", "httpx")),
        ("from belated.cli.main import main; main(['--version'])", (*HEAVY, "msgspec", "httpx")),
        ("import belated.client", HEAVY),
    ],
)
def test_what_is_imported_is_light(code: str, absent: tuple[str, ...]) -> None:
    program = f"""
import sys
try:
    {code}
except SystemExit as end:
    assert end.code in (0, None)
print("imported:", *sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = ran.stdout.rpartition("imported: ")[2].split()
    assert "belated" in imported
    assert set(imported) & set(absent) == set()
