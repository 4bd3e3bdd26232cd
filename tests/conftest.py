"""What every test relies on, however pytest was started."""

import signal
from pathlib import Path

import pytest

# nohup, and shells that start a job in the background, let it ignore SIGINT, and processes that tests start would
# inherit that: those that test an interrupt would never be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = ("learners", "service", "core", "ledger", "cli", "client", "simulation", "league", "report")
"""The folders whose tests take longest. They go first, so that no process is left with a long file at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(Path(item.path).parent.name, len(places)))
