"""What the service refuses: with a status, a code, a field and a sentence; and nothing of it is recorded."""

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
from support.serving import KINDS, Server

MOST = 1 << 20
"""Bytes of a body."""


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running, talk(running) as http:
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


# body, field, words that the message must have
OUTCOMES: dict[str, tuple[Any, str | None, list[str]]] = {
    "loss too large": (outcome(loss=1.5), "loss", ["1.5", "a number from 0 to 1"]),
    "loss too small": (outcome(loss=-0.1), "loss", ["-0.1", "a number from 0 to 1"]),
    "loss a word": (outcome(loss="x"), "loss", ["'x'", "a number from 0 to 1"]),
    "loss a truth": (outcome(loss=True), "loss", ["true", "a number from 0 to 1"]),
    "reward too large": ({"decision": "d", "reward": 2}, "reward", ["2", "a number from 0 to 1"]),
    "loss and reward": (outcome(reward=0.5), "loss", ["loss", "reward", "not both"]),
    "neither loss nor reward": ({"decision": "d"}, "loss", ["loss", "reward", "needed"]),
    "no decision": ({"loss": 0.5}, "decision", ["decision", "missing"]),
    "a number for a decision": (outcome(decision=5), "decision", ["5", "an id of 1 to 128"]),
    "an empty decision": (outcome(decision=""), "decision", ["''", "1 to 128"]),
    "a space in a decision": (outcome(decision="a b"), "decision", ["'a b'"]),
    "a long decision": (outcome(decision="i" * 129), "decision", ["iiii", "1 to 128"]),
    "an unknown field": (outcome(colour="blue"), "colour", ["colour", "decision, loss, reward"]),
    "the second of a list": ([outcome(), outcome(loss=7)], "[1].loss", ["7", "a number from 0 to 1"]),
    "both in a list": ([outcome(), outcome(reward=1)], "[1].loss", ["loss", "reward", "not both"]),
    "an empty list": ([], None, ["[]", "a list of 1 to 1,000"]),
    "too many": ([outcome()] * 1001, None, ["a list of 1 to 1,000"]),
    "a number": (
        17,
        None,
        ["17", "an object with decision, loss, reward, value, report, final or a list of 1 to 1,000"],
    ),
    "a list in a list": ([[outcome()]], "[0]", ["object"]),
}
DECISIONS: dict[str, tuple[Any, str | None, list[str]]] = {
    "too many": ([{}] * 1001, None, ["a list of 1 to 1,000"]),
    "one wrong among many": ([{"id": "new"}] * 999 + [{"id": 5}], "[999].id", ["5", "an id of 1 to 128"]),
    "an empty list": ([], None, ["[]", "a list of 1 to 1,000"]),
    "an unknown field": ({"name": "new"}, "name", ["name", "id"]),
    "an empty id": ({"id": ""}, "id", ["''", "1 to 128"]),
    "a long id": ({"id": "i" * 129}, "id", ["iiii", "1 to 128"]),
    "an id that is no ASCII": ({"id": "visité"}, "id", ["'visité'"]),
    "an id with a zero": ({"id": "a\0b"}, "id", ["a\\x00b"]),
    "an id with a line break": ({"id": "new\n"}, "id", ["'new\\n'", "visible ASCII"]),
}


def experiment(**changed: Any) -> Body:
    return {"name": "new", "arms": ["x", "y"]} | changed


CREATIONS: dict[str, tuple[Any, str | None, list[str]]] = {
    "too many arms": (experiment(arms=10_001), "arms", ["10001", "a number of arms from 2 to 10,000"]),
    "too many labels": (experiment(arms=list(range(10_001))), "arms", ["[0, 1", "a list of 2 to 10,000 labels"]),
    "one arm": (experiment(arms=1), "arms", ["1", "a number of arms from 2 to 10,000"]),
    "one label": (experiment(arms=["x"]), "arms", ["['x']", "a list of 2 to 10,000 labels"]),
    "the same arm twice": (experiment(arms=["x", "y", "x"]), "arms", ["'x'", "twice"]),
    "a label that is a fraction": (
        experiment(arms=["x", 0.5]),
        "arms[1]",
        ["0.5", "a text of 1 to 200 characters or a whole number"],
    ),
    "an empty label": (experiment(arms=["x", ""]), "arms[1]", ["''", "a text of 1 to 200 characters"]),
    "arms in a word": (experiment(arms="xy"), "arms", ["'xy'", "a list of 2 to 10,000 labels or a number of arms"]),
    "an unknown learner": (experiment(learner="robst"), "learner", ["'robst'", "balanced", "mean 'robust'"]),
    "an unknown parameter": (
        experiment(parameters={"kapa": 1}),
        "parameters.kapa",
        ["'kapa'", "mean 'kappa'"],
    ),
    "a word for a parameter": (experiment(parameters={"kappa": []}), "parameters.kappa", ["[]", "a number or a text"]),
    "a learner that must know": (experiment(learner="damped"), "parameters.longest_delay", ["damped", "longest_delay"]),
    "a learner that needs delays": (
        experiment(learner="exp3_delayed", parameters={"horizon": 100, "total_delay": 10}),
        "learner",
        ["exp3_delayed", "must know the delay"],
    ),
    "a long name": (experiment(name="n" * 101), "name", ["nnnn", "1 to 100"]),
    "a name with a slash": (experiment(name="a/b"), "name", ["'a/b'", "letters, digits"]),
    "an empty name": (experiment(name=""), "name", ["''", "1 to 100"]),
    "a name with a line break": (experiment(name="new\n"), "name", ["'new\\n'", "letters, digits"]),
    "no name": ({"arms": 2}, "name", ["name", "missing"]),
    "a negative seed": (experiment(seed=-1), "seed", ["-1", "a whole number from 0 to"]),
    "a large seed": (experiment(seed=MOST_SEED + 1), "seed", [str(MOST_SEED + 1), f"to {MOST_SEED:,}"]),
    "another word for missing": (experiment(missing="never"), "missing", ["'never'", "wait"]),
    "no time": (experiment(missing={"deadline": 0, "loss": 1}), "missing.deadline", ["0", "a number above 0"]),
    "much time": (
        experiment(missing={"deadline": 10 * MOST_SECONDS, "loss": 1}),
        "missing.deadline",
        [str(10 * MOST_SECONDS), f"at most {MOST_SECONDS:,}"],
    ),
    "a default loss too large": (
        experiment(missing={"deadline": 5, "loss": 2}),
        "missing.loss",
        ["2", "a number from 0 to 1"],
    ),
    "an unknown field": (experiment(weights=[1, 2]), "weights", ["weights", "name, arms, learner"]),
    "a list": ([experiment()], None, ["object"]),
}


def refuse(http: httpx.Client, path: str, case: tuple[Any, str | None, list[str]]) -> None:
    body, field, words = case
    message = problem(http.post(path, json=body), 422, "invalid", field)
    assert [word for word in words if word not in message] == [], message
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
    ("path", "field", "words"),
    [
        (f"{EXPERIMENTS}?status=gone", "status", ["'gone'", "all or active or paused or archived"]),
        (f"{at('kept')}?digest=1", "digest", ["'1'", "false or true"]),
        (f"{at('kept')}?colour=blue", "colour", ["'colour'", "digest"]),
        (f"{at('kept', 'ledger')}?format=xml", "format", ["'xml'", "ndjson or csv or parquet"]),
        (f"{at('kept', 'ledger')}?after=-1", "after", ["'-1'", "at least 0"]),
        (f"{at('kept', 'ledger')}?after=%D9%A3", "after", ["at least 0"]),
        (f"{at('kept', 'ledger')}?after=", "after", ["''", "at least 0"]),
        (f"{at('kept', 'ledger')}?after={10**30}", "after", [str(10**30), "at least 0"]),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(http: httpx.Client, path: str, field: str, words: list[str]) -> None:
    message = problem(http.get(path), 422, "invalid", field)
    assert [word for word in words if word not in message] == [], message


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
        assert "1,048,576 bytes" in problem(response, 413, "too_large")
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
