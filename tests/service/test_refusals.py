"""What the service refuses: with a status, a code and a field; and nothing of it is recorded.

The ledger has no part in it: one store will do.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from belated.api.types import MOST_SECONDS, MOST_SEED
from support.http_helpers import (
    EXPERIMENTS,
    Body,
    at,
    create,
    decide,
    done,
    exchange,
    head,
    problem,
    serving,
    state,
    talk,
)
from support.serving import Server

MOST = 1 << 20
"""Bytes of a body."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running, talk(running) as http:
        create(http, "kept")
        decide(http, "kept", "d", "e")
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with talk(server) as connection:
        yield connection


@pytest.fixture
def unchanged(http: httpx.Client) -> Iterator[None]:
    """Whatever the test does, the ledger is the same before and after."""
    before = state(http, "kept"), done(http.get(EXPERIMENTS))
    yield
    assert (state(http, "kept"), done(http.get(EXPERIMENTS))) == before


def outcome(**changed: Any) -> Body:
    return {"decision": "d", "loss": 0.5} | changed


# body, field, what the message must name
OUTCOMES: dict[str, tuple[Any, str | None, list[str]]] = {
    "loss too large": (outcome(loss=1.5), "loss", ["1.5"]),
    "loss too small": (outcome(loss=-0.1), "loss", ["-0.1"]),
    "loss a word": (outcome(loss="x"), "loss", ["'x'"]),
    "loss a truth": (outcome(loss=True), "loss", ["true"]),
    "reward too large": ({"decision": "d", "reward": 2}, "reward", ["2"]),
    "loss and reward": (outcome(reward=0.5), "loss", ["loss", "reward"]),
    "neither loss nor reward": ({"decision": "d"}, "loss", ["loss", "reward"]),
    "no decision": ({"loss": 0.5}, "decision", ["decision"]),
    "a number for a decision": (outcome(decision=5), "decision", ["5"]),
    "an empty decision": (outcome(decision=""), "decision", ["''"]),
    "a space in a decision": (outcome(decision="a b"), "decision", ["'a b'"]),
    "a long decision": (outcome(decision="i" * 129), "decision", ["iiii"]),
    "an unknown field": (outcome(colour="blue"), "colour", ["colour"]),
    "the second of a list": ([outcome(), outcome(loss=7)], "[1].loss", ["7"]),
    "both in a list": ([outcome(), outcome(reward=1)], "[1].loss", ["loss", "reward"]),
    "an empty list": ([], None, ["[]"]),
    "too many": ([outcome()] * 1001, None, []),
    "a number": (
        17,
        None,
        ["17"],
    ),
    "a list in a list": ([[outcome()]], "[0]", []),
}
DECISIONS: dict[str, tuple[Any, str | None, list[str]]] = {
    "too many": ([{}] * 1001, None, []),
    "one wrong among many": ([{"id": "new"}] * 999 + [{"id": 5}], "[999].id", ["5"]),
    "an empty list": ([], None, ["[]"]),
    "an unknown field": ({"name": "new"}, "name", ["name", "id"]),
    "an empty id": ({"id": ""}, "id", ["''"]),
    "a long id": ({"id": "i" * 129}, "id", ["iiii"]),
    "an id that is no ASCII": ({"id": "visité"}, "id", ["'visité'"]),
    "an id with a zero": ({"id": "a\0b"}, "id", ["a\\x00b"]),
    "an id with a line break": ({"id": "new\n"}, "id", ["'new\\n'"]),
}


def experiment(**changed: Any) -> Body:
    return {"name": "new", "arms": ["x", "y"]} | changed


CREATIONS: dict[str, tuple[Any, str | None, list[str]]] = {
    "too many arms": (experiment(arms=10_001), "arms", ["10001"]),
    "too many labels": (experiment(arms=list(range(10_001))), "arms", ["[0, 1"]),
    "one arm": (experiment(arms=1), "arms", ["1"]),
    "one label": (experiment(arms=["x"]), "arms", ["['x']"]),
    "the same arm twice": (experiment(arms=["x", "y", "x"]), "arms", ["'x'"]),
    "a label that is a fraction": (
        experiment(arms=["x", 0.5]),
        "arms[1]",
        ["0.5"],
    ),
    "an empty label": (experiment(arms=["x", ""]), "arms[1]", ["''"]),
    "arms in a word": (experiment(arms="xy"), "arms", ["'xy'"]),
    "an unknown learner": (experiment(learner="robst"), "learner", ["'robst'", "balanced", "'robust'"]),
    "an unknown parameter": (
        experiment(parameters={"kapa": 1}),
        "parameters.kapa",
        ["'kapa'", "'kappa'"],
    ),
    "a word for a parameter": (experiment(parameters={"kappa": []}), "parameters.kappa", ["[]"]),
    "a learner that must know": (experiment(learner="damped"), "parameters.longest_delay", ["damped", "longest_delay"]),
    "a learner that needs delays": (
        experiment(learner="exp3_delayed", parameters={"horizon": 100, "total_delay": 10}),
        "learner",
        ["exp3_delayed"],
    ),
    "a long name": (experiment(name="n" * 101), "name", ["nnnn"]),
    "a name with a slash": (experiment(name="a/b"), "name", ["'a/b'"]),
    "an empty name": (experiment(name=""), "name", ["''"]),
    "a name with a line break": (experiment(name="new\n"), "name", ["'new\\n'"]),
    "no name": ({"arms": 2}, "name", ["name"]),
    "a negative seed": (experiment(seed=-1), "seed", ["-1"]),
    "a large seed": (experiment(seed=MOST_SEED + 1), "seed", [str(MOST_SEED + 1), f"{MOST_SEED:,}"]),
    "another word for missing": (experiment(missing="never"), "missing", ["'never'"]),
    "no time": (experiment(missing={"deadline": 0, "loss": 1}), "missing.deadline", ["0"]),
    "much time": (
        experiment(missing={"deadline": 10 * MOST_SECONDS, "loss": 1}),
        "missing.deadline",
        [str(10 * MOST_SECONDS), f"{MOST_SECONDS:,}"],
    ),
    "a default loss too large": (
        experiment(missing={"deadline": 5, "loss": 2}),
        "missing.loss",
        ["2"],
    ),
    "an unknown field": (experiment(weights=[1, 2]), "weights", ["weights"]),
    "a list": ([experiment()], None, []),
}


def refuse(http: httpx.Client, path: str, case: tuple[Any, str | None, list[str]]) -> None:
    body, field, named = case
    message = problem(http.post(path, json=body), 422, "invalid", field)
    assert [value for value in named if value not in message] == [], message
    assert len(message) < 800


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", OUTCOMES)
def test_an_outcome_that_is_none_is_refused(http: httpx.Client, case: str) -> None:
    refuse(http, at("kept", "outcomes"), OUTCOMES[case])


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", DECISIONS)
def test_a_decision_that_cannot_be_is_refused(http: httpx.Client, case: str) -> None:
    refuse(http, at("kept", "decisions"), DECISIONS[case])


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", CREATIONS)
def test_an_experiment_that_cannot_be_is_refused(http: httpx.Client, case: str) -> None:
    refuse(http, EXPERIMENTS, CREATIONS[case])


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("path", "field", "named"),
    [
        (f"{EXPERIMENTS}?status=gone", "status", ["'gone'"]),
        (f"{at('kept')}?digest=1", "digest", ["'1'"]),
        (f"{at('kept')}?colour=blue", "colour", ["'colour'", "digest"]),
        (f"{at('kept', 'ledger')}?format=xml", "format", ["'xml'"]),
        (f"{at('kept', 'ledger')}?after=-1", "after", ["'-1'"]),
        (f"{at('kept', 'ledger')}?after=%D9%A3", "after", []),
        (f"{at('kept', 'ledger')}?after=", "after", ["''"]),
        (f"{at('kept', 'ledger')}?after={10**30}", "after", [str(10**30)]),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(http: httpx.Client, path: str, field: str, named: list[str]) -> None:
    message = problem(http.get(path), 422, "invalid", field)
    assert [value for value in named if value not in message] == [], message


BROKEN = {
    "nothing": b"",
    "spaces": b"   ",
    "cut short": b'{"decision": "d", "loss": ',
    "cut short behind what is wrong": b'{"decision": 5, "loss": ',
    "a name without quotes": b'{decision: "d"}',
    "not a number": b'{"decision": "d", "loss": NaN}',
    "infinite": b'{"decision": "d", "loss": Infinity}',
    "out of range": b'{"decision": "d", "loss": 1e999}',
    "not UTF-8": b'{"decision": "\xff\xfe", "loss": 1}',
    "not UTF-8 behind what is wrong": b'{"decision": 5, "loss": "\xff"}',
    "half of a pair": b'{"decision": "\\ud800", "loss": 1}',
    "more behind the end": b'{"decision": "d", "loss": 1} []',
    "a list that does not end": b"[" * 500_000,
    "deep in what is known": b'{"decision": ' + b"[" * 250_000 + b"]" * 250_000 + b', "loss": 1}',
    "deep in what is unknown": b'{"colour": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "zeros": bytes(1000),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_json_is_refused(http: httpx.Client, case: str) -> None:
    """As bad JSON, or as invalid where something else is wrong before it: never as an error of the service's own."""
    for path in (at("kept", "outcomes"), at("kept", "decisions"), EXPERIMENTS):
        if path.endswith("decisions") and not BROKEN[case]:
            continue  # nothing asks for one decision
        response = http.post(path, content=BROKEN[case])
        said = done(response, 400 if response.json()["code"] == "bad_json" else 422)
        assert set(said) == {"code", "message", "field"}
        assert said["code"] in ("bad_json", "invalid")
        assert said["code"] == "bad_json" or not case.startswith(("nothing", "spaces", "a name", "zeros"))
        assert 10 < len(said["message"]) < 400


def test_not_a_number_is_no_loss(http: httpx.Client) -> None:
    for word in (b"NaN", b"-Infinity", b"1e999"):
        response = http.post(at("kept", "outcomes"), content=b'{"decision": "d", "loss": %s}' % word)
        assert response.status_code in (400, 422)
        assert response.json()["code"] in ("bad_json", "invalid")
    assert state(http, "kept")["outcomes"]["used"] == 0


def padded(size: int) -> bytes:
    """A body of so many bytes that decides nothing, as it wants no name."""
    return b'{"id": "d"}'.ljust(size)


def test_a_body_up_to_the_limit_is_read_and_one_beyond_is_not(server: Server, http: httpx.Client) -> None:
    path = at("kept", "decisions")
    for size, status in ((MOST, 200), (MOST + 1, 413)):
        whole = http.post(path, content=padded(size))
        pieces = http.post(path, content=(padded(size)[k : k + 50_000] for k in range(0, size, 50_000)))
        assert [whole.status_code, pieces.status_code] == [status, status]
    for response in (whole, pieces):
        assert f"{MOST:,}" in problem(response, 413, "too_large")
    assert http.get("/readyz").status_code == 200


def test_a_large_body_is_refused_before_it_is_sent(server: Server) -> None:
    answer = exchange(server, head("POST", at("kept", "decisions"), f"Content-Length: {10 * MOST}"))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too_large"


def test_a_small_limit_holds_for_bodies_of_any_shape(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, body=1000) as server, talk(server) as http:
        create(http, "small")
        path = at("small", "decisions")
        for size, status in ((1000, 200), (1001, 413), (60_000, 413)):
            assert http.post(path, content=padded(size)).status_code == status, size
            in_one = head("POST", path, "Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (size, padded(size))
            assert exchange(server, in_one).startswith(b"HTTP/1.1 %d " % status), size
            assert http.post(path, content=(bytes([byte]) for byte in padded(size)[:2000])).status_code == status, size
        assert state(http, "small")["rounds"] == 1


def test_a_body_that_nobody_asked_for_does_not_disturb(http: httpx.Client) -> None:
    """What follows on the same connection is answered as ever."""
    for path in (at("kept", "pause"), at("kept", "resume")):
        assert http.post(path, content=b"x" * 300_000).status_code == 200
    assert http.request("GET", at("kept"), content=b'{"loss": 1.5}').status_code == 200


def test_a_learner_cannot_be_told_to_wait_here_but_the_service_can(http: httpx.Client) -> None:
    for field, body in (
        ("parameters.settled", {"learner": "ucb", "parameters": {"settled": 10}}),
        ("parameters.settled", {"learner": "ucb:settled=10"}),
    ):
        problem(http.post(EXPERIMENTS, json={"name": "s", "arms": 2, **body}), 422, "invalid", field)


@pytest.mark.parametrize("floor", [-0.1, 1.5, "much", None, 0.26])
def test_bad_floors_are_refused_by_name(http: httpx.Client, floor: object) -> None:
    body = {"name": "unmade", "arms": 4, "learner": "ucb", "share_floor": floor}
    problem(http.post(EXPERIMENTS, json=body), 422, "invalid", "share_floor")
    assert http.get(at("unmade")).status_code == 404


def test_a_floor_is_not_the_learners(http: httpx.Client) -> None:
    for body in (
        {"learner": "ucb", "parameters": {"share_floor": 0.1}},
        {"learner": "ucb", "parameters": {"share_floor": 0}},
        {"learner": "ucb:share_floor=0.1"},
    ):
        response = http.post(EXPERIMENTS, json={"name": "unmade", "arms": 2, **body})
        problem(response, 422, "invalid", "parameters.share_floor")


@pytest.mark.parametrize("path", ["/v1", "/v2/experiments", at("some", "nothing"), at("a/b"), EXPERIMENTS + "/"])
def test_where_there_is_nothing_the_path_is_named(http: httpx.Client, path: str) -> None:
    assert path in problem(http.get(path), 404, "not_found")


@pytest.mark.parametrize("name", ["nobody", "%00", "%FF", "%F0%9F%98%80", "n" * 5000, "..%20"])
def test_an_unknown_experiment_is_not_found_whatever_it_is_called(http: httpx.Client, name: str) -> None:
    """No name makes the ledger look broken: not one that a database refuses to look for either."""
    for rest in ((), ("ledger",), ("stream",)):
        problem(http.get(at(name, *rest)), 404, "unknown_experiment", "name")
    for rest in (("pause",), ("resume",), ("archive",), ("decisions",)):
        problem(http.post(at(name, *rest)), 404, "unknown_experiment", "name")
    problem(http.post(at(name, "outcomes"), json={"decision": "d", "loss": 0}), 404, "unknown_experiment", "name")
    assert http.get("/readyz").status_code == 200


def test_a_wrong_method_is_told_the_right_ones(http: httpx.Client) -> None:
    for method, path, allowed in (
        ("PUT", EXPERIMENTS, "GET, HEAD, POST"),
        ("DELETE", at("some"), "GET, HEAD"),
        ("GET", at("some", "decisions"), "POST"),
        ("PATCH", "/healthz", "GET, HEAD"),
    ):
        response = http.request(method, path)
        assert response.headers["allow"] == allowed
        assert method in problem(response, 405, "wrong_method")
