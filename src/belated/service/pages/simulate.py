"""Simulate before you ship: a form, and what comes out, run after run, while one watches."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import urlencode

from belated.errors import InvalidValue
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages.visit import Visit, page
from belated.service.simulate.plan import MOST_ARMS, MOST_DECISIONS, RUNS, Plan, plan_of
from belated.service.simulate.process import play
from belated.service.streams import Ended, is_over, message, wait_for

FIELDS = ("source", "experiment", "arms", "delay", "bad", "deadline", "a_day", "decisions")
GUESS = {
    "source": "guess",
    "arms": "blue 4\ngreen 6\nred 4.5",
    "delay": "2",
    "bad": "deadline",
    "deadline": "7",
    "a_day": "1000",
    "decisions": "50000",
}
"""What the form has at first."""
MOST_NAMES = 200
"""Experiments that the form suggests."""


async def show(visit: Visit) -> Response:
    """Return the form; if it was sent, with what comes out."""
    given = {field: visit.query[field] for field in FIELDS if field in visit.query}
    is_asked, problem, wrong, run_at = "decisions" in given, "", "", ""
    if is_asked:
        try:
            await _plan(visit, given)
        except ApiError as error:
            problem, wrong = error.problem.message, error.problem.field or ""
        else:
            run_at = "/simulate/run?" + urlencode(given)
    elif name := visit.query.get("like", ""):
        given = {"source": "experiment", "experiment": name, "a_day": ""}
    outlines = await visit.service.read(lambda: list(visit.service.ledger.all_outlines()))
    names = [each.name for each in reversed(outlines) if visit.caller.opens(each.name)]
    return page(
        "simulate.html",
        visit,
        422 if problem else 200,
        form=_filled(given) if is_asked else GUESS | given,
        names=names[:MOST_NAMES],
        problem=problem,
        field=wrong,
        run_at=run_at,
        runs=RUNS,
        most_decisions=MOST_DECISIONS,
        most_arms=MOST_ARMS,
    )


def _filled(given: dict[str, str]) -> dict[str, str]:
    """Return what a form was sent with; what an experiment makes unnecessary is as at first."""
    unused = ("arms", "delay", "bad", "deadline") if given.get("source") == "experiment" else ()
    return given | {field: GUESS[field] for field in unused if not given.get(field)}


async def run(visit: Visit) -> Response:
    """Simulate, and stream what has come out after each run."""
    plan = await _plan(visit, visit.query)

    async def messages(ended: Ended) -> AsyncGenerator[bytes, None]:
        if visit.pages.simulating.locked():
            yield message(b"waiting", b"true")
        told: asyncio.Queue[bytes | None] = asyncio.Queue()
        work = asyncio.create_task(_simulate(visit, plan, told))
        try:
            while not is_over(ended):
                waiting = asyncio.ensure_future(told.get())
                if not await wait_for(ended, waiting):
                    waiting.cancel()
                    yield b": still simulating\n\n"
                elif (content := waiting.result()) is not None:
                    yield message(b"problem" if content.startswith(b'{"problem"') else b"found", content)
                else:
                    yield message(b"over", b"true")
                    return
        finally:
            work.cancel()
            await asyncio.wait([work])

    return visit.stream(messages)


async def _simulate(visit: Visit, plan: Plan, told: "asyncio.Queue[bytes | None]") -> None:
    """Put what comes out into a queue, and None at the end."""
    try:
        async with visit.pages.simulating, aclosing(play(plan)) as found:
            async for each in found:
                told.put_nowait(each)
    finally:
        told.put_nowait(None)


async def _plan(visit: Visit, given: dict[str, str]) -> Plan:
    """Return what the form asks for, of an experiment that this key may see."""
    try:
        plan = plan_of(given)
    except InvalidValue as error:
        raise ApiError("invalid", str(error), error.field) from None
    if plan.experiment:
        visit.caller.check_scope(plan.experiment)
        if await visit.service.read(visit.service.ledger.find, plan.experiment) is None:
            raise ApiError("invalid", f"there is no experiment {plan.experiment[:100]!r}", "experiment")
        plan.store = visit.service.ledger.address
    return plan
