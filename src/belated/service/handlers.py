"""What is done at each path."""

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from belated import __version__, learners
from belated.api.types import (
    MOST_SEED,
    Deadline,
    Experiments,
    FallbackReceipt,
    Fallbacks,
    Health,
    NewArm,
    NewExperiment,
    OutcomeReceipt,
    OutcomeReport,
    ShareLimits,
)
from belated.errors import InvalidValue
from belated.inference.method import Options
from belated.ledger.base import ExperimentExists, Ledger, LedgerError, LedgerUnavailable, TooManyExperiments
from belated.ledger.changing import AddArm, MoveArm, ReportFallbacks, SetLimits
from belated.ledger.commands import Change, Command, Decide
from belated.ledger.events import SECOND, ExperimentRecord, ExperimentSettings, Status
from belated.ledger.export import FORMATS, pieces
from belated.ledger.observing import Observe, Report
from belated.ledger.state import ExperimentState
from belated.live.labels import arm_labels
from belated.service import metrics, streams, views
from belated.service.errors import ApiError
from belated.service.http import Asked, Request, Response, encode
from belated.service.reading import Shown
from belated.service.streams import Ended, is_over
from belated.service.validation import below
from belated.service.views import unwrap

if TYPE_CHECKING:
    from belated.service.service import Service

METRICS_SECONDS = 2.0
"""How long /metrics waits for the figures of experiments; those that are not there by then are left out."""
MOST_SAID = 500
LOOK_SECONDS = 0.5
"""A live view hears of changes at most this often."""


async def decide(request: Request) -> Response:
    return await _run(request, decision(request.name, request.body, request.key.number))


async def observe(request: Request) -> Response:
    return await _run(request, outcome(request.name, request.body, request.key.number))


async def _run(request: Request, asked: Asked) -> Response:
    return asked.respond(request.service, await request.service.run(asked.command, asked.size, asked.finish))


def decision(name: str, body: Any, key: int | None) -> Asked:
    """Return what a request for a decision, or for a list of them, asks for."""
    if isinstance(body, list):
        return Asked(Decide(name, [each.id for each in body], key=key), len(body), _encoded, _as_it_is)
    return Asked(Decide(name, (body.id,), key=key), 1, _first_encoded, _as_it_is)


def outcome(name: str, body: Any, key: int | None) -> Asked:
    """Return what a report of an outcome, or of a list of them, asks for."""
    outcomes = body if isinstance(body, list) else [body]
    reports = [
        Report(each.decision, _loss(body, k, each), each.value, each.report, each.final)
        for k, each in enumerate(outcomes)
    ]
    return Asked(Observe(name, reports, key=key), len(outcomes), unwrap, _receipts if outcomes is body else _receipt)


def _as_it_is(service: "Service", answer: bytes) -> Response:
    return Response(answer)


def _receipts(service: "Service", receipts: list[OutcomeReceipt]) -> Response:
    for receipt in receipts:
        if receipt.receipt in ("repeated", "conflict", "unknown", "refused"):
            service.counters.add(receipt.receipt)
    return Response(encode(receipts))


def _receipt(service: "Service", receipts: list[OutcomeReceipt]) -> Response:
    _receipts(service, receipts)
    (receipt,) = receipts
    if receipt.receipt == "conflict":
        raise ApiError("conflict", str(receipt.message), receipt.field or "loss")
    if receipt.receipt == "unknown":
        raise ApiError("unknown_decision", str(receipt.message), "decision")
    if receipt.receipt == "refused":
        raise ApiError("invalid", str(receipt.message), str(receipt.field))
    return Response(encode(receipt))


def _loss(body: Any, k: int, report: OutcomeReport) -> float | None:
    try:
        return report.as_loss
    except InvalidValue as error:
        place = f"[{k}]." if isinstance(body, list) else ""
        raise ApiError("invalid", str(error), f"{place}{error.field}") from None


def _encoded(answer: Any) -> bytes:
    return encode(unwrap(answer))


def _first_encoded(answer: Any) -> bytes:
    return encode(unwrap(answer)[0])


async def create(request: Request) -> Response:
    body: NewExperiment = request.body
    request.key.check_scope(body.name)
    service = request.service
    await service.read(_check_learner, body)
    await service.warm(body.learner)  # a learner that nobody has used yet is compiled first, by another process
    settings = await service.read(_settings, body)
    try:
        record, is_new = await service.read(
            service.ledger.create, settings, int(time.time() * SECOND), service.limits.experiments
        )
        if not is_new and body.seed not in (None, record.settings.seed):
            raise ExperimentExists(f"there is an experiment {body.name!r} with seed {record.settings.seed}")
    except ExperimentExists as error:
        raise ApiError("exists", str(error), "name") from None
    except TooManyExperiments as error:
        raise ApiError("too_many", str(error)) from None
    if isinstance(settings.missing, Deadline):
        service.has_deadline(body.name)
    shown = await service.show(body.name)
    return Response(shown.content, 201 if is_new else 200)


def _check_learner(body: NewExperiment) -> None:
    """Refuse a learner, or parameters of it, that there cannot be here."""
    for field, value in body.parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            place = below("parameters", field)
            raise ApiError("invalid", f"{place} is {value}; a number is needed", place)
    try:
        tuned = learners.tune(body.learner, **body.parameters)
    except (ValueError, TypeError) as error:
        raise ApiError("invalid", str(error)[:MOST_SAID], _field_of(error)) from None
    if tuned.share_floor or "share_floor" in body.parameters:
        message = "share_floor is not a parameter of the learner here; it is a field of the experiment"
        raise ApiError("invalid", message, below("parameters", "share_floor"))
    if "delay" in tuned.learner.needs:
        message = (
            f"learner {body.learner!r} must know the delay of each decision when it is made, which nobody does here"
        )
        raise ApiError("invalid", message, "learner")


def _settings(body: NewExperiment) -> ExperimentSettings:
    """Return what an experiment will be, all defaults filled in; refused where no bandit could be made of it."""
    arms: list[str | int] = list(range(body.arms)) if isinstance(body.arms, int) else body.arms
    seed = secrets.randbelow(MOST_SEED + 1) if body.seed is None else body.seed
    floor = body.share_floor or None
    limits = body.limits if body.limits is not None and (body.limits.arms or body.limits.holdout) else None
    settings = ExperimentSettings(
        body.name,
        arms,
        body.learner,
        body.parameters,
        seed,
        body.missing,
        floor,
        body.outcome,
        body.reports,
        limits,
    )
    try:
        arm_labels(arms)
        ExperimentState(settings)
    except (ValueError, TypeError) as error:
        raise ApiError("invalid", str(error)[:MOST_SAID], _field_of(error, settings)) from None
    return settings


def _field_of(error: Exception, settings: ExperimentSettings | None = None) -> str:
    """Return the field of the request that a bandit's error is about."""
    field = getattr(error, "field", None)
    if field in ("lowest", "highest", "better", "beyond"):
        return below("outcome", str(field))
    if field in ("shares", "holdout"):
        return below("limits", "arms" if field == "shares" else "holdout")
    if field in ("arms", "learner", "seed", "share_floor"):
        return str(field)
    return below("parameters", str(field)) if field else "parameters"


async def list_experiments(request: Request) -> Response:
    return Response(await request.service.read(_listed, request))


def _listed(request: Request) -> bytes:
    wanted = request.query["status"]
    opens = request.key.opens
    shown = [views.summary(each) for each in request.service.ledger.all_outlines() if opens(each.name)]
    return encode(Experiments([each for each in shown if wanted in ("all", each.status)]))


async def read(request: Request) -> Response:
    shown = await request.service.show(request.name, request.query["digest"] == "true")
    return Response(shown.content)


async def timeline(request: Request) -> Response:
    return Response(await request.service.timeline(request.name))


async def estimates(request: Request) -> Response:
    query = request.query
    method = None if query["method"] == "auto" else query["method"]
    options = Options(float(query["alpha"]), query["control"] or None, method, query["outcomes"])
    return Response(await request.service.estimates(request.name, options))


async def pause(request: Request) -> Response:
    return await _change(request, Status.PAUSED)


async def resume(request: Request) -> Response:
    return await _change(request, Status.ACTIVE)


async def archive(request: Request) -> Response:
    return await _change(request, Status.ARCHIVED)


async def _change(request: Request, status: Status) -> Response:
    return await _shown(request, Change(request.name, status, key=request.key.number))


async def _shown(request: Request, command: Command) -> Response:
    """Carry a command out and return the experiment after it."""
    await request.service.run(command, 1, _unwrapped)
    return Response((await request.service.show(request.name)).content)


async def add_arm(request: Request) -> Response:
    body: NewArm = request.body
    return await _shown(request, AddArm(request.name, body.arm, key=request.key.number))


async def retire_arm(request: Request) -> Response:
    return await _shown(request, MoveArm(request.name, request.arm, True, key=request.key.number))


async def restore_arm(request: Request) -> Response:
    return await _shown(request, MoveArm(request.name, request.arm, False, key=request.key.number))


async def set_limits(request: Request) -> Response:
    body: ShareLimits = request.body
    return await _shown(request, SetLimits(request.name, body, key=request.key.number))


async def report_fallbacks(request: Request) -> Response:
    body: Fallbacks = request.body
    command = ReportFallbacks(request.name, body.id, body.arm, body.count, key=request.key.number)
    counted = await request.service.run(command, 1, unwrap)
    return Response(encode(FallbackReceipt(body.id, "counted" if counted else "repeated")))


def _unwrapped(answer: Any) -> None:
    unwrap(answer)


async def ledger(request: Request) -> Response:
    service = request.service
    record = await service.read(record_of, service.ledger, request.name)
    chosen = request.query["format"]
    iterator = pieces(service.ledger, record, chosen, int(request.query["after"]))
    try:
        first = await service.read_slowly(next, iterator, b"")
    except ImportError as error:
        raise ApiError("no_parquet", str(error), "format") from None

    async def parts() -> AsyncGenerator[bytes, None]:
        yield first
        while part := await service.read_slowly(next, iterator, b""):
            if service.stopping.is_set():
                raise LedgerUnavailable("the worker is stopping")
            yield part

    name = f'attachment; filename="{record.settings.name}.{chosen}"'
    return Response(parts(), kind=FORMATS[chosen].encode(), headers={b"content-disposition": name.encode()})


def record_of(ledger: Ledger, name: str) -> ExperimentRecord:
    """Return an experiment as its ledger lists it; refuse a name that there is not."""
    try:
        record = ledger.find(name)
    except LedgerError as error:
        raise ApiError("damaged", f"{error}; `belated ledger verify {name}` says more") from None
    if record is None:
        raise ApiError("unknown_experiment", f"there is no experiment {name!r}", "name")
    return record


async def stream(request: Request) -> Response:
    service, first = request.service, await request.service.show(request.name)

    async def messages(ended: Ended) -> AsyncGenerator[bytes, None]:
        shown, said = first, time.monotonic()
        yield _event(shown)
        while not is_over(ended):
            await asyncio.wait(ended, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            try:
                latest = await service.show(request.name)
            except (LedgerUnavailable, ApiError):
                latest = shown
            if (latest.events, latest.status) != (shown.events, shown.status):
                shown, said = latest, time.monotonic()
                yield _event(shown)
            elif time.monotonic() - said > streams.BEAT_SECONDS:
                said = time.monotonic()
                yield b": nothing new\n\n"

    return streams.stream(service, request.receive, request.key, {b"cache-control": b"no-store"}, messages)


def _event(shown: Shown) -> bytes:
    return b"event: state\nid: %d\ndata: %s\n\n" % (shown.events, shown.content)


async def health(request: Request) -> Response:
    return Response(encode(Health("ok", __version__)))


async def ready(request: Request) -> Response:
    readiness = request.service.readiness
    reason = "this worker is stopping" if request.service.stopping.is_set() else readiness.check()
    health = Health("unavailable" if reason else "ok", __version__, reason, readiness.warnings)
    return Response(encode(health), 503 if reason else 200)


async def show_metrics(request: Request) -> Response:
    service = request.service
    positions = await service.read(service.ledger.positions)
    give_up = time.monotonic() + METRICS_SECONDS
    shown = []
    for each in positions:
        if each.status != Status.ARCHIVED and request.key.opens(each.name):
            with suppress(TimeoutError):  # what workers say is shown all the same
                shown.append(await asyncio.wait_for(service.figures(each), max(0.01, give_up - time.monotonic())))
    service.count_damaged()
    counters = [] if request.key.is_scoped else service.all_counters  # workers serve all experiments
    text = await service.read(metrics.text, [each for each in shown if each], counters, service.routes)
    return Response(text, kind=metrics.KIND)


async def openapi(request: Request) -> Response:
    return Response(request.service.document)


async def docs(request: Request) -> Response:
    return Response(request.service.page, kind=b"text/html; charset=utf-8")
