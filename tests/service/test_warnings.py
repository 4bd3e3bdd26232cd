"""What the service says of an experiment whose learner cannot be right: in its state, in its stream, in the log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from belated.api.types import Deadline
from belated.client import Client
from support.http_helpers import MOSTLY_SQLITE
from support.serving import Server, Stores


@pytest.fixture(params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with Server(Stores.fresh(request.param, tmp_path), tmp_path / "log") as running:
        yield running


def wins_only(client: Client, name: str, rounds: int) -> None:
    """Decide ten at a time, and report the outcome of every other decision."""
    for begin in range(0, rounds, 10):
        ids = [f"d-{k}" for k in range(begin, begin + 10)]
        client.decide_many(name, ids)
        client.observe_many(name, rewards=dict.fromkeys(ids[::2], 1.0))


def warned(server: Server) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if " WARNING " in line]


def test_the_state_has_it_and_the_log_once_in_each_process(server: Server) -> None:
    with server.client() as client:
        for name, learner in (("shop", "ucb"), ("well", "balanced"), ("default", "guarded")):
            assert client.create(name, ["a", "b"], learner=learner, seed=1).warnings == []
            wins_only(client, name, 350)
        (line,) = warned(server)  # nobody has read the state
        assert [word in line for word in ("shop", "125", "250", "100")] == [True] * 4
        assert client.experiment("well").warnings == client.experiment("default").warnings == []
        (said,) = client.experiment("shop").warnings
        assert [word in said for word in ("125", "250", "'ucb'")] == [True] * 3
        assert next(client.watch("shop")).warnings == [said]
        for _ in range(3):
            assert client.experiment("shop").warnings == [said]
        assert warned(server) == [line]
    server.terminate()
    server.start()
    with server.client() as client:
        assert warned(server) == [line]
        assert client.experiment("shop").warnings == [said]
        assert len(warned(server)) == 2


def test_a_deadline_with_a_default_loss_is_what_to_do(server: Server) -> None:
    """Once missing outcomes have a loss, there is nothing to warn of."""
    with server.client() as client:
        client.create("shop", ["a", "b"], learner="ucb", seed=1, missing=Deadline(0.001, 1.0))
        wins_only(client, "shop", 350)
        shown = client.experiment("shop")
    assert shown.warnings == []
    assert shown.outcomes.defaults > 100
    assert warned(server) == []
