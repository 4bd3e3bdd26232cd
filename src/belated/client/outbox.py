"""A queue of things to send, and the thread that sends them in the background."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """Sends items one after the other, in their order. What cannot be sent now waits, and is tried again.

    The thread starts with the first item. It is a daemon: no program waits for it but by `close`.
    """

    def __init__(self, deliver: Callable[[T], bool], most: int, pause: float) -> None:
        """Take what delivers an item (False: keep it), how many may wait, and the seconds between failed attempts."""
        self._deliver, self._most, self._pause = deliver, most, pause
        self._closes = False
        self._dropped = 0
        self.start_anew()

    def start_anew(self) -> None:
        """Forget what waits, in a process that was forked: the thread of the parent sends it."""
        self._items: deque[T] = deque()
        self._in_hand = 0
        self._not_before = 0.0
        self._wakes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many items are not sent yet."""
        with self._changed:
            return len(self._items) + self._in_hand

    @property
    def dropped(self) -> int:
        """How many items were never sent: the oldest, when more than `most` waited, and those left at the end."""
        with self._changed:
            return self._dropped

    def put(self, item: T) -> None:
        """Add an item to be sent. If there are too many, the oldest is dropped."""
        with self._changed:
            if self._closes:
                self._dropped += 1
                return
            self._items.append(item)
            self._trim()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="belated-outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wake(self) -> None:
        """Try again at once, whatever failed before, or fails that is under way."""
        with self._changed:
            self._not_before = 0.0
            self._wakes += 1
            self._changed.notify_all()

    def close(self, seconds: float) -> int:
        """Send what waits, until one fails or the time is over. Return how many items are dropped."""
        with self._changed:
            self._closes = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        with self._changed:
            left = len(self._items) + self._in_hand
            self._dropped += left
            self._items.clear()
            self._in_hand = 0
            return left

    def _trim(self) -> None:
        while len(self._items) > self._most:
            self._items.popleft()
            self._dropped += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_due():
                    if self._closes:
                        return
                    self._changed.wait(self._not_before - time.monotonic() if self._items else None)
                item = self._items.popleft()
                self._in_hand = 1
                wakes = self._wakes
            is_done = self._deliver(item)
            with self._changed:
                if is_done:
                    self._in_hand = 0
                    continue
                if self._closes:
                    return  # still in hand: `close` counts it
                self._in_hand = 0
                self._items.appendleft(item)
                self._trim()
                if wakes == self._wakes:
                    self._not_before = time.monotonic() + self._pause

    def _is_due(self) -> bool:
        return bool(self._items) and (self._closes or time.monotonic() >= self._not_before)
