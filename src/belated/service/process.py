"""What the system says of a process."""

import os
from typing import NamedTuple

_CLOCK = "btime "


class ProcessFigures(NamedTuple):
    """What is shown of a worker's process."""

    memory: float
    """Bytes."""
    cpu: float
    """Seconds."""
    files: float
    started: float
    """Seconds since 1970."""


def process_figures(pid: int) -> ProcessFigures | None:
    """Return the figures of a process of this machine; None where it has ended, or the system has no /proc."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()  # behind its name, which may hold anything
        with open("/proc/stat") as file:
            booted = next(float(line.split()[1]) for line in file if line.startswith(_CLOCK))
        files = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, StopIteration):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return ProcessFigures(
        memory=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        cpu=(int(fields[11]) + int(fields[12])) / ticks,
        files=files,
        started=booted + int(fields[19]) / ticks,
    )
