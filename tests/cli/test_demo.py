"""`belated demo`: a service with a lively shop, which ends with it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from belated.client import Client
from support.ports import free_port

SECONDS = 60.0


@contextmanager
def demo(port: int, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A demo that has told its address: the process and the key."""
    command = [sys.executable, "-m", "belated.cli", "demo", "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        found = re.fullmatch(rf"  http://127.0.0.1:{port}/sign-in#key=(belated_demo_[0-9a-f]{{32}})\n", lines[1])
        assert found, lines
        assert lines[0] == f"Open this page and sign in; it has the key {found[1]}:\n"
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_pages_have_data_soon_and_the_service_ends_with_the_demo(number: int) -> None:
    port = free_port()
    with demo(port, "--half", "2") as (process, key):
        begun = time.monotonic()
        with Client(f"http://127.0.0.1:{port}", key) as client:
            while not all(arm.outcomes for arm in client.experiment("landing-page").arms):
                assert time.monotonic() - begun < SECONDS
                time.sleep(0.1)
            while len(client.experiment("landing-page").arms) < 4:
                assert time.monotonic() - begun < SECONDS
                time.sleep(0.1)
            timeline = client.experiment("basket")
            assert timeline.outcomes.held + timeline.outcomes.used > 0
        os.kill(process.pid, number)
        assert process.wait(SECONDS) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{port}/")


def test_the_shop_plays_on_whatever_is_done_on_its_page() -> None:
    port = free_port()
    with demo(port, "--half", "1000") as (process, key), Client(f"http://127.0.0.1:{port}", key) as client:
        until = time.monotonic() + SECONDS
        while client.experiment("basket").rounds < 10:
            assert time.monotonic() < until
        client.add_arm("landing-page", "added")
        client.archive("basket")
        client.pause("landing-page")
        time.sleep(0.5)
        client.resume("landing-page")
        seen = client.experiment("landing-page").rounds
        while not next(arm for arm in client.experiment("landing-page").arms if arm.arm == "added").decisions:
            assert process.poll() is None
            assert time.monotonic() < until
        assert client.experiment("landing-page").rounds > seen


def test_a_port_that_is_taken_is_said() -> None:
    port = free_port()
    with demo(port):
        command = [sys.executable, "-m", "belated.cli", "demo", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 1
        assert f"port {port}: Address already in use" in done.stderr
        assert "the service did not start; its exit status is 2" in done.stderr
