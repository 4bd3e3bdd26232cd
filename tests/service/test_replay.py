"""Replays of experiments that a real service made."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from belated.api.types import Deadline
from belated.cli.main import main
from belated.client import Client
from belated.inference import Estimate
from belated.ledger import open_ledger
from belated.ledger.estimates import log_of
from belated.ledger.export import pieces
from belated.logs import read_log
from belated.replay import replay_log
from belated.replay.ledgers import replay_experiment
from support.http_helpers import MOSTLY_SQLITE, serving
from support.sampling import sampled
from support.serving import Server
from support.waiting import until

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def play(client: Client, name: str, batches: int) -> None:
    """Decide in batches; some outcomes come at once, some later and out of order, some never."""
    rng = np.random.default_rng(8)
    waiting: list[Any] = []
    for _ in range(batches):
        waiting += client.decide_many(name, 20)
        rng.shuffle(waiting)
        now, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
        client.observe_many(name, losses={each.id: float(rng.random() < (0.7, 0.3)[each.arm == "y"]) for each in now})


@pytest.mark.parametrize("learner", ["guarded", *sampled(["thompson", "robust", "uniform"], 1)])
def test_counts_and_decisions_are_those_of_the_service(
    server: Server, client: Client, learner: str, capsys: Captured
) -> None:
    """The counts are the service's, and the learner that decided decides the same again, bit for bit."""
    name = f"shop-{learner}"
    client.create(name, ["x", "y"], seed=5, learner=learner)
    play(client, name, 12)
    state = client.experiment(name)
    assert main(["replay", name, "--store", server.store, "--json", "--learners", learner]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decisions"] == state.rounds == 240
    assert [(arm["arm"], arm["decisions"], arm["outcomes"]) for arm in found["arms"]] == [
        (arm.arm, arm.decisions, arm.outcomes) for arm in state.arms
    ]
    assert found["outcomes"] == state.outcomes.used + state.outcomes.skipped
    assert found["reproduced"] == {
        "learner": learner,
        "decisions": 240,
        "propensity_error": 0.0,
        "faults": [],
    }


def test_another_seed_does_not_decide_the_same(server: Server, client: Client) -> None:
    """What is compared are the decisions on record: those of another seed differ."""
    client.create("seeded", ["x", "y"], seed=5, learner="guarded")
    play(client, "seeded", 3)
    with closing(open_ledger(server.store, read_only=True)) as ledger:
        record = ledger.find("seeded")
        assert record is not None
        log = log_of(ledger, record)
        other = record._replace(settings=msgspec.structs.replace(record.settings, seed=6))
        reproduced = replay_experiment(ledger, other, log, ["uniform"]).reproduced
    assert reproduced is not None
    assert reproduced.faults


def test_the_same_from_the_ledger_and_from_its_export(server: Server, client: Client, tmp_path: Path) -> None:
    client.create("exported", ["x", "y", "z"], seed=2, learner="uniform")
    play(client, "exported", 6)
    with closing(open_ledger(server.store, read_only=True)) as ledger:
        record = ledger.find("exported")
        assert record is not None
        expected = replay_log(log_of(ledger, record), ["uniform"]).as_dict()
        for format in ("csv", "ndjson", "parquet"):
            path = tmp_path / f"export.{format}"
            path.write_bytes(b"".join(pieces(ledger, record, format)))
            read = read_log(path, arms=["x", "y", "z"])
            assert replay_log(read, ["uniform"]).as_dict() == expected


def test_a_deadline_of_the_service_is_in_the_log(server: Server, client: Client) -> None:
    """Defaults count as outcomes; a late report changes nothing."""
    client.create("late", ["x", "y"], seed=2, learner="uniform", missing=Deadline(3600.0, 1.0))
    made = client.decide_many("late", 30)
    client.observe_many("late", losses={each.id: 0.0 for each in made[:10]})
    server.pass_time(3600)
    until(lambda: client.experiment("late").outcomes.defaults == 20)
    client.observe("late", made[15].id, loss=0.0)
    with closing(open_ledger(server.store, read_only=True)) as ledger:
        record = ledger.find("late")
        assert record is not None
        found = replay_experiment(ledger, record, log_of(ledger, record), ["uniform"])
    assert isinstance(found.logged, Estimate)
    assert found.logged.value == pytest.approx(1 / 3)
    assert found.delays is not None
    assert found.delays.overall.outcomes == 30
    assert found.delays.by_outcome[1].quantiles[0] >= 3600
    assert found.reproduced is not None
    assert not found.reproduced.faults
