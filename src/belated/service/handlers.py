"""What is done at each path."""

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Any

from belated import __version__, learners
from belated.bandit import Bandit
from belated.ledger.book import Change, Decide, Observe, Read
from belated.ledger.contract import ExperimentExists, LedgerUnavailable, TooManyExperiments
from belated.ledger.events import SECOND, Record, Settings, Status
from belated.ledger.export import FORMATS, pieces
from belated.service import metrics, views
from belated.service.http import Call, Reply, encode
from belated.service.problems import Refusal
from belated.service.views import granted
from belated.wire import MOST_SEED, Deadline, Experiments, Health, NewExperiment

READY_SECONDS = 5.0
"""How long /readyz waits for the ledger."""
MOST_SAID = 500
BEAT_SECONDS = 15.0
"""A live view hears something at least this often."""
LOOK_SECONDS = 0.5
"""A live view hears of changes at most this often."""


async def decide(call: Call) -> Reply:
    body = call.body
    if isinstance(body, list):
        answers = await call.service.run(Decide(call.name, [each.id for each in body]), len(body), _encoded)
        return Reply(answers)
    return Reply(await call.service.run(Decide(call.name, (body.id,)), 1, _first_encoded))


async def observe(call: Call) -> Reply:
    body = call.body
    outcomes = body if isinstance(body, list) else [body]
    command = Observe(call.name, [(each.decision, each.as_loss) for each in outcomes])
    receipts = await call.service.run(command, len(outcomes), granted)
    for receipt in receipts:
        if receipt.receipt in ("repeated", "conflict", "unknown"):
            call.service.row.add(receipt.receipt)
    if isinstance(body, list):
        return Reply(encode(receipts))
    (receipt,) = receipts
    if receipt.receipt == "conflict":
        raise Refusal("conflict", receipt.message, "loss")
    if receipt.receipt == "unknown":
        raise Refusal("unknown_decision", receipt.message, "decision")
    return Reply(encode(receipt))


def _encoded(answer: Any) -> bytes:
    return encode(granted(answer))


def _first_encoded(answer: Any) -> bytes:
    return encode(granted(answer)[0])


async def create(call: Call) -> Reply:
    body: NewExperiment = call.body
    service = call.service
    settings = await service.read(_settings, body)
    try:
        record, is_new = await service.read(
            service.ledger.create, settings, int(time.time() * SECOND), service.limits.experiments
        )
        if not is_new and body.seed not in (None, record.settings.seed):
            raise ExperimentExists(f"there is an experiment {body.name!r} with seed {record.settings.seed}")
    except ExperimentExists as error:
        raise Refusal("exists", str(error), "name") from None
    except TooManyExperiments as error:
        raise Refusal("too_many", str(error)) from None
    if isinstance(settings.missing, Deadline):
        service.has_deadline(body.name)
    shown = await service.run(Read(body.name), 0, views.experiment)
    return Reply(encode(shown), 201 if is_new else 200)


def _settings(body: NewExperiment) -> Settings:
    """What an experiment will be, all defaults filled in; refused where no bandit could be made of it."""
    for field, value in body.parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("invalid", f"parameters.{field} is {value}; a number is needed", f"parameters.{field}")
    arms: list[str | int] = list(range(body.arms)) if isinstance(body.arms, int) else body.arms
    seed = secrets.randbelow(MOST_SEED + 1) if body.seed is None else body.seed
    settings = Settings(body.name, arms, body.learner, body.parameters, seed, body.missing)
    try:
        needs = learners.tune(body.learner, **body.parameters).learner.needs
        Bandit(arms, body.learner, seed=seed, **body.parameters)
    except (ValueError, TypeError) as error:
        raise Refusal("invalid", str(error)[:MOST_SAID], _field_of(str(error), body)) from None
    if "delay" in needs:
        message = (
            f"learner {body.learner!r} must know the delay of each decision when it is made, which nobody does here"
        )
        raise Refusal("invalid", message, "learner")
    return settings


def _field_of(message: str, body: NewExperiment) -> str:
    """Which field a bandit's error is about."""
    if message.startswith(("arm", "there are")):
        return "arms"
    named = [name for name in body.parameters if message.startswith((f"{name} is", f"unknown {name}"))]
    return "parameters" if named or message.startswith("unknown parameter") else "learner"


async def list_experiments(call: Call) -> Reply:
    records = await call.service.read(call.service.ledger.experiments)
    wanted = call.query["status"]
    shown = [views.summary(record) for record in records]
    return Reply(encode(Experiments([each for each in shown if wanted in ("all", each.status)])))


async def read(call: Call) -> Reply:
    view = views.experiment_with_digest if call.query["digest"] == "true" else views.experiment
    return Reply(encode(await call.service.run(Read(call.name), 0, view)))


async def pause(call: Call) -> Reply:
    return await _change(call, Status.PAUSED)


async def resume(call: Call) -> Reply:
    return await _change(call, Status.ACTIVE)


async def archive(call: Call) -> Reply:
    return await _change(call, Status.ARCHIVED)


async def _change(call: Call, status: Status) -> Reply:
    return Reply(encode(await call.service.run(Change(call.name, status), 1, views.experiment)))


async def ledger(call: Call) -> Reply:
    service = call.service
    record = await service.read(_record, call)
    chosen = call.query["format"]
    iterator = pieces(service.ledger, record, chosen, int(call.query["after"]))
    try:
        first = await service.read(next, iterator, b"")
    except ImportError as error:
        raise Refusal("no_parquet", str(error), "format") from None

    async def parts() -> AsyncGenerator[bytes, None]:
        yield first
        while part := await service.read(next, iterator, b""):
            if service.stopping.is_set():
                raise LedgerUnavailable("the worker is stopping")
            yield part

    name = f'attachment; filename="{record.settings.name}.{chosen}"'
    return Reply(parts(), kind=FORMATS[chosen].encode(), headers={b"content-disposition": name.encode()})


def _record(call: Call) -> Record:
    record = call.service.ledger.find(call.name)
    if record is None:
        raise Refusal("unknown_experiment", f"there is no experiment {call.name!r}", "name")
    return record


async def stream(call: Call) -> Reply:
    service = call.service
    first = await service.run(Read(call.name), 0, views.experiment)
    if service.streams >= service.limits.streams:
        raise Refusal("busy", f"there are {service.streams} live views, as many as this worker allows")

    async def parts() -> AsyncGenerator[bytes, None]:
        service.streams += 1
        gone = asyncio.ensure_future(_gone(call))
        stopping = asyncio.ensure_future(service.stopping.wait())
        try:
            shown, said = first, time.monotonic()
            yield _event(shown)
            while not (gone.done() or stopping.done()):
                await asyncio.wait((gone, stopping), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                try:
                    latest = await service.run(Read(call.name), 0, views.experiment)
                except (LedgerUnavailable, Refusal):
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

    return Reply(parts(), kind=b"text/event-stream", headers={b"cache-control": b"no-store"})


def _event(shown: Any) -> bytes:
    return b"event: state\nid: %d\ndata: %s\n\n" % (shown.events, encode(shown))


async def _gone(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass


async def health(call: Call) -> Reply:
    return Reply(encode(Health("ok", __version__)))


async def ready(call: Call) -> Reply:
    service = call.service
    reason = service.committer.failing
    try:
        if reason:
            await asyncio.wait_for(service.read(service.ledger.probe), READY_SECONDS)
            service.committer.failing = reason = None
        else:
            await asyncio.wait_for(service.read(service.ledger.find, ""), READY_SECONDS)
    except LedgerUnavailable as error:
        reason = str(error)
    except TimeoutError:
        reason = f"the ledger {service.ledger.store} does not answer"
    if service.stopping.is_set():
        reason = "this worker is stopping"
    if reason:
        return Reply(encode(Health("unavailable", __version__, reason)), 503)
    return Reply(encode(Health("ok", __version__)))


async def show_metrics(call: Call) -> Reply:
    service = call.service
    records = await service.read(service.ledger.experiments)
    names = [record.settings.name for record in records if record.status != Status.ARCHIVED]
    shown = await asyncio.gather(*(service.run(Read(name), 0, metrics.experiment) for name in names))
    return Reply(metrics.text(shown, service.rows), kind=metrics.KIND)


async def openapi(call: Call) -> Reply:
    return Reply(call.service.document)


async def docs(call: Call) -> Reply:
    return Reply(call.service.page, kind=b"text/html; charset=utf-8")
