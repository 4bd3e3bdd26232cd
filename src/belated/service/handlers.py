"""What is done at each path."""

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Any

from belated import __version__, learners
from belated.api.types import MOST_SEED, Deadline, Experiments, Health, NewExperiment, OutcomeReport
from belated.errors import InvalidValue
from belated.ledger.base import ExperimentExists, LedgerUnavailable, TooManyExperiments
from belated.ledger.commands import Change, Decide, Observe, Read
from belated.ledger.events import SECOND, ExperimentRecord, ExperimentSettings, Status
from belated.ledger.export import FORMATS, pieces
from belated.live.bandit import Bandit
from belated.service import metrics, views
from belated.service.errors import ApiError
from belated.service.http import Request, Response, encode
from belated.service.validation import below
from belated.service.views import unwrap

METRICS_SECONDS = 2.0
"""How long /metrics waits for the figures of experiments; those that are not there by then are left out."""
MOST_SAID = 500
BEAT_SECONDS = 15.0
"""A live view hears something at least this often."""
LOOK_SECONDS = 0.5
"""A live view hears of changes at most this often."""


async def decide(request: Request) -> Response:
    body, key = request.body, request.key.number
    if isinstance(body, list):
        command = Decide(request.name, [each.id for each in body], key=key)
        return Response(await request.service.run(command, len(body), _encoded))
    return Response(await request.service.run(Decide(request.name, (body.id,), key=key), 1, _first_encoded))


async def observe(request: Request) -> Response:
    body = request.body
    outcomes = body if isinstance(body, list) else [body]
    losses = [(each.decision, _loss(body, k, each)) for k, each in enumerate(outcomes)]
    command = Observe(request.name, losses, key=request.key.number)
    receipts = await request.service.run(command, len(outcomes), unwrap)
    for receipt in receipts:
        if receipt.receipt in ("repeated", "conflict", "unknown"):
            request.service.counters.add(receipt.receipt)
    if isinstance(body, list):
        return Response(encode(receipts))
    (receipt,) = receipts
    if receipt.receipt == "conflict":
        raise ApiError("conflict", receipt.message, "loss")
    if receipt.receipt == "unknown":
        raise ApiError("unknown_decision", receipt.message, "decision")
    return Response(encode(receipt))


def _loss(body: Any, k: int, report: OutcomeReport) -> float:
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
    shown = await service.run(Read(body.name), 0, views.experiment)
    return Response(encode(shown), 201 if is_new else 200)


def _settings(body: NewExperiment) -> ExperimentSettings:
    """Return what an experiment will be, all defaults filled in; refused where no bandit could be made of it."""
    for field, value in body.parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            place = below("parameters", field)
            raise ApiError("invalid", f"{place} is {value}; a number is needed", place)
    arms: list[str | int] = list(range(body.arms)) if isinstance(body.arms, int) else body.arms
    seed = secrets.randbelow(MOST_SEED + 1) if body.seed is None else body.seed
    settings = ExperimentSettings(body.name, arms, body.learner, body.parameters, seed, body.missing)
    try:
        needs = learners.tune(body.learner, **body.parameters).learner.needs
        Bandit(arms, body.learner, seed=seed, **body.parameters)
    except (ValueError, TypeError) as error:
        raise ApiError("invalid", str(error)[:MOST_SAID], _field_of(error)) from None
    if "delay" in needs:
        message = (
            f"learner {body.learner!r} must know the delay of each decision when it is made, which nobody does here"
        )
        raise ApiError("invalid", message, "learner")
    return settings


def _field_of(error: Exception) -> str:
    """Return the field of the request that a bandit's error is about."""
    field = getattr(error, "field", None)
    if field in ("arms", "learner", "seed"):
        return str(field)
    return below("parameters", str(field)) if field else "parameters"


async def list_experiments(request: Request) -> Response:
    records = await request.service.read(request.service.ledger.experiments)
    wanted = request.query["status"]
    shown = [views.summary(record) for record in records if request.key.opens(record.settings.name)]
    return Response(encode(Experiments([each for each in shown if wanted in ("all", each.status)])))


async def read(request: Request) -> Response:
    view = views.experiment_with_digest if request.query["digest"] == "true" else views.experiment
    return Response(encode(await request.service.run(Read(request.name), 0, view)))


async def pause(request: Request) -> Response:
    return await _change(request, Status.PAUSED)


async def resume(request: Request) -> Response:
    return await _change(request, Status.ACTIVE)


async def archive(request: Request) -> Response:
    return await _change(request, Status.ARCHIVED)


async def _change(request: Request, status: Status) -> Response:
    command = Change(request.name, status, key=request.key.number)
    return Response(encode(await request.service.run(command, 1, views.experiment)))


async def ledger(request: Request) -> Response:
    service = request.service
    record = await service.read(_record, request)
    chosen = request.query["format"]
    iterator = pieces(service.ledger, record, chosen, int(request.query["after"]))
    try:
        first = await service.read(next, iterator, b"")
    except ImportError as error:
        raise ApiError("no_parquet", str(error), "format") from None

    async def parts() -> AsyncGenerator[bytes, None]:
        yield first
        while part := await service.read(next, iterator, b""):
            if service.stopping.is_set():
                raise LedgerUnavailable("the worker is stopping")
            yield part

    name = f'attachment; filename="{record.settings.name}.{chosen}"'
    return Response(parts(), kind=FORMATS[chosen].encode(), headers={b"content-disposition": name.encode()})


def _record(request: Request) -> ExperimentRecord:
    record = request.service.ledger.find(request.name)
    if record is None:
        raise ApiError("unknown_experiment", f"there is no experiment {request.name!r}", "name")
    return record


async def stream(request: Request) -> Response:
    service = request.service
    first = await service.run(Read(request.name), 0, views.experiment)
    if service.streams >= service.limits.streams:
        raise ApiError("busy", f"there are {service.streams} live views, as many as this worker allows")

    async def parts() -> AsyncGenerator[bytes, None]:
        service.streams += 1
        gone = asyncio.ensure_future(_gone(request))
        stopping = asyncio.ensure_future(service.stopping.wait())
        try:
            shown, said = first, time.monotonic()
            yield _event(shown)
            while not (gone.done() or stopping.done()):
                await asyncio.wait((gone, stopping), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                try:
                    latest = await service.run(Read(request.name), 0, views.experiment)
                except (LedgerUnavailable, ApiError):
                    latest = shown
                if (latest.events, latest.status) != (shown.events, shown.status):
                    shown, said = latest, time.monotonic()
                    yield _event(shown)
                elif time.monotonic() - said > BEAT_SECONDS:
                    said = time.monotonic()
                    yield b": nothing new\n\n"
        finally:
            service.streams -= 1
            gone.cancel()
            stopping.cancel()

    return Response(parts(), kind=b"text/event-stream", headers={b"cache-control": b"no-store"})


def _event(shown: Any) -> bytes:
    return b"event: state\nid: %d\ndata: %s\n\n" % (shown.events, encode(shown))


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def health(request: Request) -> Response:
    return Response(encode(Health("ok", __version__)))


async def ready(request: Request) -> Response:
    readiness = request.service.readiness
    reason = "this worker is stopping" if request.service.stopping.is_set() else readiness.check()
    health = Health("unavailable" if reason else "ok", __version__, reason, readiness.warnings)
    return Response(encode(health), 503 if reason else 200)


async def show_metrics(request: Request) -> Response:
    service = request.service
    records = await service.read(service.ledger.experiments)
    names = [record.settings.name for record in records if record.status != Status.ARCHIVED]
    asked = [service.run(Read(name), 0, metrics.experiment) for name in names if request.key.opens(name)]
    done, late = await asyncio.wait(asked, timeout=METRICS_SECONDS) if asked else (set(), set())
    for future in late:  # its commit hangs: what workers say of that is shown all the same
        future.cancel()
    shown = [future.result() for future in asked if future in done]
    counters = [] if request.key.is_scoped else service.all_counters  # workers serve all experiments
    return Response(metrics.text(shown, counters, service.routes), kind=metrics.KIND)


async def openapi(request: Request) -> Response:
    return Response(request.service.document)


async def docs(request: Request) -> Response:
    return Response(request.service.page, kind=b"text/html; charset=utf-8")
