"""A FastAPI app that decides which button a visitor sees, and observes what comes of it.

    pip install fastapi uvicorn 'belated[client]'
    BELATED_KEY=... uvicorn fastapi_shop:app --port 8080      # in this folder; the key needs the role decide

The experiment is made beforehand; docs/recipes.md says how.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import Cookie, FastAPI, HTTPException, Request, Response

from belated.client import AsyncClient, ServiceError, ServiceUnavailable

EXPERIMENT, DEFAULT = "button", "blue"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client, with its connections, as long as the app runs."""
    url = os.environ.get("BELATED_URL", "http://127.0.0.1:8000")
    async with AsyncClient(url, timeout=0.5, retry_seconds=0.5) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def page(
    request: Request, response: Response, visit: Annotated[UUID | None, Cookie()] = None
) -> dict[str, str | int]:
    """Show a button: the same to a visitor who comes back."""
    id = visit or uuid4()
    try:
        decision = await request.app.state.client.decide(EXPERIMENT, str(id))
    except ServiceError:  # away, or paused: no cookie, so that nothing is reported for it
        return {"button": DEFAULT}
    response.set_cookie("visit", str(id), max_age=7 * 86400, httponly=True, samesite="lax")
    return {"button": decision.arm}


@app.post("/purchases")
async def buy(request: Request, visit: Annotated[UUID | None, Cookie()] = None) -> dict[str, str]:
    """Take an order, and tell the service, which takes it once however often it is told."""
    if visit is None:
        return {"told": "nothing"}
    try:
        receipt = await request.app.state.client.observe(EXPERIMENT, str(visit), reward=1.0)
    except ServiceUnavailable:
        return {"told": "not yet"}  # the order itself stands: a job reports it later, as cron_conversions.py does
    except ServiceError as error:
        raise HTTPException(error.status, error.message) from error
    return {"told": receipt.receipt}
