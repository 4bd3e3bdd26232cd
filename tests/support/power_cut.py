"""A disk whose power is cut: what was not synced may be there, or in part, or not at all.

A VFS by the name `VFS` does what SQLite asks for, and remembers it. From what it remembers, `Tape.image` makes the
files as a power cut after any operation would have left them. What writers and readers share in memory is gone.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

VFS = "power cut"
SECTOR = 512
What = Literal["create", "delete", "write", "truncate", "sync", "acknowledge"]
Left = Literal["synced", "some", "all"]
"""Of what was not synced: nothing, some parts of some writes, everything."""


class Step(NamedTuple):
    """What was done to a file."""

    what: What
    name: str
    at: int = 0
    """Where a write begins; the size after a truncation."""
    data: bytes = b""


@dataclass
class _File:
    """A file as the disk has it, and what is on its way there."""

    content: bytearray | None
    pending: list[Step] = field(default_factory=list)

    def do(self, step: Step) -> None:
        if step.what == "sync":  # of the folder too, where the file is new: SQLite sees to it
            for each in self.pending:
                self._apply(each)
            self.pending.clear()
        else:
            self.pending.append(step)

    def _apply(self, step: Step) -> None:
        if step.what == "create":
            self.content = bytearray()
        elif step.what == "delete":
            self.content = None
        elif self.content is not None:
            if step.what == "truncate":
                del self.content[step.at :]
            else:
                self.content.extend(bytes(max(0, step.at - len(self.content))))
                self.content[step.at : step.at + len(step.data)] = step.data

    def cut(self, left: Left, rng: random.Random) -> bytes | None:
        """What is found when the power is back."""
        if left != "synced":
            for step in self.pending if left == "all" else self._some(rng):
                self._apply(step)
        return None if self.content is None else bytes(self.content)

    def _some(self, rng: random.Random) -> list[Step]:
        """Parts of what is pending. Files come and go in order; a write belongs to the file that it was made to."""
        lives = [k for k, step in enumerate(self.pending) if step.what in ("create", "delete")]
        lived = rng.randint(0, len(lives))
        begin = lives[lived - 1] if lived else -1
        end = lives[lived] if lived < len(lives) else len(self.pending)
        chosen = [step for step in self.pending[begin + 1 : end] if rng.random() < 0.5]
        writes = [part for step in chosen if step.what == "write" for part in _torn(step, rng)]
        rng.shuffle(writes)
        truncations = [step for step in chosen if step.what == "truncate"]
        return self.pending[max(begin, 0) : begin + 1] + truncations + writes


def _torn(step: Step, rng: random.Random) -> list[Step]:
    """A write, whole or without some of its sectors."""
    if rng.random() < 0.5:
        return [step]
    parts = []
    at, end = step.at, step.at + len(step.data)
    while at < end:
        until = min(end, (at // SECTOR + 1) * SECTOR)
        if rng.random() < 0.7:
            parts.append(Step("write", step.name, at, step.data[at - step.at : until - step.at]))
        at = until
    return parts


class Tape:
    """All that was done to the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.steps: list[Step] = []
        self._folder = folder
        self._before = {file.name: file.read_bytes() for file in folder.iterdir()}

    @contextmanager
    def running(self) -> Iterator[None]:
        vfs = _Vfs(self)
        try:
            yield
        finally:
            vfs.unregister()

    def note(self, what: What, path: str, at: int = 0, data: bytes = b"") -> None:
        self.steps.append(Step(what, os.path.basename(path), at, data))

    def image(self, cut: int, left: Left, rng: random.Random, folder: Path) -> int:
        """Write the files as they are when the power is cut after so many steps; how many steps were on their way."""
        files = {name: _File(bytearray(content)) for name, content in self._before.items()}
        for step in self.steps[:cut]:
            if step.what != "acknowledge":
                files.setdefault(step.name, _File(None)).do(step)
        for name, file in files.items():
            content = file.cut(left, rng)
            if content is not None:
                (folder / name).write_bytes(content)
        return sum(len(file.pending) for file in files.values())


def _path(name: str | apsw.URIFilename | None) -> str:
    assert name is not None, "a file without a name"
    return name if isinstance(name, str) else name.filename()


class _Vfs(apsw.VFS):
    def __init__(self, tape: Tape) -> None:
        super().__init__(VFS, "unix")
        self._tape = tape

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        is_new = not os.path.exists(_path(name))
        file = _Noted(self._tape, name, flags)
        if is_new:
            self._tape.note("create", _path(name))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._tape.note("delete", filename)
        if syncdir:
            self._tape.note("sync", filename)


class _Noted(apsw.VFSFile):
    def __init__(self, tape: Tape, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._tape = tape
        self._name = _path(name)
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._tape.note("write", self._name, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._tape.note("truncate", self._name, newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._tape.note("sync", self._name)
