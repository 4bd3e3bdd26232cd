"""The processes of this machine that simulate."""

import time
from pathlib import Path

from support.serving import is_alive


def simulating(parent: int) -> list[int]:
    """Return the processes that simulate for another one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) == parent and b"belated.service.simulate" in words:
            found.append(int(entry.name))
    return found


def wait_until_gone(pid: int, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)
