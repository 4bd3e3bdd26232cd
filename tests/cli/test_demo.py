"""`belated demo`: a service with a lively shop, which ends with it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest

from belated.cli import demo as module
from belated.client import Client
from support.http_helpers import serving
from support.ports import free_port
from support.serving import Server


@contextmanager
def demo(port: int, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A demo that has told its address: the process and the key."""
    command = [sys.executable, "-m", "belated.cli", "demo", "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        found = re.search(rf"http://127.0.0.1:{port}/sign-in#key=(belated_demo_[0-9a-f]{{32}})$", lines[1].strip())
        assert found, lines
        assert found[1] in lines[0]
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_service_ends_with_the_demo(number: int) -> None:
    port = free_port()
    with demo(port) as (process, key):
        with Client(f"http://127.0.0.1:{port}", key) as client:
            assert {each.name for each in client.experiments()} == {module.LANDING, module.BASKET}
        os.kill(process.pid, number)
        assert process.wait() == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{port}/")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running:
        yield running


def play(
    client: Client, monkeypatch: pytest.MonkeyPatch, seconds: int, half: float, act: Callable[[int], None]
) -> None:
    """Play with a clock that goes on by a second whenever the shop waits; `act` is called then."""
    passed = [0.0]

    def sleep(seconds: float) -> None:
        act(round(passed[0]))
        passed[0] += seconds

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: passed[0], sleep=sleep))
    monkeypatch.setattr(module, "STEP_SECONDS", 1.0)
    module._create(client)
    module._play(client, seconds, half)


def test_visitors_buy_and_half_way_an_arm_is_new(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    arms: list[int] = []
    with server.client() as client:
        play(client, monkeypatch, 40, 20.0, lambda at: arms.append(len(client.experiment(module.LANDING).arms)))
        landing, basket = (client.experiment(name) for name in (module.LANDING, module.BASKET))
    assert arms == [3] * 21 + [4] * 19
    assert (landing.rounds, basket.rounds) == (40 * module.VISITORS, 40 * module.SHOPPERS)
    assert sum(arm.outcomes for arm in landing.arms) > 5
    assert next(arm for arm in landing.arms if arm.arm == "reviews").decisions > 0
    assert basket.outcomes.held + basket.outcomes.used > 0


def test_the_shop_plays_on_whatever_is_done_on_its_page(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.client() as client:

        def act(at: int) -> None:
            if at == 2:
                client.add_arm(module.LANDING, "added")
                client.archive(module.BASKET)
                client.pause(module.LANDING)
            if at == 4:
                client.resume(module.LANDING)

        play(client, monkeypatch, 30, 1000.0, act)
        landing = client.experiment(module.LANDING)
        assert client.experiment(module.BASKET).rounds == 3 * module.SHOPPERS
    assert landing.rounds == 28 * module.VISITORS
    assert next(arm for arm in landing.arms if arm.arm == "added").decisions > 0


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(server: Server) -> None:
    command = [sys.executable, "-m", "belated.cli", "demo", "--port", str(server.port)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert str(server.port) in done.stderr
