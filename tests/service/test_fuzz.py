"""Bodies that nobody meant: whatever is sent, the worker answers, as its document says, and lives on."""

import http.client
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from belated import __version__
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from support.http_helpers import EXPERIMENTS, at, create, decide, rows, serving, state, talk
from support.serving import ADMIN_KEY, KINDS, Server, is_alive

PATHS = document(OPERATIONS, __version__)["paths"]
VALID: dict[str, list[Any]] = {
    "create": [
        {"name": "made", "arms": ["x", "y"], "seed": 1},
        {"name": "made", "arms": 3, "learner": "robust", "parameters": {"delay_constant": 2.0}},
        {"name": "made", "arms": [1, "b"], "missing": {"deadline": 60, "loss": 0.5}},
    ],
    "decide": [{"id": "a"}, {}, [{"id": "b"}, {"id": "c"}, {}]],
    "observe": [
        {"decision": "a", "loss": 0.5},
        {"decision": "b", "reward": 1},
        [{"decision": "c", "loss": 0}, {"decision": "d", "reward": 0.25}],
    ],
}
TOKENS = [
    *(b"NaN", b"-Infinity", b"1e999", b"-0", b"-0.0", b"1e-400", b"9" * 400, b"0.1" + b"0" * 400, b"null", b"true"),
    *(b"[" * 3000, b"]" * 50, b'{"a":' * 3000, b"{}", b"[]", b'""', b"'", b"\\", b"//", b"\n", b"\r\n", b"$", b"`"),
    *(b'"\\u0000"', b'"\\ud800"', b'"\\udc00"', "“ü😀\u2028".encode(), b"\xef\xbb\xbf"),
    *(b"\x00", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"),
    *(b"id", b"loss", b"reward", b"decision", b"name", b"arms", b"wait", b"balanced", b"exp3", b"7" * 20),
]


def mutated(chance: random.Random, body: bytes) -> bytes:
    """A few changes: bytes flipped, taken out, doubled; words put in; the end cut off."""
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        place = chance.randrange(len(body) + 1)
        end = min(len(body), place + chance.choice((1, 1, 2, 5, 20)))
        what = chance.randrange(6)
        if what == 0:
            body = body[:place] + bytes(chance.randrange(256) for _ in body[place:end]) + body[end:]
        elif what == 1:
            body = body[:place] + body[end:]
        elif what == 2:
            body = body[:end] + body[place:]
        elif what == 3:
            body = body[:place] + chance.choice(TOKENS) + body[place:]
        elif what == 4:
            body = body[:place] + chance.choice(TOKENS) + body[end:]
        else:
            body = body[:place] if chance.random() < 0.3 else body
    return body


def bodies(seed: int, operation: str, count: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    valid = [json.dumps(body).encode() for body in VALID.get(operation, [{}])]
    for k in range(count):
        if k % 4 == 0:
            yield chance.randbytes(chance.choice((0, 1, 2, 10, 100, 2000)))
        elif k % 4 == 1:
            yield b"".join(chance.choice(TOKENS) for _ in range(chance.randrange(1, 6)))
        else:
            yield mutated(chance, chance.choice(valid))


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory, experiments=40) as running, talk(running) as connection:
        for name in ("fuzzed", "changed"):
            create(connection, name)
            decide(connection, name, *"abcd")
        yield running


POSTS = {operation.handler.__name__: operation.path for operation in OPERATIONS if operation.method == "POST"}


@pytest.mark.parametrize("operation", POSTS)
def test_no_body_makes_the_worker_fail(server: Server, operation: str) -> None:
    reads = operation in VALID
    path = POSTS[operation].replace("{name}", "fuzzed" if reads else "changed")
    allowed = {int(status) for status in PATHS[POSTS[operation]]["post"]["responses"]} - {503}
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    seen: Counter[int] = Counter()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        for body in bodies(sum(map(ord, operation)), operation, 2000 if reads else 200):
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            answer = response.read()
            assert response.status in allowed, (body[:300], answer)
            said = json.loads(answer)
            if response.status >= 400:
                assert set(said) == {"code", "message", "field"}
                assert len(said["message"]) < 1000
            seen[response.status] += 1
    assert is_alive(server.pid)
    if reads:
        assert seen[400] > 200
        assert seen[422] > 200
        assert seen[200] + seen[201] > 30
    else:
        assert seen[200] == 200  # the body is not looked at


def test_after_all_that_the_same_worker_is_ready_and_its_ledger_in_order(server: Server) -> None:
    with talk(server) as connection:
        assert connection.get("/readyz").status_code == 200
        assert connection.get(EXPERIMENTS).status_code == 200
        events = rows(connection, "fuzzed")
        assert [event["number"] for event in events] == list(range(1, state(connection, "fuzzed")["events"] + 1))
        assert connection.post(at("fuzzed", "decisions"), json={"id": "last"}).status_code == 200
    log = server.log.read_text()
    assert log.count("belated serves") == 1
    assert "Traceback" not in log
