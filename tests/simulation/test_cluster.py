"""A real Dask scheduler and real workers, one of which is killed with -9 half way: the numbers stay the same."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from belated.cli.main import main
from belated.simulation import parallel
from support.waiting import until

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
        until(lambda: file.exists() and "tcp://" in file.read_text())
        self.address = next(part for part in file.read_text().split('"') if part.startswith("tcp://"))

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{len(self.processes)}.log").open("wb")
        process = subprocess.Popen(
            [BIN / command[0], *command[1:]], stdout=log, stderr=log, cwd=self.folder, start_new_session=True
        )
        log.close()
        self.processes.append(process)
        return process

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
@pytest.mark.timeout(600)
def test_a_worker_dies_and_the_numbers_are_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """`belated cluster-worker` is killed with -9 when results begin to come; `dask worker`, which joined, goes on."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert main([*LEAGUE, "--threads", "1", "--out", str(alone)]) == 0
    first = cluster.start("belated", "cluster-worker", cluster.address, "--threads", "1")
    run = cluster.start("belated", *LEAGUE, "--cluster", cluster.address, "--out", str(together))
    until(lambda: len(list((together / "cells").glob("*.npz"))) >= 2)
    os.killpg(first.pid, signal.SIGSTOP)  # nothing goes on until the other one has joined
    assert run.poll() is None
    cluster.start("dask", "worker", cluster.address, "--nthreads", "1", "--no-dashboard")
    os.killpg(first.pid, signal.SIGKILL)
    assert run.wait(timeout=500) == 0
    assert first.wait() == -signal.SIGKILL
    assert (together / "final.csv").read_bytes() == (alone / "final.csv").read_bytes()
    assert (together / "standings.json").read_bytes() == (alone / "standings.json").read_bytes()


def test_nobody_at_that_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 0.5)
    assert main([*LEAGUE, "--cluster", "tcp://127.0.0.1:1", "--out", str(tmp_path)]) == 2
    assert "tcp://127.0.0.1:1" in capsys.readouterr().err
