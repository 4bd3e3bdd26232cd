"""Watch which functions of belated a process calls.

A function is reported when it is first called in a test, or first called in a process that a test has started; after
that it costs nothing.
"""

import json
import os
import sys
from pathlib import Path
from types import CodeType
from typing import Any

TOOL = 4
called: set[str] = set()
"""What the test that runs has called so far."""
in_process_of_tests = False


def _place(code: CodeType) -> str:
    _, found, rest = code.co_filename.rpartition("/src/belated/")
    return f"src/belated/{rest}::{code.co_qualname}" if found else ""


def _on_call(code: CodeType, _: int) -> Any:
    place = _place(code)
    if place and in_process_of_tests:
        called.add(place)
    elif place:
        current = Path(os.environ["BELATED_CALLS_TEST"])
        write(current.read_text() if current.exists() else "", [place], None)
    return sys.monitoring.DISABLE


def write(test: str, places: list[str], seconds: float | None) -> None:
    """Append a line to the report of this process; no seconds: the process is one that the test has started."""
    line = json.dumps([test, places, seconds]) + "\n"
    path = Path(os.environ["BELATED_CALLS"]) / f"{os.getpid()}.jsonl"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, line.encode())
    os.close(handle)


def _after_fork() -> None:
    global in_process_of_tests
    in_process_of_tests = False
    sys.monitoring.restart_events()


def watch() -> None:
    """Watch this process, and those that it forks."""
    monitoring = sys.monitoring
    if monitoring.get_tool(TOOL) is None:
        monitoring.use_tool_id(TOOL, "calls of tests")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, _on_call)
        monitoring.set_events(TOOL, monitoring.events.PY_START)
        os.register_at_fork(after_in_child=_after_fork)
