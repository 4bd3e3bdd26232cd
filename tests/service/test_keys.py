"""Who is let in: every operation, every kind of key, and where the secrets are not."""

import asyncio
import hmac
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql

from belated.cli.main import main
from belated.ledger import open_ledger
from belated.ledger.base import LedgerUnavailable
from belated.ledger.events import ApiKey
from belated.ledger.keys import ROLES, digest_of, new_key
from belated.service.auth import Authenticator
from belated.service.errors import ApiError
from belated.service.http import Operation
from belated.service.routes import OPERATIONS
from support.http_helpers import create, decide, problem, serving, talk
from support.serving import ADMIN_KEY, KINDS, Server
from support.waiting import until

LABELS = {f"{operation.method} {operation.path}": operation for operation in OPERATIONS}
GUARDED = [label for label, operation in LABELS.items() if operation.role is not None]
STRANGER = "belated_nobody-has-ever-made-this-key-0123456789"
BODIES = {
    "create": {"name": "walked", "arms": 2, "seed": 1},
    "observe": {"decision": "one", "loss": 0.5},
    "add_arm": {"arm": "third"},
    "set_limits": {"holdout": 0.1},
    "report_fallbacks": {"id": "outage", "arm": 0, "count": 3},
}
ARCHIVED = ("pause", "resume", "decisions", "arms", "retire", "restore", "limits", "fallbacks")
"""What an archived experiment refuses."""


class House:
    """A running server, and a key for every role."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http = httpx.Client(base_url=server.url, timeout=60)
        self.keys = {role: self.new_key(role) for role in ROLES}
        self.heard: list[bytes] = []
        with talk(server) as http:
            create(http, "walked", 2)
            decide(http, "walked", "one")

    def new_key(self, role: str) -> str:
        secret, key = new_key(f"of {role}", role)
        with closing(open_ledger(self.server.store)) as ledger:
            ledger.add_key(key)
        return secret

    def ask(self, operation: Operation, header: str | bytes | None) -> httpx.Response:
        """The answer to an operation with this Authorization header; of one that goes on for ever, its beginning."""
        path = operation.path.replace("{name}", "walked").replace("{arm}", "0")
        headers = {} if header is None else {"Authorization": header}
        body = BODIES.get(operation.handler.__name__)
        with self.http.stream(operation.method, path, json=body, headers=headers) as response:  # type: ignore[arg-type]
            if response.headers["content-type"] != "text/event-stream":
                self.heard.append(response.read())
        return response

    def close(self) -> None:
        self.http.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving("sqlite", tmp_path_factory) as server, closing(House(server)) as made:
        yield made


def test_the_doors_that_are_open_to_all(house: House) -> None:
    opened = {operation.path for operation in OPERATIONS if operation.role is None}
    assert opened == {"/healthz", "/readyz", "/openapi.json", "/docs"}
    for operation in OPERATIONS:
        if operation.role is None:
            for header in (None, f"Bearer {STRANGER}", "nonsense"):
                assert house.ask(operation, header).status_code == 200


@pytest.mark.parametrize("label", GUARDED)
def test_nobody_gets_in_without_a_key(house: House, label: str) -> None:
    key = house.keys["admin"]
    for header, code in (
        (None, "no_key"),
        ("", "no_key"),
        (f"Basic {key}", "no_key"),
        (f"Bearer{key}", "no_key"),
        (f"Bearer {STRANGER}", "wrong_key"),
        (f"Bearer {key[:-1]}", "wrong_key"),
    ):
        response = house.ask(LABELS[label], header)
        assert key[:-1] not in problem(response, 401, code)
        assert response.headers["www-authenticate"] == "Bearer"


def test_a_key_must_be_given_exactly(house: House) -> None:
    key, operation = house.keys["admin"], LABELS["GET /v1/experiments/{name}"]
    for header in ("Bearer", key, f"Token {key}", f"Bearer {'k' * 501}"):
        assert key not in problem(house.ask(operation, header), 401, "no_key")
    for unknown in (key + "x", key.upper(), f"{key} {key}", "k", "é" * 20):
        message = problem(house.ask(operation, f"Bearer {unknown}".encode()), 401, "wrong_key")
        assert unknown == "k" or unknown not in message


@pytest.mark.parametrize("label", GUARDED)
def test_only_the_right_role_and_the_admin_get_in(house: House, label: str) -> None:
    right = LABELS[label].role
    assert right is not None
    for role in set(ROLES) - {right, "admin"}:
        message = problem(house.ask(LABELS[label], f"Bearer {house.keys[role]}"), 403, "wrong_role")
        assert role in message
        assert right in message
    for key in {house.keys[right], house.keys["admin"], ADMIN_KEY}:
        for header in (f"Bearer {key}", f"bearer   {key}"):
            status = house.ask(LABELS[label], header).status_code
            assert status == 200 or (status == 409 and label.endswith(ARCHIVED))


def test_who_has_no_key_learns_nothing(house: House) -> None:
    """Not whether an experiment exists, not what is wrong with a body."""
    with talk(house.server, STRANGER) as http:
        for name in ("walked", "nobody"):
            problem(http.get(f"/v1/experiments/{name}"), 401, "wrong_key")
            problem(http.post(f"/v1/experiments/{name}/outcomes", content=b"{"), 401, "wrong_key")
            problem(http.post(f"/v1/experiments/{name}/decisions", content=b" " * (2 << 20)), 401, "wrong_key")


def test_a_new_key_works_soon_and_a_revoked_one_no_more(house: House) -> None:
    """Revoked by the command as people give it; refused at every door."""
    secret = house.new_key("admin")
    reading = next(operation for operation in OPERATIONS if operation.path == "/v1/experiments/{name}")
    assert house.ask(reading, f"Bearer {secret}").status_code == 200
    with closing(open_ledger(house.server.store)) as ledger:
        id = next(key.id for key in ledger.all_keys() if key.digest == digest_of(secret.encode()))
    assert main(["keys", "revoke", id, "--store", house.server.store]) == 0
    until(lambda: house.ask(reading, f"Bearer {secret}").status_code == 401)
    for label in GUARDED:
        response = house.ask(LABELS[label], f"Bearer {secret}")
        problem(response, 401, "wrong_key")
        assert response.headers["www-authenticate"] == "Bearer"
    assert house.ask(reading, f"Bearer {ADMIN_KEY}").status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_the_secrets_are_nowhere(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not in the store, not in the log, not in any answer."""
    with serving(kind, tmp_path_factory) as server, closing(House(server)) as house:
        look_for_secrets(house)


def look_for_secrets(house: House) -> None:
    for label in GUARDED:
        for header in (f"Bearer {STRANGER}", house.keys["admin"], *(f"Bearer {key}" for key in house.keys.values())):
            house.ask(LABELS[label], header)
    secrets = [*house.keys.values(), ADMIN_KEY]
    store = house.server.store
    kept = b""
    if store.startswith("sqlite"):
        path = house.server.log.parent / "ledger.db"
        for file in path.parent.glob("ledger.db*"):
            kept += file.read_bytes()
    else:
        with psycopg.connect(store) as session:
            query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
            tables = [row[0] for row in session.execute(query).fetchall()]
            assert "keys" in tables
            for table in tables:
                everything = session.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table)))
                kept += "\n".join(row[0] for row in everything.fetchall()).encode()
    assert b"of admin" in kept  # the name of a key: what is kept in plain text is found
    log = house.server.log.read_bytes()
    assert log
    heard = b"".join(house.heard)
    assert b"wrong_key" in heard
    for secret in [*secrets, STRANGER]:
        for part in (secret, secret[:-1], secret.removeprefix("belated_")[:20]):
            for place in (kept, log, heard):
                assert part.encode() not in place
                assert part.encode().hex().encode() not in place


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown ids too, so that the time tells nobody which ids there are."""
    secret, key = new_key("mine", "decide")
    compared: list[tuple[bytes, bytes]] = []
    original = hmac.compare_digest

    def compare(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return original(one, other)

    async def read() -> list[ApiKey]:
        return [key]

    async def check(given: str) -> str | None:
        auth = Authenticator(read)
        await auth.refresh()
        compared.clear()
        try:
            await auth.check(f"Bearer {given}".encode(), "decide")
        except ApiError as refusal:
            return refusal.problem.code
        return None

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert asyncio.run(check(secret)) is None
    assert compared == [(digest_of(secret.encode()), key.digest)]
    assert asyncio.run(check(STRANGER)) == "wrong_key"
    assert [len(one) == len(other) == 32 for one, other in compared] == [True, True]  # looked up again: it might be new


def test_a_key_whose_id_is_that_of_another_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id only finds the digest."""
    _, key = new_key("mine", "admin")
    monkeypatch.setattr("belated.service.auth.id_of", lambda secret: key.id)

    async def read() -> list[ApiKey]:
        return [key]

    async def check() -> None:
        auth = Authenticator(read)
        await auth.refresh()
        await auth.check(f"Bearer {STRANGER}".encode(), "read")

    with pytest.raises(ApiError) as caught:
        asyncio.run(check())
    assert caught.value.problem.code == "wrong_key"


def test_where_keys_cannot_be_read_the_last_ones_stay() -> None:
    secret, key = new_key("mine", "read")
    gone = LedgerUnavailable("gone")
    readings: Iterator[list[ApiKey] | LedgerUnavailable] = iter([[key], gone, gone])

    async def read() -> list[ApiKey]:
        found = next(readings)
        if isinstance(found, LedgerUnavailable):
            raise found
        return found

    async def check() -> None:
        auth = Authenticator(read)
        for _ in range(3):
            await auth.refresh()
            await auth.check(f"Bearer {secret}".encode(), "read")

    asyncio.run(check())
    assert next(readings, None) is None


def test_a_key_made_while_keys_are_read_is_known_at_its_first_use() -> None:
    """And a hundred strangers at once are answered by one reading more, not by a hundred."""
    secret, key = new_key("new", "read")
    kept: list[ApiKey] = []
    readings = 0

    async def read() -> list[ApiKey]:
        nonlocal readings
        readings += 1
        return list(kept)

    async def refused(auth: Authenticator) -> str:
        with pytest.raises(ApiError) as caught:
            await auth.check(f"Bearer {STRANGER}".encode(), "read")
        return caught.value.problem.code

    async def check() -> None:
        auth = Authenticator(read)
        await auth.refresh()
        kept.append(key)  # a moment after the last reading
        await auth.check(f"Bearer {secret}".encode(), "read")
        assert readings == 2
        assert set(await asyncio.gather(*(refused(auth) for _ in range(100)))) == {"wrong_key"}
        assert readings <= 4

    asyncio.run(check())
