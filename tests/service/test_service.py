"""The service over HTTP: experiments, decisions and outcomes, on both stores."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest

from belated import __version__
from belated.api import types
from support.http_helpers import EXPERIMENTS, at, create, decide, done, observe, problem, rows, serving, state, talk
from support.serving import KINDS, Server
from support.waiting import until


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with talk(server) as connection:
        yield connection


def test_a_new_experiment_is_shown_whole(http: httpx.Client) -> None:
    settings = {"learner": "robust", "parameters": {"delay_constant": 2}, "missing": {"deadline": 3600, "loss": 0.5}}
    body = {"name": "whole", "arms": ["blue", 7, "grün"], "seed": 5, **settings}
    response = http.post(EXPERIMENTS, json=body)
    made = msgspec.json.decode(response.content, type=types.Experiment)
    assert response.status_code == 201
    assert (made.name, made.status, made.learner, made.seed) == ("whole", "active", "robust", 5)
    assert made.parameters == {"delay_constant": 2.0}
    assert made.missing == types.Deadline(3600.0, 0.5)
    assert [(arm.arm, arm.decisions, arm.outcomes, arm.mean_loss) for arm in made.arms] == [
        ("blue", 0, 0, None),
        (7, 0, 0, None),
        ("grün", 0, 0, None),
    ]
    assert sum(arm.probability for arm in made.arms) == pytest.approx(1)
    assert (made.rounds, made.outstanding, made.skipped, made.events) == (0, 0, 0, 0)
    assert made.outcomes == types.OutcomeCounts(0, 0, 0)
    assert made.delays.seconds == types.Quantiles(None, None, None)
    assert made.digest is msgspec.UNSET
    assert abs(time.time() - datetime.fromisoformat(made.created).timestamp()) < 60
    assert msgspec.json.decode(http.get(at("whole")).content, type=types.Experiment) == made


def test_a_number_of_arms_and_no_seed_will_do(http: httpx.Client) -> None:
    first, second = (done(http.post(EXPERIMENTS, json={"name": name, "arms": 4}), 201) for name in ("four", "fore"))
    assert [arm["arm"] for arm in first["arms"]] == [0, 1, 2, 3]
    assert (first["learner"], first["missing"], first["parameters"]) == ("guarded", "wait", {})
    assert first["seed"] != second["seed"]
    assert 0 <= first["seed"] < 2**53


def test_the_same_create_again_answers_with_the_experiment_there_is(http: httpx.Client) -> None:
    body = {"name": "again", "arms": ["x", "y"], "seed": 3}
    done(http.post(EXPERIMENTS, json=body), 201)
    decide(http, "again", "one")
    there = state(http, "again")
    del there["digest"]
    assert done(http.post(EXPERIMENTS, json=body)) == there
    assert done(http.post(EXPERIMENTS, json={"name": "again", "arms": ["x", "y"]})) == there


@pytest.mark.parametrize(
    "other",
    [
        {"arms": ["x", "z"]},
        {"arms": ["y", "x"]},
        {"arms": 2},
        {"seed": 4},
        {"learner": "robust"},
        {"parameters": {"kappa": 0.5}},
        {"missing": {"deadline": 5, "loss": 1}},
    ],
)
def test_a_different_create_is_refused(http: httpx.Client, other: dict[str, Any]) -> None:
    body = {"name": "different", "arms": ["x", "y"], "seed": 3}
    assert http.post(EXPERIMENTS, json=body).status_code in (200, 201)
    before = state(http, "different")
    message = problem(http.post(EXPERIMENTS, json=body | other), 409, "exists", "name")
    assert "'different'" in message
    assert state(http, "different") == before


def test_of_creates_at_once_one_is_the_first(server: Server) -> None:
    def ask(_: int) -> tuple[int, int]:
        with talk(server) as mine:
            response = mine.post(EXPERIMENTS, json={"name": "race", "arms": 3})
        return response.status_code, response.json()["seed"]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert sorted(status for status, _ in answers) == [200] * 7 + [201]
    assert len({seed for _, seed in answers}) == 1


def test_experiments_are_listed_by_status_in_the_order_of_their_creation(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with serving("sqlite", tmp_path_factory, experiments=3) as server, talk(server) as http:
        assert done(http.get(EXPERIMENTS)) == {"experiments": []}
        for name in ("c", "a", "b"):
            create(http, name)
        decide(http, "a", "1", "2")
        done(http.post(at("a", "pause")))
        done(http.post(at("b", "archive")))
        found = msgspec.json.decode(http.get(EXPERIMENTS).content, type=types.Experiments).experiments
        assert [(each.name, each.status, each.arms, each.rounds, each.events) for each in found] == [
            ("c", "active", 2, 0, 0),
            ("a", "paused", 2, 2, 3),
            ("b", "archived", 2, 0, 1),
        ]
        for status, names in (("all", "cab"), ("active", "c"), ("paused", "a"), ("archived", "b")):
            listed = done(http.get(EXPERIMENTS, params={"status": status}))["experiments"]
            assert [each["name"] for each in listed] == list(names)


def test_archived_experiments_do_not_count(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, experiments=2) as server, talk(server) as http:
        for k in range(6):
            create(http, f"old-{k}")
            done(http.post(at(f"old-{k}", "archive")))
        create(http, "a")
        create(http, "b")
        done(http.post(at("b", "pause")))
        problem(http.post(EXPERIMENTS, json={"name": "c", "arms": 2}), 422, "too_many")
        done(http.post(at("b", "archive")))
        create(http, "c")


def test_a_paused_experiment_decides_nothing_new_and_takes_outcomes(http: httpx.Client) -> None:
    create(http, "pausing")
    (first, _) = decide(http, "pausing", "one", "two")
    assert done(http.post(at("pausing", "pause")))["status"] == "paused"
    paused = done(http.post(at("pausing", "pause")))
    assert paused["events"] == 3  # to pause what is paused is no event
    for body in ({"id": "new"}, [{"id": "one"}, {"id": "new"}], {}):
        assert "'pausing'" in problem(http.post(at("pausing", "decisions"), json=body), 409, "paused")
    assert decide(http, "pausing", "one") == [first]
    assert observe(http, "pausing", {"two": 0.5}) == [{"decision": "two", "receipt": "used"}]
    assert done(http.post(at("pausing", "resume")))["status"] == "active"
    assert decide(http, "pausing", "new")[0]["round"] == 3
    assert [row["kind"] for row in rows(http, "pausing")] == [
        *("decision", "decision", "pause", "outcome", "resume", "decision")
    ]


def test_an_archived_experiment_stays_so(http: httpx.Client) -> None:
    create(http, "old")
    (first,) = decide(http, "old", "one")
    assert done(http.post(at("old", "archive")))["status"] == "archived"
    assert done(http.post(at("old", "archive")))["events"] == 2
    for word in ("pause", "resume"):
        problem(http.post(at("old", word)), 409, "archived")
    problem(http.post(at("old", "decisions")), 409, "archived")
    assert decide(http, "old", "one") == [first]
    assert observe(http, "old", {"one": 1}) == [{"decision": "one", "receipt": "used"}]
    assert state(http, "old")["status"] == "archived"


def test_one_decision_has_an_arm_of_the_experiment_and_its_chance(http: httpx.Client) -> None:
    create(http, "single", ("x", 8))
    response = http.post(at("single", "decisions"), json={"id": "visit-1"})
    made = msgspec.json.decode(response.content, type=types.DecisionResponse)
    assert (made.id, made.round, made.propensity) == ("visit-1", 1, 0.5)
    assert made.arm in ("x", 8)
    assert done(http.post(at("single", "decisions"), json={"id": "visit-1"})) == response.json()
    for nameless in (http.post(at("single", "decisions")), http.post(at("single", "decisions"), json={"id": None})):
        assert UUID(done(nameless)["id"]).version == 7
    assert state(http, "single")["rounds"] == 3


def test_a_thousand_decisions_and_outcomes_at_once(http: httpx.Client) -> None:
    create(http, "many", 5, learner="balanced")
    ids = [f"n{k}" for k in range(1000)]
    made = decide(http, "many", *ids)
    assert [(each["id"], each["round"]) for each in made] == [(id, k) for k, id in enumerate(ids, 1)]
    shown = state(http, "many")
    assert [sum(each["arm"] == arm for each in made) for arm in range(5)] == [arm["decisions"] for arm in shown["arms"]]
    receipts = observe(http, "many", dict.fromkeys(reversed(ids), 0.25))
    assert [each["decision"] for each in receipts] == ids[::-1]
    after = state(http, "many")
    kinds = [each["receipt"] for each in receipts]
    counts = {"used": kinds.count("used"), "skipped": kinds.count("skipped"), "defaults": 0, "held": 0, "clipped": 0}
    assert after["outcomes"] == counts
    assert (after["rounds"], after["events"]) == (1000, 2000)
    assert all(arm["mean_loss"] == 0.25 for arm in after["arms"] if arm["outcomes"])
    assert sum(arm["outcomes"] for arm in after["arms"]) == 1000


def test_ids_that_come_twice_are_decided_once(http: httpx.Client) -> None:
    create(http, "twice")
    first, second, third = decide(http, "twice", "a", "b", "a")
    assert first == third
    assert (first["round"], second["round"]) == (1, 2)
    nameless = done(http.post(at("twice", "decisions"), json=[{}, {"id": "b"}, {}]))
    assert nameless[1] == second
    assert [each["round"] for each in nameless] == [3, 2, 4]
    assert state(http, "twice")["rounds"] == 4


def test_every_receipt_of_one_outcome(http: httpx.Client) -> None:
    create(http, "receipts", learner="balanced")
    decide(http, "receipts", *(f"n{k}" for k in range(300)))  # the learner gives up on the first of them

    def report(body: dict[str, Any]) -> httpx.Response:
        return http.post(at("receipts", "outcomes"), json=body)

    assert done(report({"decision": "n299", "loss": 0.25})) == {"decision": "n299", "receipt": "used"}
    assert done(report({"decision": "n298", "reward": 1})) == {"decision": "n298", "receipt": "used"}
    assert done(report({"decision": "n0", "loss": 1})) == {"decision": "n0", "receipt": "skipped"}
    before = state(http, "receipts")
    again = {"decision": "n299", "receipt": "repeated", "first": "used"}
    assert done(report({"decision": "n299", "loss": 0.25})) == again
    assert done(report({"decision": "n299", "reward": 0.75})) == again
    assert done(report({"decision": "n0", "loss": 1})) == {"decision": "n0", "receipt": "repeated", "first": "skipped"}
    message = problem(report({"decision": "n298", "loss": 1}), 409, "conflict", "loss")
    assert "'n298'" in message
    assert "0.0" in message
    assert "1.0" in message
    message = problem(report({"decision": "nobody", "loss": 0}), 404, "unknown_decision", "decision")
    assert "'nobody'" in message
    assert "'receipts'" in message
    assert state(http, "receipts") == before
    assert before["outcomes"] == {"used": 2, "skipped": 1, "defaults": 0, "held": 0, "clipped": 0}


def test_every_receipt_of_many_outcomes_each_for_itself(http: httpx.Client) -> None:
    create(http, "mixed", learner="balanced")
    decide(http, "mixed", *(f"n{k}" for k in range(300)))
    body = [("n299", 0.5), ("n0", 0.5), ("n299", 0.5), ("n0", 0.5), ("n299", 0.75), ("nobody", 0.5), ("n298", 1)]
    receipts = done(http.post(at("mixed", "outcomes"), json=[{"decision": id, "loss": loss} for id, loss in body]))
    typed = msgspec.convert(receipts, list[types.OutcomeReceipt])
    assert [each.decision for each in typed] == [id for id, _ in body]
    assert [each.receipt for each in typed] == [
        *("used", "skipped", "repeated", "repeated", "conflict", "unknown", "used")
    ]
    assert [each.first for each in typed[2:4]] == ["used", "skipped"]
    assert "'n299'" in str(typed[4].message)
    assert "'nobody'" in str(typed[5].message)
    assert state(http, "mixed")["events"] == 303


def test_a_passed_deadline_takes_the_default_and_skips_what_comes_late(server: Server, http: httpx.Client) -> None:
    create(http, "deadline", missing={"deadline": 3600, "loss": 0.75})
    decide(http, "deadline", "late", "in-time")
    observe(http, "deadline", {"in-time": 0.0})
    server.pass_time(3600)
    until(lambda: state(http, "deadline")["outcomes"]["defaults"] == 1)
    assert observe(http, "deadline", {"late": 0.5}) == [{"decision": "late", "receipt": "skipped"}]
    *_, default, late = rows(http, "deadline")
    assert (default["kind"], default["decision"], default["loss"], default["receipt"]) == (
        *("default", "late", 0.75, "used"),
    )
    assert default["waited"] >= 3600
    assert (late["kind"], late["loss"], late["receipt"]) == ("outcome", 0.5, "skipped")
    assert state(http, "deadline")["outcomes"] == {"used": 1, "skipped": 1, "defaults": 1, "held": 0, "clipped": 0}


def test_outcomes_that_are_held_are_learned_from_at_the_deadline(server: Server, http: httpx.Client) -> None:
    missing = {"deadline": 3600.0, "loss": 1, "learn": "deadline"}
    create(http, "held", learner="ucb", missing=missing)
    assert state(http, "held")["missing"] == missing
    decide(http, "held", "bought", "silent", "returned")
    assert observe(http, "held", {"returned": 0.5, "bought": 0.0}) == [
        {"decision": "returned", "receipt": "held"},
        {"decision": "bought", "receipt": "held"},
    ]
    report = {"decision": "bought", "loss": 0}
    again = {"decision": "bought", "receipt": "repeated", "first": "held"}
    assert done(http.post(at("held", "outcomes"), json=report)) == again
    problem(http.post(at("held", "outcomes"), json={"decision": "bought", "loss": 1}), 409, "conflict", "loss")
    before = state(http, "held")
    assert before["outcomes"] == {"used": 0, "skipped": 0, "defaults": 0, "held": 2, "clipped": 0}
    assert (before["outstanding"], before["events"]) == (3, 5)
    assert {arm["mean_loss"] for arm in before["arms"]} == {None}
    server.pass_time(3600)
    until(lambda: state(http, "held")["outcomes"]["held"] == 0)
    after = state(http, "held")
    assert after["outcomes"] == {"used": 2, "skipped": 0, "defaults": 1, "held": 0, "clipped": 0}
    assert (after["outstanding"], after["events"], after["delays"]) == (0, 8, before["delays"])
    learned = [(row["kind"], row["decision"], row["loss"], row["receipt"]) for row in rows(http, "held")[3:]]
    assert learned == [
        ("outcome", "returned", 0.5, "held"),
        ("outcome", "bought", 0.0, "held"),
        ("settled", "bought", 0.0, "used"),
        ("default", "silent", 1.0, "used"),
        ("settled", "returned", 0.5, "used"),
    ]
    assert all(row["waited"] >= 3600 for row in rows(http, "held")[5:])
    assert done(http.post(at("held", "outcomes"), json=report)) == again
    assert observe(http, "held", {"silent": 0.0}) == [{"decision": "silent", "receipt": "skipped"}]
    assert state(http, "held")["outcomes"] == {"used": 2, "skipped": 1, "defaults": 1, "held": 0, "clipped": 0}


def test_a_floor_under_the_shares_of_arms(http: httpx.Client) -> None:
    """Drawn with, shown, recorded, and one of the settings that an experiment has for good."""
    body = {"name": "floored", "arms": ["a", "b", "c", "d"], "learner": "ucb", "seed": 5, "share_floor": 0.1}
    made = done(http.post(EXPERIMENTS, json=body), 201)
    assert (made["share_floor"], made["parameters"], made["learner"]) == (0.1, {}, "ucb")
    decisions = done(http.post(at("floored", "decisions"), json=[{"id": f"d{k}"} for k in range(100)]))
    assert {each["propensity"] for each in decisions} == {0.1, 0.1 + (1 - 4 * 0.1)}
    assert {each["arm"] for each in decisions} == {"a", "b", "c", "d"}
    assert [float(row["propensity"]) for row in rows(http, "floored")] == [each["propensity"] for each in decisions]
    shown = state(http, "floored")
    assert shown["share_floor"] == 0.1
    assert sorted(arm["probability"] for arm in shown["arms"])[:3] == [0.1] * 3
    assert done(http.post(EXPERIMENTS, json=body))["rounds"] == 100
    for other in ({**body, "share_floor": 0.2}, {key: body[key] for key in body if key != "share_floor"}):
        problem(http.post(EXPERIMENTS, json=other), 409, "exists", "name")
    plain = {"name": "no-floor", "arms": 2, "learner": "ucb", "seed": 5}
    assert done(http.post(EXPERIMENTS, json=plain), 201)["share_floor"] == 0.0
    assert done(http.post(EXPERIMENTS, json={**plain, "share_floor": 0}))["share_floor"] == 0.0


def test_healthy_and_ready(http: httpx.Client) -> None:
    for path in ("/healthz", "/readyz"):
        response = http.get(path)
        assert response.status_code == 200
        assert msgspec.json.decode(response.content, type=types.Health) == types.Health("ok", __version__)
