"""A progress bar on standard error, where somebody is looking at one."""

import shutil
import sys
import time
from typing import TextIO


class Progress:
    """Counts work done towards a total; draws at most ten times a second, and only on a terminal."""

    WIDTH = 30

    def __init__(self, total: int, label: str, shown: bool | None = None, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.total = max(total, 1)
        self.label = label
        self.shown = self.stream.isatty() if shown is None else shown
        self.begun = time.monotonic()
        self.drawn = 0.0
        self.longest = 0

    def at(self, done: int) -> None:
        """Show that so much is done."""
        now = time.monotonic()
        if self.shown and now - self.drawn >= 0.1:
            self.drawn = now
            self._draw(min(done / self.total, 1.0), now - self.begun)

    def _draw(self, share: float, seconds: float) -> None:
        columns = shutil.get_terminal_size().columns
        filled = round(share * self.WIDTH)
        left = f"{seconds * (1.0 - share) / share:.0f} s left" if share > 0.0 else "starting"
        bar = f" [{'█' * filled}{'·' * (self.WIDTH - filled)}] {share:4.0%}  {left}"
        room = max(columns - len(bar) - 1, 0)
        label = self.label if len(self.label) <= room else self.label[: max(room - 1, 0)] + "…"
        self._write((label + bar)[: columns - 1])

    def _write(self, line: str) -> None:
        self.stream.write("\r" + line.ljust(self.longest))
        self.stream.flush()
        self.longest = len(line)

    def close(self) -> None:
        """Take the bar away."""
        if self.shown and self.longest:
            self._write("")
            self.stream.write("\r")
            self.stream.flush()
