"""A real Dask scheduler and real workers, one of which is killed with -9 half way: the numbers stay the same."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from belated.cli.main import main
from belated.simulation import parallel

BIN = Path(sys.executable).parent
LEAGUE = ["league", "--cells", "stochastic-k10/*", "--rounds", "20000", "--replications", "6"]
LEAGUE += ["--learners", "robust", "thompson", "bold", "damped"]


class Cluster:
    """A scheduler and its workers, as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.start(
            "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
        )
        self.wait_for(lambda: file.exists() and "tcp://" in file.read_text())
        self.address = next(part for part in file.read_text().split('"') if part.startswith("tcp://"))

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{len(self.processes)}.log").open("wb")
        process = subprocess.Popen(
            [BIN / command[0], *command[1:]], stdout=log, stderr=log, cwd=self.folder, start_new_session=True
        )
        log.close()
        self.processes.append(process)
        return process

    def wait_for(self, ready: "object") -> None:
        deadline = time.monotonic() + 60
        while not ready():  # type: ignore[operator]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


@pytest.mark.slow
def test_a_worker_dies_and_the_numbers_are_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """`belated cluster-worker` and `dask worker` both join; the first is killed with -9 when results begin to come."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert main([*LEAGUE, "--threads", "1", "--out", str(alone)]) == 0
    first = cluster.start("belated", "cluster-worker", cluster.address, "--threads", "1")
    cluster.start("dask", "worker", cluster.address, "--nthreads", "1", "--no-dashboard")
    run = cluster.start("belated", *LEAGUE, "--cluster", cluster.address, "--out", str(together))
    cluster.wait_for(lambda: len(list((together / "cells").glob("*.npz"))) >= 2)
    os.killpg(first.pid, signal.SIGKILL)
    assert run.poll() is None
    assert run.wait(timeout=120) == 0
    assert first.wait() == -signal.SIGKILL
    assert (together / "final.csv").read_bytes() == (alone / "final.csv").read_bytes()
    assert (together / "standings.json").read_bytes() == (alone / "standings.json").read_bytes()


def test_nobody_at_that_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 0.5)
    assert main([*LEAGUE, "--cluster", "tcp://127.0.0.1:1", "--out", str(tmp_path)]) == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err
