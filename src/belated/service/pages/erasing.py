"""Erasing ids from a page: first how many there are, then, once it is confirmed, they are erased."""

import asyncio
import logging
import math

from belated.ledger.base import Ledger, LedgerError, LedgerUnavailable
from belated.ledger.forget import Ids, Matching, Older, Which, count, forget
from belated.service.errors import ApiError
from belated.service.handlers import record_of
from belated.service.http import Response
from belated.service.pages.visit import Visit, address, page, redirect
from belated.service.words import DAY
from belated.templates.display import counted

logger = logging.getLogger("belated.service")

WAIT_SECONDS = 2.0
"""How long a page waits for an erasure; it goes on after that."""


async def ask(visit: Visit) -> Response:
    """Say how many ids would be erased, and ask whether they shall be."""
    which, words = _which(visit.query)
    found = await asyncio.to_thread(_count, visit.service.ledger, visit.name, which)
    return page(
        "erase.html",
        visit,
        name=visit.name,
        found=found,
        counted=counted(found, "decision"),
        words=words,
        asked={field: value for field, value in visit.query.items() if field in ("id", "matching", "older")},
        back=address(visit.name),
    )


def _count(ledger: Ledger, name: str, which: Which) -> int:
    return count(ledger, record_of(ledger, name), which)


async def erase(visit: Visit) -> Response:
    """Erase ids, in the background if there are many."""
    which, _ = _which({field: visit.given(field) for field in visit.fields})
    if visit.given("sure") != "yes":
        raise ApiError("invalid", "erasing cannot be undone; tick the box to confirm it", "sure")
    task = visit.pages.begin(asyncio.to_thread(_erase, visit, which))
    await asyncio.wait([task], timeout=WAIT_SECONDS)
    if task.done():
        task.result()
    return redirect(f"{address(visit.name)}?done={'erase' if task.done() else 'erasing'}")


def _erase(visit: Visit, which: Which) -> None:
    ledger, name = visit.service.ledger, visit.name
    try:
        erased = forget(ledger, record_of(ledger, name), which, visit.service.stopping.is_set, visit.caller.number)
        if visit.service.stopping.is_set():
            what = f"ids of experiment {name}, {which.what},"
            logger.warning("erasing %s was cut short by the end of the service; do it again", what)
        if erased and not ledger.scrub():
            logger.warning("ids of experiment %s were erased, but the log of %s has copies left", name, ledger.store)
    except (LedgerError, LedgerUnavailable) as error:
        logger.error("erasing ids of experiment %s, %s, failed: %s", name, which.what, error)
        raise


def _which(given: dict[str, str]) -> tuple[Which, str]:
    """Return the decisions that are meant, and the same in words."""
    if id := given.get("id", ""):
        return Ids((id,)), f"with the id {id!r}"
    if pattern := given.get("matching", ""):
        return Matching(pattern), f"with an id like {pattern!r}"
    if days := given.get("older", ""):
        try:
            age = float(days)
        except ValueError:
            age = math.nan
        if not 0.0 < age < 1e6:
            raise ApiError("invalid", f"older is {days!r}; a number of days above 0 is needed", "older")
        return Older(age * DAY), f"older than {age:g} days"
    raise ApiError("invalid", "nothing to erase is named; an id, a pattern or an age is needed")
