"""Experiments that change while they run, over HTTP: arms, limits, units, several reports, fallbacks."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import pytest

from belated.client import ServiceError
from belated.ledger import open_ledger
from belated.ledger.keys import new_key
from support.clients import BOTH, client
from support.http_helpers import Body, at, create, decide, done, problem, rows, serving, state, talk
from support.refusals import refused as refusal
from support.serving import ADMIN_KEY, KINDS, Server

REVENUE = {"lowest": 0, "highest": 200}
ODD: list[str | int] = ["a/b", "50%", "ünï ☃", 7, "x y", ".", "..", "a//b/", "/retire", "?q#f"]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    workers = 1 if request.param == "sqlite" else 2
    with serving(request.param, tmp_path_factory, workers, experiments=200) as running:
        yield running


@pytest.fixture
def service(server: Server) -> Iterator[Any]:
    """Each client at one of the services."""
    with client(BOTH[server.workers - 1], server.url, ADMIN_KEY) as made:
        yield made


@contextmanager
def refused(status: int, code: str, field: str | None, *values: object) -> Iterator[None]:
    """Check that the service refuses a request, and that its message names these values."""
    with refusal(field, *values, error=ServiceError) as caught:
        yield
    assert isinstance(caught.value, ServiceError)
    assert (caught.value.status, caught.value.code) == (status, code)


def arms_of(shown: Any) -> dict[str | int, bool]:
    """Which arms take part."""
    return {each.arm: each.present for each in shown.arms}


def test_arms_come_go_and_come_back(service: Any) -> None:
    name = "arms"
    made = service.create(name, ["x", "y"], seed=1)
    assert arms_of(made) == {"x": True, "y": True}
    service.decide_many(name, 5)
    added = service.add_arm(name, "z")
    assert arms_of(added) == {"x": True, "y": True, "z": True}
    assert [(each.arm, each.entered, each.decisions) for each in added.arms][2] == ("z", 5, 0)
    assert service.add_arm(name, "z") == added
    gone = service.retire_arm(name, "x")
    assert arms_of(gone) == {"x": False, "y": True, "z": True}
    assert {each.arm for each in service.decide_many(name, 20)} == {"y", "z"}
    with refused(422, "invalid", "arm", 2):
        service.retire_arm(name, "y")
    with refused(409, "retired", "arm", "'x'"):
        service.add_arm(name, "x")
    with refused(404, "unknown_arm", "arm", "'nobody'"):
        service.retire_arm(name, "nobody")
    back = service.restore_arm(name, "x")
    assert arms_of(back)["x"]
    assert back.arms[0].entered == 25
    (summary,) = [each for each in service.experiments() if each.name == name]
    assert summary.arms == 3
    kinds = [event.kind for event in service.ledger(name)]
    assert [kind for kind in kinds if kind != "decision"] == ["add_arm", "retire_arm", "restore_arm"]


def test_labels_travel_in_paths(service: Any) -> None:
    name = "odd"
    service.create(name, ["x", "y"], seed=1)
    for label in ODD:
        service.add_arm(name, label)
        assert arms_of(service.retire_arm(name, label))[label] is False
        assert arms_of(service.restore_arm(name, label))[label] is True
    assert list(arms_of(service.experiment(name))) == ["x", "y", *ODD]


def test_paths_of_arms_as_others_write_them(server: Server) -> None:
    with talk(server) as http:
        create(http, "paths", ("x", "y", "a/b", "ü", 7))
        for path in (
            "arms/a%2Fb/retire",
            "arms/a%2fb/restore",
            "arms/a/b/retire",
            "arms/%C3%BC/retire",
            "arms/7/retire",
        ):
            done(http.post(at("paths", path)))
        assert [each["arm"] for each in state(http, "paths")["arms"] if not each["present"]] == ["a/b", "ü", 7]
        for path in ("arms//retire", "arms/x", "arms/x/forget", "arms/x/retire/", "arms/retire"):
            problem(http.post(at("paths", path)), 404, "not_found")
        problem(http.get(at("paths", "arms/x/retire")), 405, "wrong_method")
        problem(http.get(at("paths", "arms")), 405, "wrong_method")
        problem(http.post("/v1/experiments/a%2Fb/arms/x/retire"), 400, "bad_request")
        problem(http.post(at("nobody", "arms/x/retire")), 404, "unknown_experiment", "name")
        problem(http.post(at("paths", f"arms/{quote('n' * 300)}/retire")), 404, "unknown_arm", "arm")


def test_limits_are_kept_shown_and_lifted(service: Any) -> None:
    name = "limits"
    first: Body = {"arms": [{"arm": "x", "share": 0.2}], "holdout": 0.3}
    made = service.create(name, ["x", "y", 7], learner="ucb", seed=1, limits=first)
    assert (made.limits.holdout, made.limits.arms[0].range) == (0.3, (0.2, 0.2))
    assert {each.propensity for each in service.decide_many(name, 30) if each.arm == "x"} == {0.2}
    second = service.set_limits(name, {"arms": [{"arm": 7, "floor": 0.5}]})
    assert second.limits.arms[0].range == (0.5, 1.0)
    assert service.experiment(name).limits == second.limits
    service.decide(name)
    assert service.experiment(name).arms[2].probability >= 0.5
    for limits, field, value in (
        ({"arms": [{"arm": "x", "floor": 0.6}, {"arm": "y", "floor": 0.6}]}, "arms", 1.2),
        ({"arms": [{"arm": "y", "ceiling": 0.1}], "holdout": 0.9}, "arms", "'y'"),
        ({"arms": [{"arm": "nobody", "floor": 0.6}]}, "arms", "'nobody'"),
        ({"arms": [{"arm": "x", "floor": 1.6}]}, "arms[0].floor", 1.6),
        ({"holdout": -1}, "holdout", -1),
        ({"holdouts": 0.1}, "holdouts", "holdouts"),
    ):
        with refused(422, "invalid", field, value):
            service.set_limits(name, limits)
    assert service.experiment(name).limits == second.limits
    assert service.set_limits(name, None).limits is None
    for limit in ({"arm": "x", "floor": 0.9, "ceiling": 0.1}, {"arm": "z", "floor": 0.9}):
        with refused(422, "invalid", "limits.arms", repr(limit["arm"])):
            service.create("unmade", ["x", "y"], limits={"arms": [limit]})


def test_outcomes_in_units(service: Any) -> None:
    name = "units"
    made = service.create(name, ["x", "y"], learner="exp3", seed=1, outcome=REVENUE)
    assert (made.outcome.lowest, made.outcome.highest, made.outcome.better) == (0.0, 200.0, "higher")
    ids = [each.id for each in service.decide_many(name, 6)]
    assert service.observe(name, ids[0], value=50).receipt == "used"
    assert service.observe(name, ids[0], value=50).first == "used"
    assert service.observe(name, ids[1], value=250.5, report="order-7").receipt == "used"
    assert service.observe(name, ids[2], reward=0.5).receipt == "used"
    assert [each.receipt for each in service.observe_many(name, values={ids[3]: 10, ids[4]: -1})] == ["used"] * 2
    with refused(409, "conflict", "loss", 0.75, 0.745):
        service.observe(name, ids[0], value=51)
    shown = service.experiment(name)
    assert (shown.outcomes.used, shown.outcomes.clipped) == (5, 2)
    values = [50.0, 200.0, 100.0, 10.0, 0.0]
    events = [event for event in service.ledger(name) if event.kind == "outcome"]
    assert [event.value for event in events] == [50.0, 250.5, None, 10.0, -1.0]
    assert events[1].report == "order-7"
    for each in shown.arms:
        mine = [value for value, event in zip(values, events, strict=True) if event.arm == each.arm]
        assert each.mean_value == (pytest.approx(sum(mine) / len(mine)) if mine else None)
    for wrong in ({"value": 5, "loss": 0.5}, {"loss": 0.5, "reward": 0.5}, {}):
        with pytest.raises(ServiceError):
            service.observe(name, ids[5], **wrong)
    estimates = service.estimates(name)
    assert all(0.0 <= each.mean.low <= each.mean.high <= 200.0 for each in estimates.arms)
    assert max(each.mean.high for each in estimates.arms) > 1.0


def test_values_beyond_the_range_are_refused_where_that_is_wanted(service: Any) -> None:
    name = "refuses"
    service.create(name, ["x", "y"], seed=1, outcome={**REVENUE, "better": "lower", "beyond": "refuse"})
    ids = [each.id for each in service.decide_many(name, 2)]
    with refused(422, "invalid", "value", 201, 0, 200):
        service.observe(name, ids[0], value=201)
    receipts = service.observe_many(name, values={ids[0]: -1, ids[1]: 200})
    assert [each.receipt for each in receipts] == ["refused", "used"]
    assert "-1" in receipts[0].message
    assert receipts[0].field == "value"
    assert [each.mean_loss for each in service.experiment(name).arms if each.outcomes] == [1.0]


@pytest.mark.parametrize("word", ["reward", "loss"])
def test_a_number_above_1_is_refused(service: Any, word: str) -> None:
    name = f"advice-{word}"
    service.create(name, ["x", "y"], seed=1)
    made = service.decide(name)
    for given in (word, "value"):  # the experiment has no units
        with refused(422, "invalid", given):
            service.observe(name, made, **{given: 12.5})


def test_reports_are_added_up_until_one_is_final(service: Any) -> None:
    name = "sum"
    made = service.create(name, ["x", "y"], learner="exp3", seed=1, outcome=REVENUE, reports="sum")
    assert made.reports == "sum"
    (one, two) = service.decide_many(name, 2)
    assert service.observe(name, one, value=80, report="order-1").receipt == "held"
    again = service.observe(name, one, value=80, report="order-1")
    assert (again.receipt, again.first) == ("repeated", "held")
    assert service.observe(name, one, value=40, report="order-2").receipt == "held"
    assert service.observe(name, one, value=-20).receipt == "held"  # under an id of its own
    with refused(409, "conflict", "report", "'order-1'", 80, 81):
        service.observe(name, one, value=81, report="order-1")
    with refused(422, "invalid", "final"):
        service.observe(name, two, final=True)
    assert [each.receipt for each in service.observe_many(name, values={two.id: 10})] == ["held"]
    assert service.experiment(name).outcomes.held == 2
    assert service.observe(name, one, final=True).receipt == "used"
    assert service.observe(name, one, final=True).first == "used"
    assert service.observe(name, one, value=5, report="order-3").receipt == "skipped"
    assert service.observe(name, two, value=10, report="order-1", final=True).receipt == "used"
    shown = service.experiment(name)
    assert (shown.outcomes.used, shown.outcomes.skipped, shown.outcomes.held) == (2, 1, 0)
    settled = [event for event in service.ledger(name) if event.kind == "settled"]
    assert [event.total for event in settled] == [100.0, 20.0]
    assert [event.loss for event in settled] == [0.5, 0.9]


def test_a_report_that_says_too_little_or_too_much(server: Server) -> None:
    with talk(server) as http:
        create(http, "sums", outcome=REVENUE, reports="sum")
        decide(http, "sums", "d")
        post = at("sums", "outcomes")
        for body, field in (
            ({"decision": "d", "value": 5}, "report"),
            ({"decision": "d", "loss": 0.5, "report": "r"}, "value"),
            ({"decision": "d"}, "loss"),
            ({"decision": "d", "final": False}, "loss"),
            ({"decision": "d", "value": 5, "reward": 1, "report": "r"}, "value"),
            ({"decision": "d", "value": "5", "report": "r"}, "value"),
            ({"decision": "d", "value": 5, "report": "a b"}, "report"),
            ({"decision": "d", "value": 5, "report": "r", "final": 1}, "final"),
            ({"decision": "d", "value": 1e301, "report": "r"}, "value"),
        ):
            problem(http.post(post, json=body), 422, "invalid", field)
        problem(
            http.post(post, json=[{"decision": "d", "value": 1, "report": "r"}, {"decision": "d"}]),
            422,
            "invalid",
            "[1].loss",
        )
        answers = done(
            http.post(post, json=[{"decision": "d", "value": 5}, {"decision": "d", "value": 5, "report": "r"}])
        )
        assert [each["receipt"] for each in answers] == ["refused", "held"]
        assert answers[0]["field"] == "report"
        assert state(http, "sums")["outcomes"]["held"] == 1
        create(http, "firsts")
        decide(http, "firsts", "d")
        body = {"decision": "d", "loss": 1, "final": True}
        problem(http.post(at("firsts", "outcomes"), json=body), 422, "invalid", "final")


def test_fallbacks_are_counted_once(service: Any) -> None:
    name = "fallbacks"
    service.create(name, ["x", 7], seed=1)
    assert service.report_fallbacks(name, 120, arm="x", id="outage-3").receipt == "counted"
    assert service.report_fallbacks(name, 120, arm="x", id="outage-3").receipt == "repeated"
    assert service.report_fallbacks(name, 3, arm=7).receipt == "counted"
    shown = service.experiment(name)
    assert (shown.fallbacks, shown.rounds, shown.events) == (123, 0, 2)
    with refused(404, "unknown_arm", "arm", "'nobody'"):
        service.report_fallbacks(name, 1, arm="nobody")
    for count in (0, -1, 10**13):
        with refused(422, "invalid", "count", count):
            service.report_fallbacks(name, count, arm="x")
    (event, _) = [event for event in service.ledger(name) if event.kind == "fallbacks"]
    assert (event.decision, event.arm, event.detail) == ("outage-3", "x", "120")


def key(server: Server, role: str, experiments: list[str] | None = None) -> str:
    secret, made = new_key("somebody", role, experiments=experiments)
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(made)
    return secret


def test_who_may_change_what(server: Server) -> None:
    changes: list[tuple[str, str, Body | None]] = [
        ("POST", "arms", {"arm": "new"}),
        ("POST", "arms/x/retire", None),
        ("POST", "arms/x/restore", None),
        ("PUT", "limits", {"holdout": 0.1}),
    ]
    told: Body = {"id": "f", "arm": "x", "count": 1}
    with talk(server) as admin:
        create(admin, "ruled", ("x", "y", "z"))
        before = state(admin, "ruled")
    for role in ("read", "decide"):
        with talk(server, key(server, role)) as http:
            for method, path, body in changes:
                problem(http.request(method, at("ruled", path), json=body), 403, "wrong_role")
            if role == "read":
                problem(http.post(at("ruled", "fallbacks"), json=told), 403, "wrong_role")
    with talk(server, None) as http:
        for method, path, body in changes:
            problem(http.request(method, at("ruled", path), json=body), 401, "no_key")
    for role in ("admin", "decide"):
        with talk(server, key(server, role, ["other-*"])) as http:
            for method, path, body in [*changes, ("POST", "fallbacks", told)]:
                if role == "admin" or path == "fallbacks":
                    problem(http.request(method, at("ruled", path), json=body), 403, "wrong_scope", "name")
    with talk(server) as admin:
        assert state(admin, "ruled") == before
    with talk(server, key(server, "decide")) as http:
        assert done(http.post(at("ruled", "fallbacks"), json=told)) == {"id": "f", "receipt": "counted"}
    secret = key(server, "admin", ["rul*"])
    with talk(server, secret) as http, talk(server) as admin:
        for method, path, body in changes:
            done(http.request(method, at("ruled", path), json=body))
        events = rows(admin, "ruled")
    assert [event["kind"] for event in events] == ["fallbacks", "add_arm", "retire_arm", "restore_arm", "limits"]
    assert len({event["key"] for event in events[1:]}) == 1
    assert None not in {event["key"] for event in events}


def test_archived_experiments_stay_as_they_are(server: Server) -> None:
    with talk(server) as http:
        create(http, "archived", ("x", "y", "z"))
        done(http.post(at("archived", "archive")))
        before = state(http, "archived")
        problem(http.post(at("archived", "arms"), json={"arm": "new"}), 409, "archived")
        problem(http.post(at("archived", "arms/x/retire")), 409, "archived")
        problem(http.put(at("archived", "limits"), json={}), 409, "archived")
        problem(http.post(at("archived", "fallbacks"), json={"id": "f", "arm": "x", "count": 1}), 409, "archived")
        assert state(http, "archived") == before


def test_learners_that_cannot_are_refused(server: Server) -> None:
    with talk(server) as http:
        create(http, "bold", learner="bold")
        assert "'bold'" in problem(http.post(at("bold", "arms"), json={"arm": "new"}), 422, "invalid", "arm")


def test_several_workers_and_a_stream_see_changes(server: Server) -> None:
    with talk(server) as one, talk(server) as two:
        create(one, "seen", ("x", "y"))
        for k in range(6):
            http, other = (one, two) if k % 2 else (two, one)
            done(http.post(at("seen", "arms"), json={"arm": f"new-{k}"}))
            assert [each["arm"] for each in state(other, "seen")["arms"]][-1] == f"new-{k}"
            done(other.put(at("seen", "limits"), json={"arms": [{"arm": f"new-{k}", "floor": 0.1 + k / 100}]}))
            assert decide(http, "seen", f"d{k}")[0]["round"] == k + 1
            (mine,) = [each for each in state(http, "seen")["arms"] if each["arm"] == f"new-{k}"]
            assert mine["probability"] >= 0.1 + k / 100 - 1e-12
        with one.stream("GET", at("seen", "stream")) as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("data:"))
            assert '"new-5"' in next(lines)
            done(two.post(at("seen", "arms/new-5/retire")))
            assert '"present":false' in next(lines)
