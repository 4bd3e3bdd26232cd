"""The client for programs that await answers."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from belated.api.types import Deadline, DecisionResponse, Experiment, LedgerEvent, OutcomeReceipt, Summary
from belated.client import requests
from belated.client.requests import PATIENCE_SECONDS, TIMEOUT_SECONDS, Patience, Request

T = TypeVar("T")


class AsyncClient:
    """The service at an address, for programs that await: the parameters and methods of `Client`."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        transport: Any = None,
    ) -> None:
        self._patience = patience
        self._http = httpx.AsyncClient(
            base_url=url, headers=requests.headers(key), **requests.options(timeout, transport)
        )

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def create(
        self,
        name: str,
        arms: Sequence[str | int] | int,
        *,
        learner: str = "balanced",
        parameters: Mapping[str, float | str] | None = None,
        seed: int | None = None,
        missing: str | Deadline = "wait",
    ) -> Experiment:
        """Create an experiment; the one there is, if it has these settings."""
        return await self._do(requests.create(name, arms, learner, parameters, seed, missing))

    async def experiments(self, status: str = "all") -> list[Summary]:
        """All experiments, or those that are active, paused or archived."""
        return requests.summaries(await self._do(requests.experiments(status)))

    async def experiment(self, name: str, *, digest: bool = False) -> Experiment:
        """An experiment and its state."""
        return await self._do(requests.experiment(name, digest))

    async def pause(self, name: str) -> Experiment:
        return await self._do(requests.change(name, "pause"))

    async def resume(self, name: str) -> Experiment:
        return await self._do(requests.change(name, "resume"))

    async def archive(self, name: str) -> Experiment:
        return await self._do(requests.change(name, "archive"))

    async def decide(self, name: str, id: str | None = None) -> DecisionResponse:
        """A decision, under your id or a new one; under an id that was used before, the decision made then."""
        return await self._do(requests.decide(name, id))

    async def decide_many(self, name: str, ids: Iterable[str] | int) -> list[DecisionResponse]:
        """A decision under each id, or so many under new ones."""
        return [decision for ask in requests.decide_many(name, ids) for decision in await self._do(ask)]

    async def observe(
        self, name: str, decision: DecisionResponse | str, *, loss: float | None = None, reward: float | None = None
    ) -> OutcomeReceipt:
        """Report the outcome of a decision, or of its id. `ServiceError` where it is unknown or contradicts another."""
        return await self._do(requests.observe(name, decision, loss, reward))

    async def observe_many(
        self, name: str, *, losses: Mapping[str, float] | None = None, rewards: Mapping[str, float] | None = None
    ) -> list[OutcomeReceipt]:
        """Report outcomes by the ids of their decisions; each is answered for itself."""
        return [receipt for ask in requests.observe_many(name, losses, rewards) for receipt in await self._do(ask)]

    async def ledger(self, name: str, after: int = 0) -> AsyncIterator[LedgerEvent]:
        """Every event of an experiment after a number, up to the last there is now."""
        while True:
            try:
                async with self._open(requests.path(name, f"ledger?after={after}"), {}) as lines:
                    async for line in lines:
                        event = requests.event_in(line)
                        after = event.number
                        yield event
                return
            except httpx.TransportError:
                continue  # cut short: go on after the last one

    async def watch(self, name: str) -> AsyncIterator[Experiment]:
        """The state of an experiment now, and again whenever it has changed, until the service stops."""
        async with self._open(requests.path(name, "stream"), {"timeout": None}) as lines:
            async for line in lines:
                for state in requests.states_in(line):
                    yield state

    @asynccontextmanager
    async def _open(self, path: str, settings: dict[str, Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer that comes bit by bit; asked for again until it begins."""
        patience = Patience(self._patience)
        while True:
            request = self._http.build_request("GET", path, **settings)
            try:
                response = await self._http.send(request, stream=True)
            except httpx.TransportError as error:
                await asyncio.sleep(patience.after(error))
                continue
            try:
                if response.status_code == 200:
                    yield self._lines(response)
                    return
                await response.aread()
            finally:
                await response.aclose()
            requests.answered(response, Experiment)  # raises, unless it is worth asking again
            await asyncio.sleep(patience.after(response))

    @staticmethod
    async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
        lines = requests.Lines()
        async for piece in response.aiter_bytes():
            for line in lines.of(piece):
                yield line

    async def _do(self, ask: Request[T]) -> T:
        patience = Patience(self._patience)
        while True:
            try:
                response = await self._http.request(ask.method, ask.path, content=ask.body)
            except httpx.TransportError as error:
                await asyncio.sleep(patience.after(error))
                continue
            answer = requests.answered(response, ask.reply)
            if answer is not None:
                return answer
            await asyncio.sleep(patience.after(response))
