"""A disk that fails on demand: SQLite's own code runs on it, down to the system calls.

A VFS written in Python would show its exceptions even where SQLite passes over a failure, as after a checkpoint.
`Disk.installed()` puts itself below instead, for the whole process: between SQLite's unix VFS and the system calls. The
one thing that this VFS cannot be told to do otherwise, syncing, is replaced in the files of each connection.
"""

import ctypes
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw

SYNC = "sync"
WRITE = "pwrite64"

_INT, _SIZE, _OFFSET, _TEXT, _POINTER = (
    ctypes.c_int,
    ctypes.c_size_t,
    ctypes.c_int64,
    ctypes.c_char_p,
    ctypes.c_void_p,
)
_CALLS: dict[str, tuple[Any, ...]] = {
    "open": (_INT, _TEXT, _INT, _INT),
    "fstat": (_INT, _INT, _POINTER),
    "ftruncate": (_INT, _INT, _OFFSET),
    "pread64": (ctypes.c_ssize_t, _INT, _POINTER, _SIZE, _OFFSET),
    WRITE: (ctypes.c_ssize_t, _INT, _POINTER, _SIZE, _OFFSET),
    "mmap": (ctypes.c_ssize_t, _POINTER, _SIZE, _INT, _INT, _INT, _OFFSET),
    "unlink": (_INT, _TEXT),
}
"""What each system call returns and takes. mmap is how SQLite's writers and readers share memory (xShmMap)."""
_SYNC = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)
_SYNC_AT, _METHODS = 5, 19
"""Where xSync stands in SQLite's table of a file's methods (sqlite3_io_methods, version 3), and how long that is."""
_KEPT: list[Any] = []
"""What SQLite has a pointer to, for as long as there are connections: for ever."""
EVERY = frozenset({*_CALLS, SYNC})
CHANGES = frozenset({"ftruncate", WRITE, "unlink", SYNC})
"""What goes wrong on a disk that can only be read."""


@dataclass
class Fault:
    """At the operation of this number, counted from 1, and after it if it lasts."""

    at: int
    lasts: bool = False
    kinds: frozenset[str] = EVERY
    """Operations of other kinds are neither counted nor harmed."""
    done: bool = False
    """Whether what changes the disk, writing apart, is done all the same, and only reported as failed."""
    number: int = errno.EIO


class Disk:
    """Counts what SQLite does, and lets some of it fail."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.quota: int | None = None
        """Bytes that a file can have; a write beyond them is cut short, and then the disk is full."""
        self.operations = 0
        self.failures = 0
        self.harmed: set[str] = set()
        """Kinds of operations that have failed."""

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Let the disk fail; count from here."""
        self.operations = self.failures = 0
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    def fails(self, kind: str) -> Fault | None:
        """Count an operation: what is wrong with it, if it fails."""
        fault = self.fault
        if fault is None or kind not in fault.kinds:
            return None
        self.operations += 1
        if self.operations == fault.at or (fault.lasts and self.operations > fault.at):
            self.failures += 1
            self.harmed.add(kind)
            return fault
        return None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Between SQLite and the system. Connections should be closed again at the end."""
        unix = apsw.VFS("a way to the system calls", "unix")
        try:
            for name in _CALLS:
                self._replace(unix, name)
            yield
        finally:
            unix.xSetSystemCall(None, 0)
            unix.unregister()

    def watch(self, connection: apsw.Connection) -> None:
        """Have the syncs of a connection counted, in its database and its write-ahead log."""
        for which in (apsw.SQLITE_FCNTL_FILE_POINTER, apsw.SQLITE_FCNTL_JOURNAL_POINTER):
            file = ctypes.c_void_p()
            assert connection.file_control("main", which, ctypes.addressof(file))
            assert file.value is not None
            place = _POINTER.from_address(file.value)  # a file begins with a pointer to its methods
            assert place.value is not None, "the file is not open"
            methods = (_POINTER * _METHODS).from_buffer_copy((_POINTER * _METHODS).from_address(place.value))
            real = methods[_SYNC_AT]
            assert real is not None
            methods[_SYNC_AT] = self._sync(_SYNC(real))
            _KEPT.append(methods)
            place.value = ctypes.addressof(methods)

    def _sync(self, real: Callable[..., int]) -> int | None:
        def sync(file: int, flags: int) -> int:
            fault = self.fails(SYNC)
            if fault is None:
                return real(file, flags)
            if fault.done:
                real(file, flags)
            return int(apsw.SQLITE_IOERR_FSYNC)

        replaced = _SYNC(sync)
        _KEPT.append(replaced)
        return ctypes.cast(replaced, _POINTER).value

    def _replace(self, vfs: apsw.VFS, name: str) -> None:
        prototype = ctypes.CFUNCTYPE(*_CALLS[name], use_errno=True)
        pointer = vfs.xGetSystemCall(name)
        assert pointer is not None
        real: Callable[..., int] = prototype(pointer)

        def call(*given: Any) -> int:
            fault = self.fails(name)
            if fault is None:
                return self._write(real, *given) if name == WRITE else real(*given)
            if fault.done and name in CHANGES - {WRITE}:
                real(*given)
            ctypes.set_errno(fault.number)
            return -1

        replaced = prototype(call)
        _KEPT.append(replaced)
        address = ctypes.cast(replaced, ctypes.c_void_p).value
        assert address is not None
        assert vfs.xSetSystemCall(name, address)

    def _write(self, real: Callable[..., int], file: int, data: int, size: int, offset: int) -> int:
        if self.quota is not None and offset + size > self.quota:
            size = self.quota - offset
            if size <= 0:
                self.failures += 1
                ctypes.set_errno(errno.ENOSPC)
                return -1
        return real(file, data, size, offset)
