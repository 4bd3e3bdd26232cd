"""The client for programs that await answers."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

import httpx

from belated.api.types import (
    Deadline,
    DecisionResponse,
    Experiment,
    ExperimentEstimates,
    FallbackReceipt,
    LedgerEvent,
    OutcomeReceipt,
    OutcomeScale,
    ShareLimits,
    Summary,
)
from belated.client import connection, requests
from belated.client.connection import TIMEOUT_SECONDS
from belated.client.requests import Items, Request
from belated.client.retries import (
    RETRY_SECONDS,
    AsyncRetryTransport,
    Attempts,
    Retries,
    connection_errors,
    resume_async_stream,
    streamed,
)

T = TypeVar("T")


class AsyncClient:
    """The service at an address, for programs that await: the parameters and methods of `Client`."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        address, headers, timeouts = connection.address(url), connection.headers(key), connection.timeouts(timeout)
        self._retries = Retries(retry_seconds)
        if transport is None:
            transport = httpx.AsyncHTTPTransport(proxy=connection.proxy(address))
        retrying = AsyncRetryTransport(transport, self._retries)
        self._http = httpx.AsyncClient(base_url=address, headers=headers, timeout=timeouts, transport=retrying)

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
        learner: str = "guarded",
        parameters: Mapping[str, float | str] | None = None,
        seed: int | None = None,
        missing: str | Deadline = "wait",
        share_floor: float = 0.0,
        outcome: OutcomeScale | Mapping[str, object] | None = None,
        reports: str = "first",
        limits: ShareLimits | Mapping[str, object] | None = None,
    ) -> Experiment:
        """Create an experiment; return the one there is, if it has these settings."""
        return await self._send(
            requests.create(name, arms, learner, parameters, seed, missing, share_floor, outcome, reports, limits)
        )

    async def experiments(self, status: str = "all") -> list[Summary]:
        """Return all experiments, or those that are active, paused or archived."""
        return (await self._send(requests.experiments(status))).experiments

    async def experiment(self, name: str, *, digest: bool = False) -> Experiment:
        """Return an experiment and its state."""
        return await self._send(requests.experiment(name, digest))

    async def estimates(
        self,
        name: str,
        *,
        control: str | int | None = None,
        alpha: float = 0.05,
        method: str | None = None,
        outcomes: str = "settled",
    ) -> ExperimentEstimates:
        """Return which arm wins and how sure that is."""
        return await self._send(requests.estimates(name, control, alpha, method, outcomes))

    async def pause(self, name: str) -> Experiment:
        return await self._send(requests.change(name, "pause"))

    async def resume(self, name: str) -> Experiment:
        return await self._send(requests.change(name, "resume"))

    async def archive(self, name: str) -> Experiment:
        return await self._send(requests.change(name, "archive"))

    async def add_arm(self, name: str, arm: str | int) -> Experiment:
        """Let a new arm take part from the next decision on."""
        return await self._send(requests.add_arm(name, arm))

    async def retire_arm(self, name: str, arm: str | int) -> Experiment:
        """Let an arm take part no more."""
        return await self._send(requests.move_arm(name, arm, "retire"))

    async def restore_arm(self, name: str, arm: str | int) -> Experiment:
        """Let a retired arm take part again."""
        return await self._send(requests.move_arm(name, arm, "restore"))

    async def set_limits(self, name: str, limits: ShareLimits | Mapping[str, object] | None) -> Experiment:
        """Limit the shares of arms, in place of the limits so far; None lifts them all."""
        return await self._send(requests.set_limits(name, limits))

    async def report_fallbacks(
        self, name: str, count: int, *, arm: str | int, id: str | None = None
    ) -> FallbackReceipt:
        """Tell how often an arm was shown without a decision of the service; under an id it counts once."""
        return await self._send(requests.report_fallbacks(name, count, arm, id))

    async def decide(self, name: str, id: str | None = None) -> DecisionResponse:
        """Make a decision under your id or a new one; return the decision made before, if the id was used before."""
        return await self._send(requests.decide(name, id))

    async def decide_many(self, name: str, ids: Iterable[str] | int) -> list[DecisionResponse]:
        """Make a decision under each id, or so many decisions under new ids."""
        return [decision for request in requests.decide_many(name, ids) for decision in await self._send(request)]

    async def observe(
        self,
        name: str,
        decision: DecisionResponse | str,
        *,
        loss: float | None = None,
        reward: float | None = None,
        value: float | None = None,
        report: str | None = None,
        final: bool | None = None,
    ) -> OutcomeReceipt:
        """Report the outcome of a decision or its id, as a loss, a reward, or a value in the experiment's own units;
        raise if the decision is unknown, or its outcome was another before.

        Where several reports of a decision count, report is an id of this one, such as the number of an order, under
        which it counts once (a value without one gets a new id), and final says that no more will come.
        """
        return await self._send(requests.observe(name, decision, loss, reward, value, report, final))

    async def observe_many(
        self,
        name: str,
        *,
        losses: Mapping[str, float] | None = None,
        rewards: Mapping[str, float] | None = None,
        values: Mapping[str, float] | None = None,
    ) -> list[OutcomeReceipt]:
        """Report outcomes by the ids of their decisions; return a receipt for each."""
        sent = requests.observe_many(name, losses, rewards, values)
        return [receipt for request in sent for receipt in await self._send(request)]

    def ledger(self, name: str, after: int = 0) -> AsyncGenerator[LedgerEvent, None]:
        """Yield every event of an experiment after a number, up to the last there is now."""

        def events(after: int, attempts: Attempts) -> AsyncGenerator[LedgerEvent, None]:
            return self._stream(requests.ledger(name, after), attempts, self._http.timeout)

        return resume_async_stream(events, after, self._retries)

    async def watch(self, name: str) -> AsyncGenerator[Experiment, None]:
        """Yield the state of an experiment now, and again whenever it has changed, until the service stops."""
        with connection_errors():
            endless = connection.endless(self._http.timeout)
            async with aclosing(self._stream(requests.watch(name), self._retries.start(), endless)) as states:
                async for state in states:
                    yield state

    async def _send(self, request: Request[T]) -> T:
        response = await self._http.request(request.method, request.path, content=request.body)
        return requests.answer(response, request)

    async def _stream(
        self, request: Request[T], attempts: Attempts, timeouts: httpx.Timeout
    ) -> AsyncGenerator[T, None]:
        extensions = streamed(attempts)
        async with self._http.stream(request.method, request.path, timeout=timeouts, extensions=extensions) as response:
            requests.check(response)
            items = Items(request)
            async for piece in response.aiter_bytes():
                for item in items.of(piece):
                    yield item
