"""The flag against a real server that comes and goes, and against services that answer badly or never."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from belated.api.types import Deadline
from belated.client import Client, Flag, ServiceError, ServiceUnavailable
from belated.client import outbox as outbox_module
from belated.client.breaker import Breaker
from belated.client.outbox import Outbox
from belated.errors import InvalidValue
from support.http_helpers import serving
from support.ports import free_port
from support.refusals import refused
from support.serving import ADMIN_KEY, Server
from support.waiting import until

LONG = 600.0
"""Seconds, far more than a test takes: only what moves a clock or wakes somebody ends such a pause."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running:
        yield running


@pytest.fixture(autouse=True)
def alive(server: Server) -> None:
    """Start it again if a test has killed it."""
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        server.start()


def made(server: Server, name: str) -> str:
    with server.client() as client:
        client.create(name, ["green", "red"], seed=1)
    return name


def flag_at(server: Server, name: str, **settings: Any) -> Flag:
    usual: dict[str, Any] = {"key": ADMIN_KEY, "timeout": LONG, "pause": 0.1}
    return Flag(server.url, name, "blue", **usual | settings)


def test_it_decides_as_the_service_does_and_sends_outcomes(server: Server) -> None:
    name = made(server, "plain")
    with flag_at(server, name) as flag, server.client() as client:
        arms = {f"v{k}": flag.decide(f"v{k}") for k in range(20)}
        assert {each.id: each.arm for each in client.decide_many(name, list(arms))} == arms
        assert flag.decide("v3") == arms["v3"]
        flag.observe("v0", reward=1.0)
        flag.observe("v1", loss=0.25)
        until(lambda: flag.counts.sent == 2)
        assert client.experiment(name).outcomes.used == 2
        assert [event.loss for event in client.ledger(name) if event.kind == "outcome"] == [0.0, 0.25]
        counts = flag.counts
    assert (counts.decided, counts.fallbacks, counts.waiting, counts.dropped) == (20, {}, 0, 0)


def test_a_service_that_is_killed_and_comes_back(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    name = made(server, "killed")
    caplog.set_level(logging.WARNING, "belated.client")
    with flag_at(server, name) as flag:
        before = flag.decide("before")
        assert before in ("green", "red")
        server.kill()
        assert [flag.decide(f"during-{k}") for k in range(5)] == ["blue"] * 5
        assert flag.decide("before") == before, "an id keeps its arm while the service is away"
        flag.observe("before", reward=1.0)
        flag.observe("during-0", reward=1.0)
        fallbacks = flag.counts.fallbacks
        assert fallbacks["away"] >= 1
        assert sum(fallbacks.values()) == 5
        until(lambda: len(caplog.records) == 2)
        assert (flag.counts.waiting, flag.counts.sent, flag.counts.left_out) == (1, 0, 1)
        server.start()
        until(lambda: flag.decide(f"after-{time.monotonic_ns()}") != "blue")
        assert flag.decide("during-0") == "blue", "an id keeps the default, too"
        until(lambda: flag.counts.sent == 1)
        with server.client() as client:
            events = [(event.kind, event.decision) for event in client.ledger(name)]
        assert ("outcome", "before") in events
        assert not any("during" in str(id) for _, id in events)
    falls_back, wait, *last = [tuple(record.args or ()) for record in caplog.records]
    again, back = sorted(last, key=len)  # they come in either order
    assert (falls_back[:3], wait[:2]) == ((name, "blue", "away"), (name, "away"))
    assert (back[0], back[2:], again) == (name, (sum(flag.counts.fallbacks.values()), "blue"), (name,))


def test_it_tells_a_real_service_of_its_fallbacks(server: Server) -> None:
    name = "told"
    with server.client() as client:
        client.create(name, ["blue", "green"], seed=1)
    with flag_at(server, name, tell=True) as flag, server.client() as client:
        flag.decide("before")
        server.kill()
        for k in range(5):
            assert flag.decide(f"during-{k}") == "blue"
        server.start()
        until(lambda: any(event.kind == "decision" for event in after(client, name, flag)))
        until(lambda: any(event.kind == "fallbacks" for event in client.ledger(name)))
        (told,) = [event for event in client.ledger(name) if event.kind == "fallbacks"]
        assert told.arm == "blue"
        assert client.experiment(name).fallbacks == sum(flag.counts.fallbacks.values()) >= 5


def after(client: Client, name: str, flag: Flag) -> list[Any]:
    """The events after the first decision, when one more id was asked for."""
    flag.decide(f"v-{time.monotonic_ns()}")
    return [event for event in client.ledger(name) if event.number > 1]


def test_values_in_units_that_are_added_up(server: Server) -> None:
    with server.client() as client:
        units = {"lowest": 0, "highest": 200, "better": "higher"}
        client.create("basket", ["green", "red"], seed=1, outcome=units, reports="sum", missing=Deadline(3600, 1.0))
        with flag_at(server, "basket") as flag:
            flag.decide("v")
            flag.observe("v", value=60.0)
            flag.observe("v", value=60.0)
            flag.observe("v", value=-20.0, report="refund", final=True)
            until(lambda: flag.counts.sent == 3)
        (arm,) = [each for each in client.experiment("basket").arms if each.outcomes]
        assert arm.mean_value == pytest.approx(100.0)


@pytest.mark.parametrize("status", ["paused", "archived"])
def test_a_paused_or_archived_experiment(server: Server, status: str) -> None:
    """No new decisions, but outcomes of the earlier ones are taken."""
    name = made(server, status)
    with flag_at(server, name, pause=LONG) as flag, server.client() as client:
        assert flag.decide("early") != "blue"
        (client.pause if status == "paused" else client.archive)(name)
        assert flag.decide("late") == flag.decide("later") == "blue"
        assert flag.counts.fallbacks == {status: 1, "not asked": 1}
        flag.observe("early", reward=0.5)
        until(lambda: flag.counts.sent == 1)


def test_a_wrong_key_and_an_unknown_experiment(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with flag_at(server, "no-such", pause=LONG) as unknown, flag_at(server, "no-such", key="wrong") as wrong:
        assert unknown.decide("v") == wrong.decide("v") == "blue"
        assert unknown.counts.fallbacks == wrong.counts.fallbacks == {"refused": 1}
        wrong.observe("w", reward=1.0)
        until(lambda: len(caplog.records) == 3)
        assert wrong.counts.waiting == 1, "a key can be mended: what was observed is kept"
    assert wrong.counts.dropped == 1
    assert caplog.records[3].args == ("no-such", 1)


def test_a_bad_id_does_not_switch_the_flag_off(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    name = made(server, "bad-ids")
    with flag_at(server, name, pause=LONG) as flag:
        assert [flag.decide(id) for id in ("with space", "x" * 200, 17, None, ["v"])] == ["blue"] * 5  # type: ignore[arg-type]
        assert flag.decide("good") != "blue"
        assert flag.counts.fallbacks == {"refused": 5}
        assert [record.args[:2] for record in caplog.records if isinstance(record.args, tuple)] == [(name, "id")]


def test_outcomes_that_cannot_be_are_dropped_and_the_others_go_on(server: Server) -> None:
    name = made(server, "bad-outcomes")
    with flag_at(server, name, pause=LONG) as flag:
        flag.decide("v")
        flag.observe("v", reward=float("nan"))
        flag.observe("v", rewrd=1.0)
        flag.observe("v", reward=10**400)
        flag.observe(["v"], reward=1.0)  # type: ignore[arg-type]
        flag.observe("nobody", reward=1.0)
        flag.observe("v", reward=1.0)
        flag.observe("v", reward=0.0)
        until(lambda: flag.counts.refused == 6)
        assert flag.counts.sent == 1
        assert flag.counts.waiting == 0


@contextmanager
def listening(speaks: bool) -> Iterator[str]:
    """A server that takes connections and never answers, or that sends a byte now and then, and never ends."""
    stop = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not stop.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        if speaks:
            listener.settimeout(LONG)

            def accept() -> None:
                trickle(listener.accept()[0])

            threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        stop.set()


@pytest.mark.parametrize("speaks", [False, True], ids=["hangs", "trickles"])
def test_a_service_that_does_not_answer_costs_the_timeout_once(speaks: bool) -> None:
    """No answer ever ends: that `decide` returns at all is its time limit. It does not ask while the pause lasts."""
    with listening(speaks) as url, Flag(url, "button", "blue", key="k", timeout=0.3, pause=LONG) as flag:
        assert flag.decide("first") == "blue"
        assert [flag.decide(f"v{k}") for k in range(1000)] == ["blue"] * 1000
        assert flag.counts.fallbacks == {"slow": 1, "not asked": 1000}


def test_outcomes_beyond_the_queue_are_dropped_oldest_first(server: Server) -> None:
    name = made(server, "full")
    with flag_at(server, name, most_waiting=3) as flag:
        for k in range(6):
            flag.decide(f"v{k}")
        server.kill()
        for k in range(6):
            flag.observe(f"v{k}", reward=1.0)
        until(lambda: flag.counts.dropped == 3)
        assert flag.counts.waiting == 3
        server.start()
        until(lambda: flag.counts.sent == 3)
        with server.client() as client:
            assert [e.decision for e in client.ledger(name) if e.kind == "outcome"] == ["v3", "v4", "v5"]


def test_threads_share_a_flag(server: Server) -> None:
    name = made(server, "threads")
    shown: dict[str, set[str | int]] = {f"v{k}": set() for k in range(50)}
    with flag_at(server, name) as flag:

        def visit() -> None:
            for id, arms in shown.items():
                arms.add(flag.decide(id))

        threads = [threading.Thread(target=visit) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert flag.counts.decided == 50
    assert all(len(arms) == 1 for arms in shown.values())


class StandIn:
    """A client whose service is there, or not; `tells` has what was reported of fallbacks."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.telling_fails = 0
        self.tells: list[tuple[Any, ...]] = []
        self.asked = 0
        self.outcomes: list[dict[str, Any]] = []

    def decide(self, name: str, id: str) -> Any:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return SimpleNamespace(arm="green")

    def observe(self, name: str, decision: str, **outcome: Any) -> None:
        self.outcomes.append(outcome)
        if self.error is not None:
            raise self.error

    def report_fallbacks(self, name: str, count: int, *, arm: str, id: str) -> None:
        self.tells.append((name, count, arm, id))
        if self.telling_fails:
            self.telling_fails -= 1
            raise ServiceUnavailable(503, "busy", "too many requests are waiting")


class Clock:
    """The clock of a flag's pauses between decisions, in the hands of a test."""

    def __init__(self, flag: Flag) -> None:
        self.now = 0.0
        flag._breaker._clock = lambda: self.now


def outage(flag: Flag, service: StandIn, visits: int) -> None:
    service.error = ServiceUnavailable(503, "unreachable", "nobody there")
    for _ in range(visits):
        assert flag.decide(f"v-{time.monotonic_ns()}") == "blue"
    service.error = None
    until(lambda: flag.decide(f"v-{time.monotonic_ns()}") == "green")


def test_it_tells_the_service_once_for_each_outage() -> None:
    service: Any = StandIn()
    service.telling_fails = 2
    with Flag(service, "button", "blue", pause=0.05, tell=True) as flag:
        flag.decide("well")
        outage(flag, service, 7)
        first = sum(flag.counts.fallbacks.values())
        until(lambda: len(service.tells) == 3)
        outage(flag, service, 1)
        until(lambda: len(service.tells) == 4)
        second = sum(flag.counts.fallbacks.values()) - first
        assert flag.counts.sent == 0, "reports of outages are no outcomes"
    assert [each[:3] for each in service.tells] == [("button", first, "blue")] * 3 + [("button", second, "blue")]
    ids = [each[3] for each in service.tells]
    assert ids[0] == ids[1] == ids[2] != ids[3], "a report that got no answer is sent again under its id"
    assert first >= 7


def test_a_report_that_is_refused_holds_up_no_outcomes(caplog: pytest.LogCaptureFixture) -> None:
    """The default arm need not be one of the experiment."""
    service: Any = StandIn()

    def refuse(*given: Any, **more: Any) -> None:
        raise ServiceError(404, "unknown_arm", "no arm is 'blue'")

    service.report_fallbacks = refuse
    with Flag(service, "button", "blue", pause=0.05, tell=True) as flag:
        outage(flag, service, 2)
        until(lambda: any(tuple(record.args or ())[:2] == ("button", "outage") for record in caplog.records))
        flag.observe("v", reward=1.0)
        until(lambda: flag.counts.sent == 1)
        assert flag.counts.refused == 0


def test_it_tells_nothing_unless_it_is_asked_to() -> None:
    service: Any = StandIn()
    with Flag(service, "button", "blue", pause=0.05) as flag:
        outage(flag, service, 3)
        flag.observe("v", reward=1.0)
        until(lambda: flag.counts.sent == 1)
    assert service.tells == []


def test_a_value_that_is_sent_again_counts_once() -> None:
    """Where values are added up, a report has an id: its own, or one that the flag makes."""
    service: Any = StandIn()
    with Flag(service, "basket", "blue", pause=0.05) as flag:
        service.error = ServiceUnavailable(503, "unreachable", "nobody there")
        flag.observe("v", value=60.0)
        until(lambda: len(service.outcomes) == 3)
        service.error = None
        until(lambda: flag.counts.sent == 1)
        flag.observe("v", value=35.0, report="order-2", final=True)
        flag.observe("w", reward=1.0)
        until(lambda: flag.counts.sent == 3)
    *again, second, third = service.outcomes
    assert len(again) > 3
    assert [each["report"] for each in again] == [again[0]["report"]] * len(again)
    assert second == {"value": 35.0, "report": "order-2", "final": True}
    assert third == {"reward": 1.0}


def test_one_call_at_a_time_probes_a_service_that_is_away() -> None:
    service: Any = StandIn()
    service.error = ServiceError(401, "wrong_key", "the key is unknown")
    with Flag(service, "button", "blue", timeout=LONG, pause=LONG) as flag:
        clock = Clock(flag)
        flag.decide("first")
        assert service.asked == 1
        clock.now += LONG
        held = threading.Event()

        def slow(name: str, id: str) -> Any:
            service.asked += 1
            held.wait(LONG)
            return SimpleNamespace(arm="green")

        service.decide = slow
        probe = threading.Thread(target=flag.decide, args=("probe",))
        probe.start()
        until(lambda: service.asked == 2)
        assert [flag.decide(f"v{k}") for k in range(10)] == ["blue"] * 10
        assert service.asked == 2
        held.set()
        probe.join()
        assert flag.decide("probe") == "green"
        assert flag.decide("next") == "green"


def test_a_probe_with_a_bad_id_leaves_the_probe_to_the_next() -> None:
    service: Any = StandIn()
    with Flag(service, "button", "blue", timeout=LONG, pause=LONG) as flag:
        clock = Clock(flag)
        service.error = ServiceUnavailable(503, "unreachable", "nobody there")
        flag.decide("first")
        clock.now += LONG
        service.error = ServiceError(422, "invalid", "id has a space", "id")
        assert flag.decide("a space") == "blue"
        service.error = None
        assert flag.decide("next") == "green"


def test_two_threads_with_one_id_show_one_arm() -> None:
    """One is answered late, after the other has shown the default arm."""
    service: Any = StandIn()
    asked, held, shown = threading.Event(), threading.Event(), []

    def late(name: str, id: str) -> Any:
        asked.set()
        held.wait(LONG)
        return SimpleNamespace(arm="green")

    with Flag(service, "button", "blue", timeout=LONG) as flag:
        service.decide = late
        thread = threading.Thread(target=lambda: shown.append(flag.decide("v")))
        thread.start()
        assert asked.wait(LONG)
        del service.decide
        service.error = ServiceUnavailable(503, "unreachable", "nobody there")
        shown.append(flag.decide("v"))
        held.set()
        thread.join()
        assert shown == ["blue", "blue"]
        flag.observe("v", reward=1.0)
        assert flag.counts.left_out == 1
        assert flag.counts.decided == 0


def test_a_service_that_is_back_gets_what_waits_at_once() -> None:
    """And not a pause after the last attempt: that of the outbox does not end here."""
    service: Any = StandIn()
    with Flag(service, "button", "blue", timeout=LONG, pause=LONG) as flag:
        clock = Clock(flag)
        for number in (1, 2):
            service.error = ServiceUnavailable(503, "unreachable", "nobody there")
            flag.decide(f"first-{number}")
            attempts = len(service.outcomes)
            flag.observe("v", reward=1.0)
            until(lambda: len(service.outcomes) > attempts)  # noqa: B023
            service.error = None
            clock.now += LONG
            assert flag.decide(f"back-{number}") == "green"
            until(lambda: flag.counts.sent == number)  # noqa: B023


def test_errors_of_any_kind_are_no_errors_of_the_page() -> None:
    service: Any = StandIn()
    service.error = ZeroDivisionError("a slip")
    with Flag(service, "button", "blue", pause=LONG) as flag:
        assert flag.decide("v") == "blue"
        assert flag.counts.fallbacks == {"failed": 1}


def test_only_the_latest_ids_are_remembered() -> None:
    service: Any = StandIn()
    with Flag(service, "button", "blue", remember=2) as flag:
        for id in ("a", "b", "a", "c", "a", "b"):  # b is the oldest when c comes
            flag.decide(id)
        assert service.asked == 4


def test_settings_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://localhost:8000"
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"timeout": 0}, "timeout"),
        ({"pause": -1.0}, "pause"),
        ({"most_waiting": 0}, "most_waiting"),
        ({"remember": 0.5}, "remember"),
    )
    for settings, field in wrong:
        with pytest.raises(InvalidValue) as caught:
            Flag(url, "button", "blue", key="k", **settings)
        assert caught.value.field == field
    monkeypatch.delenv("BELATED_KEY", raising=False)
    with refused("key", "BELATED_KEY"):
        Flag(url, "button", "blue")
    with Client(url, "k") as client, refused("key"):
        Flag(client, "button", "blue", key="k")


def test_a_program_that_ends_sends_what_waits(server: Server) -> None:
    """Without close, too; and with a service that is not there it does not wait."""
    name = made(server, "ends")
    code = f"""
from belated.client import Flag
flag = Flag({server.url!r}, {name!r}, "blue", timeout=60)
for k in range(50):
    flag.decide(f"v{{k}}")
    flag.observe(f"v{{k}}", reward=1.0)
"""
    environment = os.environ | {"BELATED_KEY": ADMIN_KEY}
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, check=True)
    with server.client() as client:
        assert client.experiment(name).outcomes.used == 50
    flag = Flag(f"http://127.0.0.1:{free_port()}", "button", "blue", key="k", pause=LONG)
    for k in range(50):
        flag.observe(f"v{k}", reward=1.0)
    flag.close(LONG)
    assert flag.counts.dropped == 50
    flag.observe("late", reward=1.0)
    assert flag.counts.dropped == 51
    assert flag.decide("late") == "blue"


def test_a_forked_process_sends_its_own(server: Server) -> None:
    """As servers do that load the program first and fork workers then."""
    name = made(server, "forked")
    code = f"""
import os, sys
from belated.client import Flag
flag = Flag({server.url!r}, {name!r}, "blue", timeout=60)
def use(id):
    assert flag.decide(id) != "blue", flag.counts
    flag.observe(id, reward=1.0)

for k in range(8):  # the background may be anywhere when a child is made
    use(f"parent-{{k}}")
    if (child := os.fork()) == 0:
        use(f"child-{{k}}")
        sys.exit()
    use(f"again-{{k}}")
    assert os.waitpid(child, 0)[1] == 0
"""
    environment = os.environ | {"BELATED_KEY": ADMIN_KEY}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    with server.client() as client:
        ids = sorted(str(event.decision) for event in client.ledger(name) if event.kind == "outcome")
    assert ids == sorted(f"{who}-{k}" for who in ("parent", "child", "again") for k in range(8))


def test_the_breaker() -> None:
    now = 0.0
    breaker = Breaker(5.0, lambda: now)
    assert breaker.allows()
    assert breaker.worked() is None
    assert breaker.failed()
    now = 4.9
    assert not breaker.allows()
    now = 5.0
    assert breaker.allows()
    assert not breaker.allows(), "one probe"
    assert not breaker.failed(), "the outage goes on"
    now = 9.9
    assert not breaker.allows()
    now = 10.0
    assert breaker.allows()
    breaker.gave_up()
    assert breaker.allows()
    assert breaker.worked() == 10.0
    assert breaker.allows()
    assert breaker.allows()


def test_the_outbox_keeps_the_order_and_waits_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    now, looks = 0.0, 0

    def monotonic() -> float:
        nonlocal looks
        looks += 1
        return now

    def deliver(item: int) -> bool:
        sent.append(item)
        return item != 2 or sent.count(2) == 2

    monkeypatch.setattr(outbox_module, "time", SimpleNamespace(monotonic=monotonic))
    outbox = Outbox(deliver, most=10, pause=0.01)
    for item in range(5):
        outbox.put(item)
    until(lambda: sent == [0, 1, 2] and outbox.waiting == 3)
    before = looks
    until(lambda: looks > before + 3)  # it has looked at the clock, and waits
    assert sent == [0, 1, 2]
    now = 0.01
    until(lambda: outbox.waiting == 0)
    assert sent == [0, 1, 2, 2, 3, 4]
    assert outbox.close(LONG) == 0


def test_the_outbox_can_be_woken() -> None:
    """Also while an attempt is under way that is going to fail."""
    begun, goes_on, works = threading.Event(), threading.Event(), threading.Event()

    def deliver(_: int) -> bool:
        could = works.is_set()
        begun.set()
        goes_on.wait(LONG)
        return could

    outbox: Outbox[int] = Outbox(deliver, most=10, pause=LONG)
    outbox.put(1)
    assert begun.wait(LONG)
    works.set()
    outbox.wake()
    goes_on.set()
    until(lambda: outbox.waiting == 0)
    works.clear()
    outbox.put(2)
    until(lambda: outbox._not_before > 0.0)
    works.set()
    outbox.wake()
    until(lambda: outbox.waiting == 0)
    assert outbox.close(LONG) == outbox.dropped == 0


def test_closing_the_outbox_does_not_wait_for_what_hangs() -> None:
    hangs = threading.Event()
    outbox: Outbox[int] = Outbox(lambda _: hangs.wait(LONG), most=10, pause=0.1)
    outbox.put(1)
    outbox.put(2)
    assert outbox.close(0.1) == 2
    assert outbox.dropped == 2
    hangs.set()


def test_what_comes_back_to_a_full_outbox_is_the_oldest() -> None:
    begun, held, sent = threading.Event(), threading.Event(), []

    def deliver(item: int) -> bool:
        begun.set()
        sent.append(item)
        return held.wait(LONG) and len(sent) > 1

    outbox = Outbox(deliver, most=2, pause=0.05)
    outbox.put(1)
    assert begun.wait(LONG)
    outbox.put(2)
    outbox.put(3)
    assert (outbox.waiting, outbox.dropped) == (3, 0)
    held.set()
    until(lambda: outbox.waiting == 0)
    assert sent == [1, 2, 3]
    assert outbox.dropped == 1


def test_closing_the_outbox_tries_once_more() -> None:
    attempts: list[int] = []

    def deliver(item: int) -> bool:
        attempts.append(item)
        return len(attempts) > 1

    outbox = Outbox(deliver, most=10, pause=LONG)
    outbox.put(1)
    until(lambda: len(attempts) == 1)
    assert outbox.close(LONG) == 0
    assert attempts == [1, 1]
