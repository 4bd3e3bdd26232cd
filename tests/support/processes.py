"""Processes of this machine: those that simulate, and the workers of a supervisor."""

from pathlib import Path

from support.serving import is_alive
from support.waiting import until


def _children(parent: int) -> list[tuple[int, bytes]]:
    """Return the processes that another one has started and that have not ended, with their command lines."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, owner = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(owner) == parent and state != "Z":
            found.append((int(entry.name), command))
    return found


def simulating(parent: int) -> list[int]:
    """Return the processes that simulate for another one."""
    return [pid for pid, command in _children(parent) if b"belated.service.simulate" in command.split(b"\0")]


def workers_of(supervisor: int) -> set[int]:
    return {pid for pid, command in _children(supervisor) if b"resource_tracker" not in command}


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for a parent that does not ask for its status."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pid: int) -> None:
    until(lambda: not is_alive(pid))
