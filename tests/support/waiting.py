"""Waiting for what another thread or process does."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 60.0
"""Far more than anything takes, so that only what never happens fails."""


def until(condition: Callable[[], T | None], seconds: float = SECONDS) -> T:
    """Return what a function gives as soon as that is true; an AssertionError in it counts as not yet."""
    end = time.monotonic() + seconds
    while True:
        error: AssertionError | None = None
        try:
            found = condition()
            if found:
                return found
        except AssertionError as raised:
            error = raised
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {seconds:g} s") from error
        time.sleep(0.01)


async def until_async(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """The same, while an event loop does other things."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
