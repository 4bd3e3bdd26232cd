"""What both clients share: requests, answers, and when to ask again."""

import math
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from belated.api.ids import new_id
from belated.api.types import (
    MOST_AT_ONCE,
    Deadline,
    DecisionResponse,
    Experiment,
    Experiments,
    LedgerEvent,
    OutcomeReceipt,
    Problem,
    Summary,
)
from belated.errors import BelatedError

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
PATIENCE_SECONDS = 60.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_AGAIN = (502, 503, 504)
encode = msgspec.json.encode
_LINE = b"\n"


class ServiceError(BelatedError):
    """The service refused: `code` for programs, the sentence for people, the field that is wrong."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.field = field


class ServiceUnavailable(ServiceError):
    """The service could not be reached, or could not commit, for as long as the client's patience lasted."""


class Request(NamedTuple, Generic[T]):
    """A request and the type of its answer."""

    method: str
    path: str
    reply: type[T]
    body: bytes | None = None


def key_or_environment(key: str | None) -> str:
    key = key or os.environ.get("BELATED_KEY")
    if not key:
        raise ValueError("no key is given, and BELATED_KEY is not set; `belated keys create` makes keys")
    return key


def headers(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key_or_environment(key)}", "Content-Type": "application/json"}


def path(name: str, *rest: str) -> str:
    return "/".join(["/v1/experiments", quote(name, safe=""), *rest])


def create(
    name: str,
    arms: Sequence[str | int] | int,
    learner: str,
    parameters: Mapping[str, float | str] | None,
    seed: int | None,
    missing: str | Deadline,
) -> Request[Experiment]:
    body = {
        "name": name,
        "arms": arms if isinstance(arms, int) else list(arms),
        "learner": learner,
        "parameters": dict(parameters or {}),
        "seed": seed,
        "missing": missing,
    }
    return Request("POST", "/v1/experiments", Experiment, encode(body))


def experiments(status: str) -> Request[Experiments]:
    return Request("GET", f"/v1/experiments?status={quote(status)}", Experiments)


def experiment(name: str, digest: bool) -> Request[Experiment]:
    return Request("GET", path(name) + ("?digest=true" if digest else ""), Experiment)


def change(name: str, word: str) -> Request[Experiment]:
    return Request("POST", path(name, word), Experiment)


def decide(name: str, id: str | None) -> Request[DecisionResponse]:
    return Request("POST", path(name, "decisions"), DecisionResponse, encode({"id": new_id() if id is None else id}))


def decide_many(name: str, ids: Iterable[str] | int) -> Iterator[Request[list[DecisionResponse]]]:
    named = [new_id() for _ in range(ids)] if isinstance(ids, int) else list(ids)
    for at in range(0, len(named), MOST_AT_ONCE):
        body = encode([{"id": id} for id in named[at : at + MOST_AT_ONCE]])
        yield Request("POST", path(name, "decisions"), list[DecisionResponse], body)


def share(name: str, value: float | None) -> float | None:
    """A loss or a reward as JSON can hold it: a number of numpy is one as well, nan is none."""
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; a number from 0 to 1 is needed")
    return number


def observe(
    name: str, decision: DecisionResponse | str, loss: float | None, reward: float | None
) -> Request[OutcomeReceipt]:
    id = decision if isinstance(decision, str) else decision.id
    body = {"decision": id, "loss": share("loss", loss), "reward": share("reward", reward)}
    return Request("POST", path(name, "outcomes"), OutcomeReceipt, encode(body))


def observe_many(
    name: str, losses: Mapping[str, float] | None, rewards: Mapping[str, float] | None
) -> Iterator[Request[list[OutcomeReceipt]]]:
    outcomes = [{"decision": id, "loss": share("loss", loss)} for id, loss in (losses or {}).items()]
    outcomes += [{"decision": id, "reward": share("reward", reward)} for id, reward in (rewards or {}).items()]
    for at in range(0, len(outcomes), MOST_AT_ONCE):
        body = encode(outcomes[at : at + MOST_AT_ONCE])
        yield Request("POST", path(name, "outcomes"), list[OutcomeReceipt], body)


def summaries(answer: Experiments) -> list[Summary]:
    return answer.experiments


class Patience:
    """When to ask again: soon at first, then less and less often, until patience ends."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def after(self, failure: httpx.TransportError | httpx.Response) -> float:
        """How long to wait after a failure before asking again; raises where that would be too late."""
        pause = self._pause * random.uniform(0.5, 1.0)
        if isinstance(failure, httpx.Response):
            wanted = failure.headers.get("retry-after", "")
            pause = max(pause, min(float(wanted), _LONGEST_PAUSE) if wanted.isdigit() else 0.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if time.monotonic() + pause > self._until:
            if isinstance(failure, httpx.Response):
                raise refused(failure)
            raise ServiceUnavailable(503, "unreachable", f"the service does not answer: {failure!r}") from failure
        return pause


def answered(response: httpx.Response, kind: type[T]) -> T | None:
    """The answer; None where the request should be sent again."""
    if response.status_code in _AGAIN:
        return None
    if response.status_code >= 300:
        raise refused(response)
    return msgspec.json.decode(response.content, type=kind)


def refused(response: httpx.Response) -> ServiceError:
    kind = ServiceUnavailable if response.status_code in _AGAIN else ServiceError
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        return kind(response.status_code, "unreadable", f"the answer has status {response.status_code} and no reason")
    return kind(response.status_code, problem.code, problem.message, problem.field)


class Lines:
    """Bytes that come in pieces, as lines."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, piece: bytes) -> list[bytes]:
        """The lines that a piece completes."""
        *lines, self._rest = (self._rest + piece).split(_LINE)
        return lines


def event_in(line: bytes) -> LedgerEvent:
    return msgspec.json.decode(line, type=LedgerEvent)


def states_in(line: bytes) -> list[Experiment]:
    """The state in a line of server-sent events, if there is one."""
    return [msgspec.json.decode(line[6:], type=Experiment)] if line.startswith(b"data: ") else []


def options(timeout: float, transport: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"timeout": timeout}
    if transport is not None:
        found["transport"] = transport
    return found
