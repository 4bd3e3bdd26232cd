"""What the log says: the task, the experiments, the cause, and that it works again; each once, not every second."""

import asyncio
import logging
from typing import Any

import pytest

from belated.ledger.base import LedgerUnavailable
from belated.service.service import Service


def repeated(caplog: pytest.LogCaptureFixture, *results: Exception | None) -> list[tuple[str, object]]:
    """(level, values) of the lines about a task that ends in these ways, one after the other."""
    waiting = list(results)
    done = asyncio.Event()

    async def do() -> None:
        if not waiting:
            done.set()
            await asyncio.sleep(60)
        if error := waiting.pop(0):
            raise error

    async def main() -> None:
        nobody: Any = None
        task = asyncio.create_task(Service._repeat(nobody, "listing deadlines", 0.001, do))
        await asyncio.wait_for(done.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.INFO, "belated.service"):
        asyncio.run(main())
    return [(record.levelname, record.args) for record in caplog.records]


def test_a_task_that_fails_says_so_once_and_that_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    gone = LedgerUnavailable("the ledger is gone")
    assert repeated(caplog, None, gone, gone, None, None) == [
        ("ERROR", ("listing deadlines", "the ledger is gone", 0.001)),
        ("WARNING", ("listing deadlines",)),
    ]


def test_another_cause_is_said_and_a_fault_shows_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    lines = repeated(caplog, LedgerUnavailable("the ledger is gone"), ValueError("a slip"), ValueError("a slip"))
    assert lines == [
        ("ERROR", ("listing deadlines", "the ledger is gone", 0.001)),
        ("ERROR", ("listing deadlines", 0.001)),
    ]
    trace = caplog.records[-1].exc_info
    assert trace is not None
    assert str(trace[1]) == "a slip"
