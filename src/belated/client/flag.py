"""A feature flag that never raises: the arm of the service, or a default arm while there is none to be had.

flag = Flag("http://localhost:8000", "button", default="blue")
arm = flag.decide("visit-17")
flag.observe("visit-17", reward=1.0)
"""

import atexit
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar
from weakref import WeakSet

import httpx

from belated.api.ids import new_id
from belated.client.breaker import Breaker
from belated.client.client import Client
from belated.client.errors import ServiceError, ServiceUnavailable
from belated.client.outbox import Outbox
from belated.errors import InvalidValue, check_count, check_positive

T = TypeVar("T")

SENDING_SECONDS = 5.0
"""How long the background waits for the receipt of an outcome: no page waits for it."""
REASONS = ("away", "slow", "paused", "archived", "refused", "failed", "not asked")
"""Why a decision was answered by the default arm. `failed`: by an error that is not one of the service."""
_STOPPED = ("paused", "archived")
_OF_ONE_ID = (400, 409, 413, 422)
"""Status of refusals that say nothing about the next id."""
_log = logging.getLogger("belated.client")


@dataclass(frozen=True)
class FlagCounts:
    """What a flag has done since it was made."""

    decided: int
    """Ids that the service decided."""
    fallbacks: Mapping[str, int]
    """Ids that got the default arm: reason -> how many."""
    sent: int
    """Outcomes that the service has taken."""
    waiting: int
    """Outcomes yet to be sent."""
    dropped: int
    """Outcomes that were never sent: the oldest, when too many waited."""
    refused: int
    """Outcomes that the service did not take, such as a second, different one."""
    left_out: int
    """Outcomes of ids that got the default arm: they are not the service's."""


class _Answer(NamedTuple):
    arm: str | int
    is_decided: bool


class _Clients(NamedTuple):
    asks: Any
    """With the patience of a page."""
    sends: Any
    """With that of the background."""


class _Outcome(NamedTuple):
    id: str
    outcome: Mapping[str, Any]


class _Outage(NamedTuple):
    id: str
    fallbacks: int


class Flag:
    """An experiment of the service as a feature flag. `decide` and `observe` never raise. Threads may share a flag.

    - `decide` answers within `timeout` seconds: with the arm of the service, or with the default arm if the service is
      away, slow, refuses, or the experiment is paused or archived. After such a failure it asks nothing for `pause`
      seconds, then by one call at a time, until the service answers again.
    - `observe` returns at once. A thread in the background sends outcomes in their order; what cannot be sent waits.
    - An id keeps its arm as long as it is remembered, whether the service is there or not. Outcomes of ids that got
      the default arm are not sent: the service did not choose it.
    - A process that is forked has connections and a queue of its own, unless the flag was made with a client.

    Parameters
    ----------
    service
        The address of the service, or a client. Give the client `retry_seconds=0`: a request that goes on after
        `timeout` may make a decision that nobody is shown.
    experiment
        Its name.
    default
        The arm to fall back on.
    key
        Of the service, with an address; BELATED_KEY of the environment if none is given.
    timeout
        Seconds that `decide` takes at most.
    pause
        Seconds to leave the service alone after a failure.
    most_waiting
        How many outcomes may wait to be sent; beyond, the oldest is dropped.
    remember
        How many ids, the latest, keep their arm.
    tell
        Whether to tell the service, once it is back, how many ids got the default arm meanwhile.
    """

    def __init__(
        self,
        service: str | Client,
        experiment: str,
        default: str | int,
        *,
        key: str | None = None,
        timeout: float = 0.3,
        pause: float = 5.0,
        most_waiting: int = 10_000,
        remember: int = 10_000,
        tell: bool = False,
    ) -> None:
        self.experiment, self.default = experiment, default
        self._timeout, self._tell = check_positive("timeout", timeout), tell
        self._remembered = check_count("remember", remember)
        self._service, self._key = service, key
        self._lock = threading.Lock()
        self._clients: _Clients | None = self._connect()
        self._breaker = Breaker(check_positive("pause", pause))
        self._outbox = Outbox(self._deliver, check_count("most_waiting", most_waiting), pause)
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._fallbacks = dict.fromkeys(REASONS, 0)
        self._outage = 0
        self._decided = self._sent = self._refused = self._left_out = 0
        self._holds_back = False
        self._warned: set[str] = set()
        atexit.register(self.close)
        _flags.add(self)

    def _connect(self) -> _Clients:
        if not isinstance(self._service, str):
            if self._key is not None:
                raise InvalidValue("key is given besides a client, which has its own; one of them is needed", "key")
            return _Clients(self._service, self._service)
        seconds = max(self._timeout, SENDING_SECONDS)
        return _Clients(
            Client(self._service, self._key, timeout=self._timeout, retry_seconds=0),
            Client(self._service, self._key, timeout=seconds, retry_seconds=0),
        )

    def _connected(self) -> _Clients:
        """Return the clients of this process; they are made when a fork first needs them."""
        with self._lock:
            if self._clients is None:
                self._clients = self._connect()
            return self._clients

    def _start_anew(self) -> None:
        """Leave to the parent what is the parent's: connections, the queue, and locks that its threads may hold."""
        self._lock = threading.Lock()
        self._of_parent, self._clients = self._clients, None  # kept, since to close them would close the parent's
        self._breaker.gave_up()
        self._outbox.start_anew()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, seconds: float = 2.0) -> None:
        """Send what waits, for at most so many seconds; the rest is dropped. This is done when a program ends, too."""
        atexit.unregister(self.close)
        if left := self._outbox.close(seconds):
            _log.warning("flag %r: closed, %d outcomes were not sent", self.experiment, left)
        if isinstance(self._service, str):
            for client in self._clients or ():
                client.close()

    @property
    def counts(self) -> FlagCounts:
        """What it has done until now."""
        waiting, dropped = self._outbox.waiting, self._outbox.dropped
        with self._lock:
            fallbacks = {reason: count for reason, count in self._fallbacks.items() if count}
            return FlagCounts(self._decided, fallbacks, self._sent, waiting, dropped, self._refused, self._left_out)

    def decide(self, id: str) -> str | int:
        """Return the arm for an id: that of the service, or the default arm."""
        if not isinstance(id, str):
            return self._refuse(InvalidValue(f"id is {id!r}; a text is needed", "id"))
        with self._lock:
            if (answer := self._answers.get(id)) is not None:
                self._answers.move_to_end(id)
                return answer.arm
            if not self._breaker.allows():
                return self._fall_back(id, "not asked")
        try:
            arm = _within(self._timeout, lambda: self._connected().asks.decide(self.experiment, id).arm)
        except Exception as error:  # whatever it is: a page waits for an arm
            return self._refuse(error) if _is_of_one_id(error) else self._fail(id, error)
        except BaseException:
            with self._lock:
                self._breaker.gave_up()
            raise
        return self._succeed(id, arm)

    def observe(self, id: str, **outcome: Any) -> None:
        """Send the outcome of an id in the background: `reward=`, `loss=`, or whatever `Client.observe` takes."""
        with self._lock:
            answer = self._answers.get(id) if isinstance(id, str) else None
            if answer is not None and not answer.is_decided:
                self._left_out += 1
                return
        if "value" in outcome:  # its id, so that what is sent twice counts once where values are added up
            outcome.setdefault("report", new_id())
        self._outbox.put(_Outcome(id, outcome))

    def _succeed(self, id: str, arm: str | int) -> str | int:
        with self._lock:
            self._decided += id not in self._answers
            arm = self._remember(id, _Answer(arm, True))
            away, fallbacks = self._breaker.worked(), self._outage
            if away is not None:
                self._outage = 0
        if away is not None:
            _log.warning(
                "flag %r: the service is back after %.1f s, in which %d ids got %r",
                *(self.experiment, away, fallbacks, self.default),
            )
            if self._tell and fallbacks:
                self._outbox.put(_Outage(new_id(), fallbacks))
            self._outbox.wake()
        return arm

    def _fail(self, id: str, error: Exception) -> str | int:
        reason = _reason(error)
        with self._lock:
            begins = self._breaker.failed()
            arm = self._fall_back(id, reason)
        if begins:
            _log.warning("flag %r: falls back to %r (%s): %s", self.experiment, self.default, reason, error)
        return arm

    def _refuse(self, error: Exception) -> str | int:
        """Return the default arm for an id that is none: that says nothing about the service, nor about other ids."""
        with self._lock:
            self._breaker.gave_up()
            self._fallbacks["refused"] += 1
        self._warn_once("id", error)
        return self.default

    def _fall_back(self, id: str, reason: str) -> str | int:
        if id not in self._answers:
            self._fallbacks[reason] += 1
            self._outage += 1
        return self._remember(id, _Answer(self.default, False))

    def _remember(self, id: str, answer: _Answer) -> str | int:
        """Return the arm of an id: this answer, or that of another thread which was quicker."""
        answer = self._answers.setdefault(id, answer)
        if len(self._answers) > self._remembered:
            self._answers.popitem(last=False)
        return answer.arm

    def _deliver(self, item: _Outcome | _Outage) -> bool:
        """Send an outcome, or how many ids got the default arm. Return whether that is done with."""
        try:
            if isinstance(item, _Outcome):
                self._connected().sends.observe(self.experiment, item.id, **item.outcome)
            else:
                self._connected().sends.report_fallbacks(self.experiment, item.fallbacks, arm=self.default, id=item.id)
        except Exception as error:  # the thread must go on
            if _may_pass(error) or (isinstance(item, _Outcome) and _can_be_mended(error)):
                if not self._holds_back:
                    _log.warning("flag %r: outcomes wait (%s): %s", self.experiment, _reason(error), error)
                self._holds_back = True
                return False
            with self._lock:
                self._refused += isinstance(item, _Outcome)
            self._warn_once("outcome" if isinstance(item, _Outcome) else "outage", error)
            return True
        if isinstance(item, _Outcome):
            with self._lock:
                self._sent += 1
        if self._holds_back:
            _log.warning("flag %r: outcomes are sent again", self.experiment)
        self._holds_back = False
        return True

    def _warn_once(self, kind: str, error: Exception) -> None:
        """Log the first id or outcome that is refused. Visitors may send many; `counts` counts them."""
        if kind not in self._warned:
            self._warned.add(kind)
            _log.warning("flag %r: an %s is refused, others are only counted: %s", self.experiment, kind, error)


_flags: WeakSet[Flag] = WeakSet()


def _after_fork() -> None:
    for flag in list(_flags):
        flag._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _within(seconds: float, ask: Callable[[], T]) -> T:
    """Return an answer, or raise TimeoutError if it takes longer. Timeouts of sockets begin anew with every byte."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="belated-flag", daemon=True).start()
    return answer.result(seconds)


def _reason(error: Exception) -> str:
    """Return which of REASONS an error is."""
    if isinstance(error, TimeoutError) or isinstance(error.__cause__, httpx.ReadTimeout):
        return "slow"
    if isinstance(error, ServiceUnavailable):
        return "away"
    if isinstance(error, ServiceError):
        return error.code if error.code in _STOPPED else "refused"
    return "failed"


def _may_pass(error: Exception) -> bool:
    """Return whether the same may be sent again with success when some time has passed."""
    return isinstance(error, ServiceUnavailable | httpx.HTTPError | OSError)


def _can_be_mended(error: Exception) -> bool:
    """Return whether the same may be sent again with success when somebody has done something: given another key."""
    return isinstance(error, ServiceError) and not _is_of_one_id(error)


def _is_of_one_id(error: Exception) -> bool:
    """Return whether an error says nothing about the next id."""
    if not isinstance(error, ServiceError):
        return isinstance(error, InvalidValue)
    return error.code == "unknown_decision" or (error.status in _OF_ONE_ID and error.code not in _STOPPED)
