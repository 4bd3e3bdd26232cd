"""What every test relies on, however pytest was started."""

import signal
from pathlib import Path

import pytest

# nohup, and shells that start a job in the background, let it ignore SIGINT, and processes that tests start would
# inherit that: those that test an interrupt would never be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = [
    "coverage",
    "docker",
    "published",
    "kill",
    "stop",
    "workers",
    "pages",
    "experiment",
    "simulate",
    "deadlines",
    "kernels",
    "faults_postgres",
    "backup",
    "integrity",
    "protocol",
    "conversions",
    "theory",
    "fuzz",
    "report",
    "retries",
    "output",
    "keys",
    "league",
    "metrics",
    "migrations",
    "faults_sqlite",
    "faults_power",
    "cluster",
    "faults_postgres_service",
    "bandit",
    "service_commands",
    "standings",
    "streams",
    "by_hand",
    "thompson",
    "outcomes",
    "aipw",
    "design",
    "service",
]
"""The files whose tests take longest. They go first, so that no process is left with a long file at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(Path(item.path).stem, len(places)))
