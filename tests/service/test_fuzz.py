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
from support.http_helpers import EXPERIMENTS, MOSTLY_SQLITE, at, create, decide, rows, serving, state, talk
from support.serving import ADMIN_KEY, Server, is_alive

PATHS = document(OPERATIONS, __version__)["paths"]
VALID: dict[str, list[Any]] = {
    "create": [
        {"name": "made", "arms": ["x", "y"], "seed": 1},
        {"name": "made", "arms": 3, "learner": "robust", "parameters": {"delay_constant": 2.0}},
        {"name": "made", "arms": [1, "b"], "missing": {"deadline": 60, "loss": 0.5}},
        {
            "name": "made",
            "arms": ["x", "y"],
            "reports": "sum",
            "outcome": {"lowest": -1, "highest": 200},
            "limits": {"arms": [{"arm": "x", "floor": 0.1, "ceiling": 0.5}], "holdout": 0.1},
        },
    ],
    "decide": [{"id": "a"}, {}, [{"id": "b"}, {"id": "c"}, {}]],
    "observe": [
        {"decision": "a", "loss": 0.5},
        {"decision": "b", "reward": 1},
        [{"decision": "c", "loss": 0}, {"decision": "d", "reward": 0.25}],
        {"decision": "a", "value": 12.5, "report": "r1", "final": False},
    ],
    "add_arm": [{"arm": "new"}, {"arm": 7}],
    "set_limits": [
        {"arms": [{"arm": "x", "floor": 0.1, "ceiling": 0.6}, {"arm": "y", "share": 0.3}], "holdout": 0.05},
        {"arms": []},
        {"holdout": 0.2},
    ],
    "report_fallbacks": [{"id": "f1", "arm": "x", "count": 3}, {"id": "f2", "arm": "y", "count": 1}],
}
COUNTS = {"add_arm": 400, "set_limits": 800, "report_fallbacks": 800}
"""Bodies sent at most, where it is not 2,000: each that is taken costs a transaction."""
FEW = 300
WHERE = {"retire_arm": "moved", "restore_arm": "moved"}
"""The experiments that are asked for, where the body is not looked at: those that nobody archives."""
TOKENS = [
    *(b"NaN", b"-Infinity", b"1e999", b"-0", b"-0.0", b"1e-400", b"9" * 400, b"0.1" + b"0" * 400, b"null", b"true"),
    *(b"[" * 3000, b"]" * 50, b'{"a":' * 3000, b"{}", b"[]", b'""', b"'", b"\\", b"//", b"\n", b"\r\n", b"$", b"`"),
    *(b'"\\u0000"', b'"\\ud800"', b'"\\udc00"', "“ü😀\u2028".encode(), b"\xef\xbb\xbf"),
    *(b"\x00", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"),
    *(b"id", b"loss", b"reward", b"decision", b"name", b"arms", b"wait", b"balanced", b"exp3", b"7" * 20),
    *(b"value", b"report", b"final", b"arm", b"floor", b"share", b"holdout", b"count", b"limits", b"outcome", b"sum"),
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


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory, experiments=40) as running, talk(running) as connection:
        for name in ("fuzzed", "changed", "moved"):
            create(connection, name, ("x", "y", "z"))
            decide(connection, name, *"abcd")
        yield running


WRITES = {
    operation.handler.__name__: (operation.method, operation.path)
    for operation in OPERATIONS
    if operation.method in ("POST", "PUT")
}


@pytest.mark.parametrize("most", [FEW, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", WRITES)
def test_no_body_makes_the_worker_fail(server: Server, operation: str, most: int) -> None:
    reads = operation in VALID
    method, route = WRITES[operation]
    path = route.replace("{name}", "fuzzed" if reads else WHERE.get(operation, "changed")).replace("{arm}", "x")
    allowed = {int(status) for status in PATHS[route][method.lower()]["responses"]} - {503}
    count = min(most, COUNTS.get(operation, 2000) if reads else FEW)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    seen: Counter[int] = Counter()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        for body in bodies(sum(map(ord, operation)), operation, count):
            connection.request(method, path, body, headers)
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
        assert seen[400] > count / 10
        assert seen[422] > count / 10
        assert seen[200] + seen[201] >= max(1, count / 150)
    else:
        assert seen[200] == count  # the body is not looked at


def test_after_all_that_the_same_worker_is_ready_and_its_ledger_in_order(server: Server) -> None:
    with talk(server) as connection:
        assert connection.get("/readyz").status_code == 200
        assert connection.get(EXPERIMENTS).status_code == 200
        events = rows(connection, "fuzzed")
        assert [event["number"] for event in events] == list(range(1, state(connection, "fuzzed")["events"] + 1))
        assert connection.post(at("fuzzed", "decisions"), json={"id": "last"}).status_code == 200
    assert is_alive(server.pid)
    assert "Traceback" not in server.log.read_text()
