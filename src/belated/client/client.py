"""The client for programs that wait for answers."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from belated.api.types import Deadline, DecisionResponse, Experiment, LedgerEvent, OutcomeReceipt, Summary
from belated.client import requests
from belated.client.requests import PATIENCE_SECONDS, TIMEOUT_SECONDS, Patience, Request

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
    patience
        Seconds to ask again in all, where the service is restarted, busy or cannot be reached.
    """

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
        self._http = httpx.Client(base_url=url, headers=requests.headers(key), **requests.options(timeout, transport))

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
        learner: str = "balanced",
        parameters: Mapping[str, float | str] | None = None,
        seed: int | None = None,
        missing: str | Deadline = "wait",
    ) -> Experiment:
        """Create an experiment; the one there is, if it has these settings."""
        return self._do(requests.create(name, arms, learner, parameters, seed, missing))

    def experiments(self, status: str = "all") -> list[Summary]:
        """All experiments, or those that are active, paused or archived."""
        return requests.summaries(self._do(requests.experiments(status)))

    def experiment(self, name: str, *, digest: bool = False) -> Experiment:
        """An experiment and its state."""
        return self._do(requests.experiment(name, digest))

    def pause(self, name: str) -> Experiment:
        return self._do(requests.change(name, "pause"))

    def resume(self, name: str) -> Experiment:
        return self._do(requests.change(name, "resume"))

    def archive(self, name: str) -> Experiment:
        return self._do(requests.change(name, "archive"))

    def decide(self, name: str, id: str | None = None) -> DecisionResponse:
        """A decision, under your id or a new one; under an id that was used before, the decision made then."""
        return self._do(requests.decide(name, id))

    def decide_many(self, name: str, ids: Iterable[str] | int) -> list[DecisionResponse]:
        """A decision under each id, or so many under new ones."""
        return [decision for ask in requests.decide_many(name, ids) for decision in self._do(ask)]

    def observe(
        self, name: str, decision: DecisionResponse | str, *, loss: float | None = None, reward: float | None = None
    ) -> OutcomeReceipt:
        """Report the outcome of a decision, or of its id. `ServiceError` where it is unknown or contradicts another."""
        return self._do(requests.observe(name, decision, loss, reward))

    def observe_many(
        self, name: str, *, losses: Mapping[str, float] | None = None, rewards: Mapping[str, float] | None = None
    ) -> list[OutcomeReceipt]:
        """Report outcomes by the ids of their decisions; each is answered for itself."""
        return [receipt for ask in requests.observe_many(name, losses, rewards) for receipt in self._do(ask)]

    def ledger(self, name: str, after: int = 0) -> Iterator[LedgerEvent]:
        """Every event of an experiment after a number, up to the last there is now."""
        while True:
            try:
                with self._open(requests.path(name, f"ledger?after={after}"), {}) as lines:
                    for line in lines:
                        event = requests.event_in(line)
                        after = event.number
                        yield event
                return
            except httpx.TransportError:
                continue  # cut short: go on after the last one

    def watch(self, name: str) -> Iterator[Experiment]:
        """The state of an experiment now, and again whenever it has changed, until the service stops."""
        with self._open(requests.path(name, "stream"), {"timeout": None}) as lines:
            for line in lines:
                yield from requests.states_in(line)

    @contextmanager
    def _open(self, path: str, settings: dict[str, Any]) -> Iterator[Iterator[bytes]]:
        """The lines of an answer that comes bit by bit; asked for again until it begins."""
        patience = Patience(self._patience)
        while True:
            request = self._http.build_request("GET", path, **settings)
            try:
                response = self._http.send(request, stream=True)
            except httpx.TransportError as error:
                time.sleep(patience.after(error))
                continue
            try:
                if response.status_code == 200:
                    yield self._lines(response)
                    return
                response.read()
            finally:
                response.close()
            requests.answered(response, Experiment)  # raises, unless it is worth asking again
            time.sleep(patience.after(response))

    @staticmethod
    def _lines(response: httpx.Response) -> Iterator[bytes]:
        lines = requests.Lines()
        for piece in response.iter_bytes():
            yield from lines.of(piece)

    def _do(self, ask: Request[T]) -> T:
        patience = Patience(self._patience)
        while True:
            try:
                response = self._http.request(ask.method, ask.path, content=ask.body)
            except httpx.TransportError as error:
                time.sleep(patience.after(error))
                continue
            answer = requests.answered(response, ask.reply)
            if answer is not None:
                return answer
            time.sleep(patience.after(response))
