"""Write down which functions of belated each test calls: a plugin of pytest.

Python loads `sitecustomize` of this folder in each process that the tests start.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import watch_calls


def pytest_sessionstart() -> None:
    os.environ["BELATED_CALLS_TEST"] = str(Path(os.environ["BELATED_CALLS"]) / f"test-{os.getpid()}")
    watch_calls.watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    Path(os.environ["BELATED_CALLS_TEST"]).write_text(item.nodeid)
    watch_calls.in_process_of_tests = True
    watch_calls.called.clear()
    sys.monitoring.restart_events()
    begun = time.monotonic()
    try:
        return (yield)
    finally:
        watch_calls.write(item.nodeid, sorted(watch_calls.called), time.monotonic() - begun)
