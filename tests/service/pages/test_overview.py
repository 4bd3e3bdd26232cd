"""The list of experiments: what is wrong is said, curves of the last day, a ledger that is away."""

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from belated.api.types import (
    ArmState,
    ArmTimeline,
    Deadline,
    DelayQuantiles,
    Experiment,
    ExperimentTimeline,
    LastDay,
    OutcomeCounts,
    OutcomeScale,
    Quantiles,
)
from belated.ledger.events import Status
from belated.service.pages.experiment import facts, missing
from belated.service.pages.overview import last_day
from belated.service.pages.parts import holding, holding_since, last_decision, listed, problems, share_bar
from belated.service.reading import Look
from belated.service.views import WaitsFor
from belated.service.words import ago, duration, percent
from support.elements import Node, read_html
from support.pages import HOSTILE, fill, visiting
from support.postgres import Postgres
from support.serving import Server, Stores
from support.waiting import until

Show = Callable[..., Node]

NOTHING = Quantiles(None, None, None)


def shown(rounds: int, outcomes: OutcomeCounts, arms: list[tuple[int, int]], warnings: list[str]) -> Experiment:
    return Experiment(
        name="one",
        status="active",
        created="2026-01-01T00:00:00.000000Z",
        learner="guarded",
        parameters={},
        seed=1,
        missing="wait",
        rounds=rounds,
        outstanding=0,
        skipped=0,
        patience=None,
        drift=1.0,
        delay_cost=0.0,
        warnings=warnings,
        outcomes=outcomes,
        delays=DelayQuantiles(NOTHING, NOTHING),
        arms=[ArmState(k, 0.5, *counts, None, True, None, 0) for k, counts in enumerate(arms)],
        events=rounds,
    )


def counts(used: int, skipped: int = 0, defaults: int = 0, held: int = 0) -> OutcomeCounts:
    return OutcomeCounts(used=used, skipped=skipped, defaults=defaults, held=held, clipped=0)


def test_what_is_wrong_is_said() -> None:
    """Each problem names its numbers; the words are in tests/messages/cli.py."""

    def said(shown: Experiment) -> list[list[str]]:
        return [[word for word in each.replace(":", "").split() if word.isdigit()] for each in problems(shown)]

    assert said(shown(500, counts(400), [(250, 200), (250, 200)], [])) == []
    assert said(shown(99, counts(0), [(50, 0), (49, 0)], [])) == []
    assert said(shown(100, counts(0), [(50, 0), (50, 0)], [])) == [["100"]]
    assert said(shown(100, counts(0, held=50), [(100, 0), (0, 0)], [])) == []
    assert said(shown(100, counts(0, defaults=50), [(100, 50), (0, 0)], [])) == []
    assert problems(shown(300, counts(200), [(200, 200), (100, 0)], [])) != []
    assert said(shown(300, counts(200), [(201, 201), (99, 0)], [])) == []
    summed = msgspec.structs.replace(shown(300, counts(0, held=100), [(200, 0), (100, 0)], []), reports="sum")
    assert len(problems(summed)) == 1
    assert problems(msgspec.structs.replace(summed, missing=Deadline(60.0, 1.0))) == []
    assert said(shown(300, counts(49, skipped=51), [(200, 50), (100, 50)], [])) == [["51", "100"]]
    assert said(shown(300, counts(50, skipped=50), [(200, 50), (100, 50)], [])) == []
    warned = "51 outcomes came after learner 'robust' had skipped their decisions"
    assert problems(shown(300, counts(49, skipped=51), [(200, 50), (100, 50)], [warned])) == [warned]


def test_a_decision_that_holds_up_the_verdict_is_told_when_it_takes_long() -> None:
    """Long is three times as long as 99 % of the outcomes took, and a minute at least."""
    fast = Quantiles(1.0, 2.0, 100.0)
    slow = msgspec.structs.replace(shown(500, counts(499), [(500, 499)], []), delays=DelayQuantiles(fast, fast))
    one = WaitsFor(100, "visit-17", 1000.0)
    assert holding_since(slow, one) == 1300.0
    quick = msgspec.structs.replace(slow, delays=DelayQuantiles(fast, Quantiles(0.1, 0.1, 0.2)))
    assert holding_since(quick, one) == 1060.0
    for never in (
        msgspec.structs.replace(slow, missing=Deadline(60.0, 1.0)),
        msgspec.structs.replace(slow, delays=DelayQuantiles(NOTHING, NOTHING)),
        msgspec.structs.replace(slow, rounds=199),
    ):
        assert holding_since(never, one) == math.inf
        assert holding(never, one, 1e9)["problem"] == ""
    before, after = holding(slow, one, 1299.0), holding(slow, one, 1300.0)
    assert (before["id"], before["name"], before["problem"]) == ("visit-17", "visit-17", "")
    assert "400" in after["problem"]
    erased = holding(slow, WaitsFor(1234, None, 1000.0), 1010.0)
    assert (erased["id"], "1,234" in erased["name"]) == (None, True)


def timeline(begin: float, seconds: float, decisions: list[int], day: LastDay | None = None) -> ExperimentTimeline:
    arms = [ArmTimeline("a", decisions, [0] * len(decisions), [0.0] * len(decisions))]
    day = day or LastDay(0.0, 1800.0, [], [])
    return ExperimentTimeline("one", begin, seconds, arms, [0] * len(decisions), [], [], None, day)


def test_curves_are_of_the_last_day() -> None:
    def curve(line: ExperimentTimeline, now: float) -> tuple[int, list[int]]:
        return last_day(line, "decisions", now)

    assert curve(timeline(0.0, 10.0, [1, 2, 3, 4]), 39.0) == (10, [1, 2, 3])
    assert curve(timeline(0.0, 10.0, [5]), 4.0) == (5, [5])
    assert curve(timeline(0.0, 10.0, []), 4.0) == (0, [])
    assert curve(timeline(0.0, 10.0, [1, 2]), 45.0) == (3, [1, 2, 0, 0])  # nothing since
    total, many = curve(timeline(0.0, 10.0, [1] * 240), 2399.0)
    assert (total, len(many), set(many)) == (240, 47, {5})
    total, seen = curve(timeline(0.0, 1800.0, [100] * 10 + [1] * 48), 58 * 1800.0 - 1.0)
    assert (total, seen) == (48, [1] * 47)


def test_of_an_old_experiment_the_last_day_is_counted_apart() -> None:
    """Its stretches are days long."""
    now = 400 * 86400.0
    day = LastDay(now - 49 * 1800.0, 1800.0, [50] + [2] * 48, [3] * 49)
    old = timeline(0.0, 3 * 86400.0, [5000] * 134, day)
    total, curve = last_day(old, "decisions", now - 1.0)
    assert (total, curve) == (96, [2] * 47)
    assert last_day(old, "outcomes", now - 1.0)[0] == 3 * 48
    assert last_day(old, "decisions", now + 12 * 3600.0)[0] == 48
    total, curve = last_day(old, "decisions", now + 30 * 86400.0)
    assert (total, set(curve), len(curve)) == (0, {0}, 47)


def test_what_an_experiment_is_said_in_its_own_units() -> None:
    one = shown(0, counts(0), [(0, 0)], [])
    late = msgspec.structs.replace(one, missing=Deadline(90.0, 0.75))
    for scale, value in (
        (None, "reward of 0.25"),
        (OutcomeScale(0.0, 400.0), "value of 100"),
        (OutcomeScale(0.0, 400.0, "lower"), "value of 300"),
    ):
        assert f"90 seconds counts with a {value}." in missing(msgspec.structs.replace(late, outcome=scale))
    at_once = msgspec.structs.replace(late, missing=Deadline(90.0, 0.75, "deadline"))
    assert len({missing(one), missing(late), missing(at_once)}) == 3
    look = Look(0, Status.ACTIVE, msgspec.structs.replace(one, delay_cost=-0.05), timeline(0.0, 10.0, []))
    assert facts(look, 0.0)["cost"] == "-0.05"
    scaled = msgspec.structs.replace(look.experiment, outcome=OutcomeScale(0.0, 400.0))
    assert facts(look._replace(experiment=scaled), 0.0)["cost"] == "-20"
    unsaid = msgspec.structs.replace(look.experiment, delay_cost=None)
    assert facts(look._replace(experiment=unsaid), 0.0)["cost"] == "–"


def test_when_the_last_decision_was() -> None:
    line = timeline(0.0, 3 * 86400.0, [5000] * 134)
    assert last_decision(line, 80.0) == "never"
    assert last_decision(msgspec.structs.replace(line, last_decision=20.0), 80.0) == "60 seconds ago"
    assert last_decision(msgspec.structs.replace(line, last_decision=100.0), 80.0) == "now"  # another clock


def test_bars_of_many_arms_are_short() -> None:
    few = share_bar(shown(0, counts(0), [(0, 0)] * 2, []))
    assert [(part["begin"], part["width"]) for part in few["parts"]] == [("0.000", "50.000"), ("50.000", "50.000")]
    assert (len(few["legend"]), few["more"]) == (2, 0)
    retired = [ArmState(k, share, 0, 0, None, k < 2, None, 0) for k, share in enumerate((0.2, 0.6, 0.2))]
    rest = share_bar(msgspec.structs.replace(shown(0, counts(0), [], []), arms=retired))
    assert [(part["begin"], part["width"]) for part in rest["parts"]] == [("0.000", "25.000"), ("25.000", "75.000")]
    arms = [ArmState(k, k / 499500.0, 0, 0, None, k != 999, None, 0) for k in range(1000)]
    bar = share_bar(msgspec.structs.replace(shown(0, counts(0), [], []), arms=arms))
    assert [part["label"] for part in bar["parts"]] == [str(k) for k in range(975, 999)]
    assert [part["label"] for part in bar["legend"]] == [str(k) for k in range(991, 999)]
    assert bar["more"] == 999 - 8
    arms = [ArmState(k, 0.0, 1000 * (k % 7 == 0), 0, None, True, None, 0) for k in range(1000)]
    busy = msgspec.structs.replace(shown(0, counts(0), [], []), arms=arms)
    assert [arm["label"] for arm in listed(busy)] == [str(k) for k in range(0, 700, 7)]


def test_times_and_shares_in_words() -> None:
    assert [ago(each) for each in (0.2, 5.0, 119.0, 120.0, 7200.0, 3 * 86400.0)] == [
        "now",
        "5 seconds ago",
        "119 seconds ago",
        "2 minutes ago",
        "2 hours ago",
        "3 days ago",
    ]
    assert [duration(each) for each in (0.0, 0.05, 1.0, 1.44, 90.0, 9000.0, 604800.0)] == [
        "0 seconds",
        "0.05 seconds",
        "1 second",
        "1.4 seconds",
        "90 seconds",
        "2.5 hours",
        "7 days",
    ]
    assert [percent(each) for each in (0.0, 0.012, 0.1, 1.0)] == ["0 %", "1.2 %", "10 %", "100 %"]


def cards(page: Node) -> dict[str, Node]:
    """The experiments of a list, by name."""
    return {card.one("h2").text: card for card in page.all("li", class_="card")}


def test_the_list_shows_and_finds_experiments(show: Show, server: Server) -> None:
    with server.client() as client:
        client.create("hostile", [HOSTILE, "tame"])
        client.create("over", ["a", "b"])
        client.archive("over")
    found = cards(show("/"))
    assert {"button", "minutes", "hostile", "over"} <= set(found)
    assert found["hostile"].one("p", class_="legend").texts("bdi") == [HOSTILE, "tame"]
    assert found["over"].one(class_="badge").text == "archived"
    assert list(cards(show("/?q=INUTE"))) == ["minutes"]
    assert "over" in cards(show("/?status=archived"))
    assert not cards(show("/?status=archived&q=minutes"))
    assert "over" not in cards(show("/?status=active"))


def test_the_list_says_which_arm_wins(show: Show, server: Server) -> None:
    with server.client() as client:
        client.create("won", ["good", "bad"])
        made = client.decide_many("won", 600)
        client.observe_many("won", rewards={each.id: float(each.arm == "good") for each in made})
        client.create("nothing-yet", ["a", "b"])
        client.create("close", ["one", "other"])
        made = client.decide_many("close", 40)
        client.observe_many("close", rewards={each.id: float(k % 2) for k, each in enumerate(made)})

    def verdicts() -> bool:
        """It takes no longer than the list may take, so perhaps it comes the next time."""
        found = cards(show("/"))
        told = {name: found[name].all("dd")[0].text for name in ("won", "nothing-yet", "close")}
        assert told["won"].startswith("good wins")
        assert not {"a", "b"} & set(told["nothing-yet"].split())
        assert told["close"].split()[:2] in (["one", "leads,"], ["other", "leads,"])
        assert "%" in told["close"]
        return True

    until(verdicts)


def test_what_needs_attention_is_looked_at_anew_when_something_has_changed(show: Show, server: Server) -> None:
    def is_listed() -> bool:
        return "attended" in cards(show("/?status=attention&q=attended"))

    with server.client() as client:
        client.create("attended", ["a", "b"])
        assert not is_listed()
        client.pause("attended")
        assert is_listed()
        client.resume("attended")
        assert not is_listed()
        client.decide_many("attended", 100)
        assert is_listed()


def test_the_list_names_the_decision_that_holds_up_the_verdict(show: Show, server: Server, tmp_path: Path) -> None:
    """Its link leads to it. Where one has waited for long, the experiment needs attention."""

    def play(server: Server) -> str:
        with server.client() as client:
            client.create("held-up", ["a", "b"])
            made = client.decide_many("held-up", 200)
            client.observe_many("held-up", rewards={each.id: 1.0 for each in made if each.round != 50})
        return f"/experiments/held-up/decisions?id={made[49].id}"

    path = play(server)
    link = until(lambda: cards(show("/"))["held-up"].all("a", href=path))[0]
    assert link.text == path.partition("=")[2]
    assert not cards(show("/"))["held-up"].all(class_="problem")
    assert "held-up" not in cards(show("/?status=attention&q=held-up"))
    assert show(path).one("h1").text
    soon = {f"belated.service.pages.parts.{name}": 0.0 for name in ("HELD_TIMES", "LEAST_HELD")}
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log", constants=soon) as other:
        path = play(other)
        with closing(visiting(other)) as http:

            def attended() -> list[Node]:
                found = cards(read_html(http.get("/?status=attention").text))
                return found["held-up"].one(class_="problem").all("a") if "held-up" in found else []

            assert until(attended)[0].attributes["href"] == path


def test_a_ledger_that_is_away_is_a_page_and_works_again_when_it_is_back(tmp_path: Path) -> None:
    paths = ("/", "/experiments/button", "/experiments/button/decisions?id=1", "/simulate")
    with Postgres.start() as database, Server(database.new_database(), tmp_path / "log") as server:
        fill(server)
        with visiting(server) as http:
            assert http.get("/").status_code == 200
            database.kill()
            for path in paths:
                answer = http.get(path)
                assert answer.status_code == 503
                assert answer.headers["content-type"] == "text/html; charset=utf-8"
                page = read_html(answer.text)
                assert page.one(role="alert").text
                assert page.one("form", action="/sign-out")
            database.restart()
            until(lambda: http.get("/").status_code == 200)
            assert http.get("/experiments/button").status_code == 200
