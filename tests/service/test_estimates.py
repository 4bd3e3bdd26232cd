"""Estimates of an experiment: the same from the service, the ledger, an export and a log, on both databases."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from belated import inference
from belated.api.types import Deadline, ExperimentEstimates
from belated.client import AsyncClient, Client, ServiceError
from belated.inference.method import Options
from belated.ledger import open_ledger
from belated.ledger.estimates import SettledDecisions, Totals, log_of
from belated.ledger.events import Hears
from belated.ledger.export import pieces
from support.http_helpers import MOSTLY_SQLITE, at, create, done, problem, serving, talk
from support.ledger_helpers import append, decision, default, experiment, outcome
from support.refusals import refused
from support.serving import ADMIN_KEY, KINDS, Server, Stores
from support.waiting import until

WAYS: list[dict[str, Any]] = [
    {},
    {"control": "x", "alpha": 0.2},
    {"outcomes": "arrived"},
    {"outcomes": "bounded"},
    {"method": "randomisation"},
    {"method": "betting"},
    {"method": "betting", "control": "x", "outcomes": "bounded"},
]


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def play(client: Client, name: str, decisions: int, seed: int = 1) -> None:
    """Decide, and report outcomes of most decisions out of order: y succeeds more often than x."""
    rng = np.random.default_rng(seed)
    made = client.decide_many(name, decisions)
    rewards = {}
    for each in rng.permutation(len(made)).tolist():
        if each < 0.8 * decisions or rng.random() < 0.5:
            rewards[made[each].id] = float(rng.random() < (0.2 if made[each].arm == "x" else 0.6))
    client.observe_many(name, rewards=rewards)


def shown(found: ExperimentEstimates) -> dict[str, Any]:
    """What the service says, as `Estimates.as_dict` has it."""
    plain = msgspec.to_builtins(found)
    del plain["name"]
    return plain


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """What is said but for how many days it takes: the service knows the pace, a log may not."""
    return {name: each for name, each in found.items() if name not in ("days", "verdict")}


def test_service_ledger_export_and_log_say_the_same(server: Server, client: Client, tmp_path: Path) -> None:
    name = "same"
    client.create(name, ["x", "y"], seed=3, learner="balanced")
    for part in range(3):  # what was read before is not read again
        play(client, name, 100, seed=part)
        with closing(open_ledger(server.store, read_only=True)) as ledger:
            record = ledger.find(name)
            assert record is not None
            log = log_of(ledger, record)
            export = tmp_path / f"export{part}.csv"
            export.write_bytes(b"".join(pieces(ledger, record, "csv")))
        for way in WAYS:
            known = inference.estimates(log, **way)
            expected, found = known.as_dict(), client.estimates(name, **way)
            assert timeless(shown(found)) == timeless(expected)
            assert found.verdict.startswith(known.headline)
            assert timeless(inference.estimates(inference.read_log(export), **way).as_dict()) == timeless(expected)
            assert (found.days is None) == (found.more is None)
            if found.more is not None and found.days is not None:
                assert 0.0 < found.days.low <= (found.days.high or math.inf)
    assert expected["decisions"] == 300
    state = client.experiment(name)
    assert expected["waiting"] == state.rounds - state.outcomes.used - state.outcomes.skipped > 0


def test_which_arm_wins_is_told(client: Client) -> None:
    client.create("wins", ["x", "y"], seed=3, learner="uniform")
    made = client.decide_many("wins", 400)
    assert client.estimates("wins").leader is None
    client.observe_many("wins", rewards={each.id: float(each.arm == "y") for each in made})
    found = client.estimates("wins", control="x")
    assert (found.winner, found.leader, found.used) == ("y", "y", 400)
    assert found.differences[0].difference.low > 0.8
    assert found.uplift_to_control is not None
    assert (found.method, found.average, found.candidates, found.progress) == ("randomisation", "plain", ["y"], 1.0)
    assert found.named is not None
    assert (found.named.arm, found.more, found.days, found.movement) == ("y", None, None, None)


def test_labels_that_are_numbers(client: Client) -> None:
    client.create("numbers", 3, seed=3)
    assert [each.other for each in client.estimates("numbers", control=1).differences] == [1, 1]


def test_a_default_settles_and_what_comes_later_does_not_count(server: Server, client: Client) -> None:
    client.create("deadline", ["x", "y"], seed=3, missing=Deadline(3600.0, 1.0))
    first, second = client.decide_many("deadline", 2)
    client.observe("deadline", second, reward=1.0)
    assert client.estimates("deadline").used == 0
    server.pass_time(3600)
    until(lambda: client.estimates("deadline").used == 2)
    client.observe("deadline", first, reward=1.0)
    found = client.estimates("deadline")
    assert sum(each.outcomes * (each.mean.value or 0.0) for each in found.arms) == pytest.approx(1.0)


def test_outcomes_that_are_held_are_settled(client: Client) -> None:
    client.create("held", ["x", "y"], seed=3, missing=Deadline(1000.0, 1.0, "deadline"))
    for each in client.decide_many("held", 10):
        assert client.observe("held", each, reward=1.0).receipt == "held"
    found = client.estimates("held")
    assert (found.used, found.waiting) == (10, 0)


def test_what_is_asked_for_wrongly_is_refused(server: Server) -> None:
    with talk(server) as http:
        create(http, "refusals", learner="ucb")
        ask = at("refusals", "estimates")
        problem(http.get(at("nobody", "estimates")), 404, "unknown_experiment", "name")
        for query, field, value in [
            ("alpha=2", "alpha", "2"),
            ("alpha=x", "alpha", "x"),
            ("alpha=0.0", "alpha", "0.0"),
            ("method=aipw", "method", "aipw"),
            ("outcomes=all", "outcomes", "all"),
            ("control=z", "control", "z"),
            ("method=weighted", "method", "weighted"),
            ("what=1", "what", "what"),
        ]:
            assert value in problem(http.get(f"{ask}?{query}"), 422, "invalid", field)
        (made,) = (done(http.post(at("refusals", "decisions"))),)
        done(http.post(at("refusals", "outcomes"), json={"decision": made["id"], "loss": 0.0}))
        problem(http.get(f"{ask}?method=randomisation"), 422, "invalid", "method")  # its choices were certain
        found = done(http.get(ask))
        assert (found["used"], found["method"], found["average"]) == (1, "betting", "same")


def test_a_key_that_decides_only_may_not_look(server: Server, client: Client) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get(at("wins", "estimates")).status_code == 401


def test_the_asynchronous_client(server: Server, client: Client) -> None:
    client.create("async", ["x", "y"], seed=3)

    async def ask() -> None:
        async with AsyncClient(server.url, ADMIN_KEY) as other:
            assert (await other.estimates("async", control="x")).decisions == 0
            with refused("control", "q", error=ServiceError):
                await other.estimates("async", control="q")

    asyncio.run(ask())


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_are_read_once_in_their_order(kind: str, tmp_path: Path) -> None:
    with closing(open_ledger(Stores.fresh(kind, tmp_path))) as ledger:
        record = experiment(ledger)
        events = [decision(k, k, arm=k % 3, propensity=0.25) for k in range(1, 7)]
        events += [outcome(7, 1, 0.0), outcome(8, 3, 1.0), default(9, 2), outcome(10, 2, 0.0)]
        append(ledger, record.number, events)
        found = [tuple(each) for each in ledger.results(record.number, Hears.ARRIVAL, 0, 100, 10)]
        losses = [0.0, 1.0, 1.0, None, None, None]
        assert found == [(k, k % 3, 0.25, loss, None) for k, loss in enumerate(losses, 1)]
        assert [each.number for each in ledger.results(record.number, Hears.ARRIVAL, 2, 5, 10)] == [3, 4, 5]
        assert [each.number for each in ledger.results(record.number, Hears.ARRIVAL, 2, 5, 1)] == [3]
        settled = SettledDecisions(3)
        assert not settled.advance(ledger, record.number, 100, 0)
        assert settled.advance(ledger, record.number, 2)
        assert (settled.stream.rounds, settled.position) == (2, 2)
        assert settled.advance(ledger, record.number, 100)
        assert (settled.stream.rounds, settled.position) == (3, 3)
        append(ledger, record.number, [outcome(11, 4, 0.5)])
        assert settled.advance(ledger, record.number, 100)
        assert settled.position == 4
        totals = Totals(record.settings.arms, (2, 2, 2), 2)
        for outcomes, used in (("settled", 4), ("arrived", 4), ("bounded", 6)):
            method = settled.method(ledger, record, totals, 100, Options(outcomes=outcomes))
            assert method.estimates().used == used
        assert settled.stream.rounds == 4
        assert log_of(ledger, record).rewards[:4].tolist() == [1.0, 0.0, 0.0, 0.5]


@pytest.mark.parametrize("kind", MOSTLY_SQLITE)
def test_after_a_restart_only_the_rest_is_read(kind: str, tmp_path: Path) -> None:
    """What was read of settled decisions is kept. What is kept may be damaged: then all are read again."""
    reading = "belated.service.reading."
    small = {reading + "SETTLED_AT_ONCE": 100, reading + "KEEP_LEAST": 50, reading + "KEEP_FACTOR": 1.0}
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", constants=small) as server:
        with server.client() as client:
            client.create("kept", ["x", "y"], seed=3)
            play(client, "kept", 500)
            expected = shown(client.estimates("kept"))
        server.terminate()
        with closing(open_ledger(server.store)) as ledger:
            record = ledger.find("kept")
            assert record is not None
            blob = ledger.settled(record.number)
            assert blob is not None
            kept = SettledDecisions.from_bytes(blob, Hears.ARRIVAL)
            assert expected["used"] - 50 <= kept.stream.rounds <= expected["used"]
            # one that says what is not so: whoever goes on from it shows it
            kept.stream.add(np.zeros(1000, dtype=np.int64), np.ones(1000), np.full(1000, 0.5))
            ledger.keep_settled(record.number, kept.position, kept.to_bytes())
        server.start()
        with server.client() as client:
            assert client.estimates("kept").used == expected["used"] + 1000
        server.terminate()
        with closing(open_ledger(server.store)) as ledger:
            ledger.keep_settled(record.number, record.events, b"damaged")
        server.start()
        with server.client() as client:
            assert shown(client.estimates("kept")) == expected
