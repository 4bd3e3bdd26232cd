"""Requests that are strange in form: two keys, hidden slashes, HEAD, and bodies that are hard to explain."""

import json
import random
import re
from collections.abc import Iterator

import httpx
import pytest

from belated.api.types import shown
from belated.service import validation
from belated.service.errors import ApiError
from belated.service.http import _decoded
from belated.service.routes import OPERATIONS
from support.http_helpers import EXPERIMENTS, at, create, decide, done, exchange, head, problem, serving, state, talk
from support.serving import ADMIN_KEY, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running, talk(running) as http:
        create(http, "kept")
        decide(http, "kept", *(f"d{k}" for k in range(1000)))
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with talk(server) as connection:
        yield connection


@pytest.mark.parametrize("second", [ADMIN_KEY, "another-key-that-nobody-knows"])
def test_two_keys_are_none(server: Server, second: str) -> None:
    for path in (at("kept"), "/healthz"):
        answer = exchange(server, head("GET", path, f"Authorization: Bearer {second}"))
        assert answer.startswith(b"HTTP/1.1 400 ")
        said = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert said["code"] == "bad_request"


@pytest.mark.parametrize("path", ["kept%2Fdecisions", "kept%2fledger", "kept%5Cstream", "kept%5c", "%2e%2e%2f%2e%2e"])
def test_hidden_slashes_are_refused(http: httpx.Client, path: str) -> None:
    for method in ("GET", "POST"):
        answer = http.request(method, f"{EXPERIMENTS}/{path}")
        problem(answer, 400, "bad_request")


def test_other_characters_may_be_encoded(http: httpx.Client) -> None:
    assert done(http.get(f"{EXPERIMENTS}/%6bept"))["name"] == "kept"
    assert http.get(f"{EXPERIMENTS}/%FFkept").status_code == 404
    assert http.get(f"{EXPERIMENTS}/").status_code == 404
    assert http.get(f"{at('kept')}/").status_code == 404
    assert http.get(f"{at('kept')}/ledger/more").status_code == 404
    assert http.get(f"/{'x' * 20_000}").status_code == 404


SHOWN = [
    *(EXPERIMENTS, at("kept"), at("kept", "ledger"), at("kept", "ledger") + "?format=csv"),
    *("/healthz", "/readyz", "/openapi.json", "/docs", "/metrics"),
]


@pytest.mark.parametrize("path", SHOWN)
def test_head_says_what_get_would(http: httpx.Client, path: str) -> None:
    get, head = http.get(path), http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    own = {"date", "x-request-id", "transfer-encoding"}
    differ = {
        name for name in get.headers.keys() | head.headers.keys() if get.headers.get(name) != head.headers.get(name)
    }
    assert differ - own <= ({"content-length"} if path == "/metrics" else set())
    assert http.get("/healthz").status_code == 200  # the connection goes on


def test_head_of_a_stream_ends_and_counts_as_none(server: Server, http: httpx.Client) -> None:
    for _ in range(3):
        answer = http.head(at("kept", "stream"))
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.content == b""
    raw = exchange(
        server,
        head("HEAD", at("kept", "stream")),
    )
    assert raw.endswith(b"\r\n\r\n")
    assert b"event:" not in raw


def test_head_is_refused_like_get(http: httpx.Client, server: Server) -> None:
    assert http.head(at("nobody")).status_code == 404
    assert http.head(at("kept", "decisions")).status_code == 405
    assert http.head(at("kept") + "?digest=1").status_code == 422
    with talk(server, None) as stranger:
        assert stranger.head(at("kept")).status_code == 401
    problem(http.put(at("kept")), 405, "wrong_method")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"a.b": 1}, "['a.b']"),
        ({"missing.deadline": 1}, "['missing.deadline']"),
        ({"[0]": 1}, "['[0]']"),
        ({"": 1}, "['']"),
        ({"name": "n", "arms": 2, "parameters": {"a.b[0]": []}}, "parameters['a.b[0]']"),
        ({"name": "n", "arms": 2, "parameters": {"": []}}, "parameters['']"),
        ({"name": "n", "arms": 2, "parameters": {"kap.pa": 1}}, "parameters['kap.pa']"),
        ({"name": "n", "arms": 2, "parameters": {"kapa": 1}}, "parameters.kapa"),
    ],
)
def test_a_field_is_not_taken_for_a_path(http: httpx.Client, body: object, field: str) -> None:
    problem(http.post(EXPERIMENTS, json=body), 422, "invalid", field)


def test_an_empty_field_is_named_where_there_are_alternatives(http: httpx.Client) -> None:
    problem(http.post(at("kept", "decisions"), json={"": 1}), 422, "invalid", "['']")


NASTY = [
    *(b"9" * 5000, b"-" + b"9" * 5000, b"9" * 4000, b"9" * 300, b"1e999", b"0." + b"0" * 5000 + b"1", b"1e-5000"),
    *(
        b"[" * 900 + b"]" * 900,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b'"\\ud800"',
        b'"\\udfff\\ud800"',
        b'"\xed\xa0\x80"',
    ),
    *(b'{"a.b":{"[0]":{"":[1,{"x":null}]}}}', b'{"\\u0000":1}', b'"' + b"x" * 100_000 + b'"', b"null", b"[[],{}]"),
]
PLACES = [
    *(b"%b", b"[%b]", b'{"id":%b}', b'[{"id":%b}]', b'{"decision":%b,"loss":1}', b'{"decision":"d0","loss":%b}'),
    *(b'{"name":%b,"arms":2}', b'{"name":"n","arms":%b}', b'{"name":"n","arms":["a",%b]}', b'{"x":%b}'),
    *(b'{"name":"n","arms":2,"seed":%b}', b'{"name":"n","arms":2,"parameters":%b}', b'{"id":5,"more":%b}'),
    *(b'{"name":"n","arms":2,"parameters":{"kappa":%b}}', b'{"name":"n","arms":2,"parameters":{"k":[%b]}}'),
    *(b'{"name":"n","arms":2,"missing":%b}', b'{"name":"n","arms":2,"missing":{"deadline":%b,"loss":1}}'),
]


def test_whatever_stands_in_a_body_it_is_refused_without_a_trace(server: Server, http: httpx.Client) -> None:
    before = state(http, "kept")
    chance = random.Random(5)
    for place in PLACES:
        for value in NASTY:
            path = chance.choice((at("kept", "decisions"), at("kept", "outcomes"), EXPERIMENTS))
            answer = http.post(path, content=place % value)
            if answer.status_code == 201 and b"kappa" in place:
                continue  # a very small number is one
            assert 400 <= answer.status_code < 500, (place, value[:40], answer.text)
            assert set(answer.json()) == {"code", "message", "field"}
            assert len(answer.text) < 2_000
    assert state(http, "kept") == before
    assert "Traceback" not in server.log.read_text()


def test_a_fault_that_cannot_be_explained_is_a_fault_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import msgspec

    def fails(*_: object) -> None:
        raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")

    monkeypatch.setattr(validation, "_fault", fails)
    (operation,) = [each for each in OPERATIONS if each.handler.__name__ == "decide"]
    with pytest.raises(ApiError) as caught:
        _decoded(msgspec.json.Decoder(operation.body).decode, operation, b'{"id": 5}')
    assert caught.value.status == 422


def test_large_numbers_can_be_shown() -> None:
    assert "16,610" in shown(10**5000)
    assert re.fullmatch(r"-?9+\.\.\.", shown(10**300 - 1))
