"""The client for programs that wait for answers."""

from collections.abc import Generator, Iterable, Mapping, Sequence
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
    Attempts,
    Retries,
    RetryTransport,
    connection_errors,
    resume_stream,
    streamed,
)

T = TypeVar("T")


class Client:
    """The service at an address. Threads may share a client.

    Parameters
    ----------
    url
        Where it serves: `http://localhost:8000`.
    key
        Who asks; BELATED_KEY of the environment if none is given.
    timeout
        Seconds to wait for one answer before the request is sent again.
    retry_seconds
        Seconds to send a request again in all, if the service is restarted, busy or cannot be reached.
    transport
        A transport of httpx to send requests over, in place of HTTP: for tests.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        address, headers, timeouts = connection.address(url), connection.headers(key), connection.timeouts(timeout)
        self._retries = Retries(retry_seconds)
        if transport is None:
            transport = httpx.HTTPTransport(proxy=connection.proxy(address))
        retrying = RetryTransport(transport, self._retries)
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeouts, transport=retrying)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def create(
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
        return self._send(
            requests.create(name, arms, learner, parameters, seed, missing, share_floor, outcome, reports, limits)
        )

    def experiments(self, status: str = "all") -> list[Summary]:
        """Return all experiments, or those that are active, paused or archived."""
        return self._send(requests.experiments(status)).experiments

    def experiment(self, name: str, *, digest: bool = False) -> Experiment:
        """Return an experiment and its state."""
        return self._send(requests.experiment(name, digest))

    def estimates(
        self,
        name: str,
        *,
        control: str | int | None = None,
        alpha: float = 0.05,
        method: str | None = None,
        outcomes: str = "settled",
    ) -> ExperimentEstimates:
        """Return which arm wins and how sure that is."""
        return self._send(requests.estimates(name, control, alpha, method, outcomes))

    def pause(self, name: str) -> Experiment:
        return self._send(requests.change(name, "pause"))

    def resume(self, name: str) -> Experiment:
        return self._send(requests.change(name, "resume"))

    def archive(self, name: str) -> Experiment:
        return self._send(requests.change(name, "archive"))

    def add_arm(self, name: str, arm: str | int) -> Experiment:
        """Let a new arm take part from the next decision on."""
        return self._send(requests.add_arm(name, arm))

    def retire_arm(self, name: str, arm: str | int) -> Experiment:
        """Let an arm take part no more."""
        return self._send(requests.move_arm(name, arm, "retire"))

    def restore_arm(self, name: str, arm: str | int) -> Experiment:
        """Let a retired arm take part again."""
        return self._send(requests.move_arm(name, arm, "restore"))

    def set_limits(self, name: str, limits: ShareLimits | Mapping[str, object] | None) -> Experiment:
        """Limit the shares of arms, in place of the limits so far; None lifts them all."""
        return self._send(requests.set_limits(name, limits))

    def report_fallbacks(self, name: str, count: int, *, arm: str | int, id: str | None = None) -> FallbackReceipt:
        """Tell how often an arm was shown without a decision of the service; under an id it counts once."""
        return self._send(requests.report_fallbacks(name, count, arm, id))

    def decide(self, name: str, id: str | None = None) -> DecisionResponse:
        """Make a decision under your id or a new one; return the decision made before, if the id was used before."""
        return self._send(requests.decide(name, id))

    def decide_many(self, name: str, ids: Iterable[str] | int) -> list[DecisionResponse]:
        """Make a decision under each id, or so many decisions under new ids."""
        return [decision for request in requests.decide_many(name, ids) for decision in self._send(request)]

    def observe(
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
        return self._send(requests.observe(name, decision, loss, reward, value, report, final))

    def observe_many(
        self,
        name: str,
        *,
        losses: Mapping[str, float] | None = None,
        rewards: Mapping[str, float] | None = None,
        values: Mapping[str, float] | None = None,
    ) -> list[OutcomeReceipt]:
        """Report outcomes by the ids of their decisions; return a receipt for each."""
        sent = requests.observe_many(name, losses, rewards, values)
        return [receipt for request in sent for receipt in self._send(request)]

    def ledger(self, name: str, after: int = 0) -> Generator[LedgerEvent, None, None]:
        """Yield every event of an experiment after a number, up to the last there is now."""

        def events(after: int, attempts: Attempts) -> Generator[LedgerEvent, None, None]:
            return self._stream(requests.ledger(name, after), attempts, self._http.timeout)

        return resume_stream(events, after, self._retries)

    def watch(self, name: str) -> Generator[Experiment, None, None]:
        """Yield the state of an experiment now, and again whenever it has changed, until the service stops."""
        with connection_errors():
            endless = connection.endless(self._http.timeout)
            yield from self._stream(requests.watch(name), self._retries.start(), endless)

    def _send(self, request: Request[T]) -> T:
        response = self._http.request(request.method, request.path, content=request.body)
        return requests.answer(response, request)

    def _stream(self, request: Request[T], attempts: Attempts, timeouts: httpx.Timeout) -> Generator[T, None, None]:
        extensions = streamed(attempts)
        with self._http.stream(request.method, request.path, timeout=timeouts, extensions=extensions) as response:
            requests.check(response)
            items = Items(request)
            for piece in response.iter_bytes():
                yield from items.of(piece)
