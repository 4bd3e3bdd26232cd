"""Plain HTTP with a server of tests, for what no client of ours would send."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from support.serving import ADMIN_KEY, Server, Stores

EXPERIMENTS = "/v1/experiments"
MOSTLY_SQLITE = ("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))
"""Both stores, for what the tests of the ledger compare already."""
Body = dict[str, Any]


@contextmanager
def serving(
    kind: str,
    folders: pytest.TempPathFactory,
    workers: int = 1,
    more: Body | None = None,
    constants: Body | None = None,
    **limits: Any,
) -> Iterator[Server]:
    """A running server on a store that nothing is in yet."""
    folder = folders.mktemp("served")
    with Server(Stores.fresh(kind, folder), folder / "log", workers, constants, more, **limits) as server:
        yield server


def talk(server: Server, key: str | None = ADMIN_KEY) -> httpx.Client:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


def at(name: str, *rest: str) -> str:
    """The path of an experiment, or one below it."""
    return "/".join([EXPERIMENTS, name, *rest])


def done(response: httpx.Response, status: int = 200) -> Any:
    """The body of an answer that must have this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def problem(response: httpx.Response, status: int, code: str, field: str | None = None) -> str:
    """The message of an error that must have this status, code and field, in the one form that errors have."""
    said = done(response, status)
    assert set(said) == {"code", "message", "field"}
    assert (said["code"], said["field"]) == (code, field), said
    assert isinstance(said["message"], str)
    assert said["message"]
    return str(said["message"])


def create(http: httpx.Client, name: str, arms: Any = ("x", "y"), **settings: Any) -> Body:
    body = {"name": name, "arms": list(arms) if isinstance(arms, tuple) else arms, "seed": 1, **settings}
    made: Body = done(http.post(EXPERIMENTS, json=body), 201)
    return made


def state(http: httpx.Client, name: str) -> Body:
    """The state with its digest: equal where nothing at all has happened in between."""
    found: Body = done(http.get(at(name), params={"digest": "true"}))
    return found


def decide(http: httpx.Client, name: str, *ids: str) -> list[Body]:
    made: list[Body] = done(http.post(at(name, "decisions"), json=[{"id": id} for id in ids]))
    return made


def observe(http: httpx.Client, name: str, losses: dict[str, float]) -> list[Body]:
    body = [{"decision": id, "loss": loss} for id, loss in losses.items()]
    receipts: list[Body] = done(http.post(at(name, "outcomes"), json=body))
    return receipts


def rows(http: httpx.Client, name: str, after: int = 0) -> list[Body]:
    """The ledger."""
    response = http.get(at(name, "ledger"), params={"after": after})
    assert response.status_code == 200
    return [json.loads(line) for line in response.content.split(b"\n") if line]


def exchange(server: Server, *parts: bytes) -> bytes:
    """All that a server answers, byte by byte as it comes, to bytes sent as they are."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        for part in parts:
            raw.sendall(part)
        answer = b""
        while piece := raw.recv(1 << 16):
            answer += piece
    return answer


def head(method: str, path: str, *lines: str, key: str = ADMIN_KEY) -> bytes:
    """The head of a request, after whose answer the connection is closed."""
    first = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}", "Connection: close"]
    return "\r\n".join([*first, *lines, "", ""]).encode()
