"""The requests that both clients send, and how their responses are read."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from belated.api.ids import new_id
from belated.api.types import (
    MOST_AT_ONCE,
    Deadline,
    DecisionResponse,
    Experiment,
    ExperimentEstimates,
    Experiments,
    FallbackReceipt,
    LedgerEvent,
    OutcomeReceipt,
    OutcomeScale,
    Problem,
    ShareLimits,
)
from belated.client.errors import ServiceError, ServiceUnavailable
from belated.client.retries import RETRIED
from belated.errors import InvalidValue

T = TypeVar("T")

encode = msgspec.json.encode


class Request(NamedTuple, Generic[T]):
    """A request and the type of its answer; for a stream, of each item, which stands in a line after `prefix`."""

    method: str
    path: str
    reply: type[T]
    body: bytes | None = None
    prefix: bytes = b""


def path(name: str, *rest: str) -> str:
    return "/".join(["/v1/experiments", quote(name, safe=""), *rest])


def create(
    name: str,
    arms: Sequence[str | int] | int,
    learner: str,
    parameters: Mapping[str, float | str] | None,
    seed: int | None,
    missing: str | Deadline,
    share_floor: float,
    outcome: OutcomeScale | Mapping[str, object] | None,
    reports: str,
    limits: ShareLimits | Mapping[str, object] | None,
) -> Request[Experiment]:
    body: dict[str, object] = {
        "name": name,
        "arms": arms if isinstance(arms, int) else list(arms),
        "learner": learner,
        "parameters": dict(parameters or {}),
        "seed": seed,
        "missing": missing,
    }
    # a service from before there were these takes all others
    if share_floor != 0:
        body["share_floor"] = share_floor
    if outcome is not None:
        body["outcome"] = outcome
    if reports != "first":
        body["reports"] = reports
    if limits is not None:
        body["limits"] = limits
    return Request("POST", "/v1/experiments", Experiment, encode(body))


def experiments(status: str) -> Request[Experiments]:
    return Request("GET", f"/v1/experiments?status={quote(status)}", Experiments)


def experiment(name: str, digest: bool) -> Request[Experiment]:
    return Request("GET", path(name) + ("?digest=true" if digest else ""), Experiment)


def estimates(
    name: str, control: str | int | None, alpha: float, method: str | None, outcomes: str
) -> Request[ExperimentEstimates]:
    query = {"alpha": f"{alpha:.15f}".rstrip("0"), "method": method or "auto", "outcomes": outcomes}
    if control is not None:
        query["control"] = str(control)
    return Request("GET", path(name, f"estimates?{urlencode(query)}"), ExperimentEstimates)


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
    """Return an outcome as JSON can hold it: numbers of numpy can be, nan and infinity cannot."""
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        needed = "a number" if name == "value" else "a number from 0 to 1"
        raise InvalidValue(f"{name} is {value!r}; {needed} is needed", name)
    return number


def add_arm(name: str, arm: str | int) -> Request[Experiment]:
    return Request("POST", path(name, "arms"), Experiment, encode({"arm": arm}))


def move_arm(name: str, arm: str | int, word: str) -> Request[Experiment]:
    label = quote(str(arm), safe="")
    if label in (".", ".."):  # which would lead elsewhere
        label = label.replace(".", "%2E")
    return Request("POST", path(name, "arms", label, word), Experiment)


def set_limits(name: str, limits: ShareLimits | Mapping[str, object] | None) -> Request[Experiment]:
    return Request("PUT", path(name, "limits"), Experiment, encode({} if limits is None else limits))


def report_fallbacks(name: str, count: int, arm: str | int, id: str | None) -> Request[FallbackReceipt]:
    body = {"id": new_id() if id is None else id, "arm": arm, "count": count}
    return Request("POST", path(name, "fallbacks"), FallbackReceipt, encode(body))


def observe(
    name: str,
    decision: DecisionResponse | str,
    loss: float | None,
    reward: float | None,
    value: float | None = None,
    report: str | None = None,
    final: bool | None = None,
) -> Request[OutcomeReceipt]:
    body: dict[str, object] = {"decision": decision if isinstance(decision, str) else decision.id}
    if value is not None and report is None:
        report = new_id()  # sent again with the request, where that is sent again
    outcome = {"loss": share("loss", loss), "reward": share("reward", reward), "value": share("value", value)}
    body |= {**outcome, "report": report, "final": final}
    return Request("POST", path(name, "outcomes"), OutcomeReceipt, encode(_given(body)))


def _given(body: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are given: a service from before there were the others takes these."""
    return {field: value for field, value in body.items() if value is not None}


def observe_many(
    name: str,
    losses: Mapping[str, float] | None,
    rewards: Mapping[str, float] | None,
    values: Mapping[str, float] | None = None,
) -> Iterator[Request[list[OutcomeReceipt]]]:
    given = {"loss": losses, "reward": rewards, "value": values}
    outcomes = [
        {"decision": id, word: share(word, number)} | ({"report": new_id()} if word == "value" else {})
        for word, numbers in given.items()
        for id, number in (numbers or {}).items()
    ]
    for at in range(0, len(outcomes), MOST_AT_ONCE):
        body = encode(outcomes[at : at + MOST_AT_ONCE])
        yield Request("POST", path(name, "outcomes"), list[OutcomeReceipt], body)


def ledger(name: str, after: int) -> Request[LedgerEvent]:
    return Request("GET", path(name, f"ledger?after={after}"), LedgerEvent)


def watch(name: str) -> Request[Experiment]:
    return Request("GET", path(name, "stream"), Experiment, prefix=b"data:")


def answer(response: httpx.Response, request: Request[T]) -> T:
    """Return the answer in a response, or raise `ServiceError`."""
    check(response)
    return _decode(response.content, request.reply)


def _decode(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ServiceError(200, "unreadable", f"the answer is not one of this service: {error}") from error


def check(response: httpx.Response) -> None:
    """Raise `ServiceError` if a request was refused."""
    if response.is_success:
        return
    status = response.status_code
    kind = ServiceUnavailable if status in RETRIED else ServiceError
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        raise kind(status, "unreadable", f"the answer has status {status} and no reason") from None
    raise kind(status, problem.code, problem.message, problem.field)


class Items(Generic[T]):
    """The items of a stream, which comes in pieces."""

    def __init__(self, request: Request[T]) -> None:
        self._request = request
        self._rest = b""

    def of(self, piece: bytes) -> list[T]:
        """Return the items that a piece completes. Lines without the prefix hold none."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        prefix, kind = self._request.prefix, self._request.reply
        return [_decode(line[len(prefix) :], kind) for line in lines if line.startswith(prefix)]
