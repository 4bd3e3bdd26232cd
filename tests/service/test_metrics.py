"""What Prometheus reads agrees with what was done; and what happens where more is asked than can be committed."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import apsw
import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from belated.ledger.delay_histogram import BOUNDS
from support.http_helpers import at, create, decide, done, exchange, observe, problem, rows, serving, state, talk
from support.serving import Server
from support.waiting import until

Figures = Callable[..., float]


def figures(http: httpx.Client) -> Figures:
    """The sum of the samples of a name that have these labels."""
    response = http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    samples = [sample for family in text_string_to_metric_families(response.text) for sample in family.samples]

    def figure(name: str, **labels: str) -> float:
        found = [each.value for each in samples if each.name == name and labels.items() <= each.labels.items()]
        assert found, f"no {name} with {labels}"
        return sum(found)

    return figure


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_the_figures_agree_with_the_state(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    with serving(kind, tmp_path_factory) as server, talk(server) as http:
        create(http, "one", learner="balanced")
        create(http, "two", missing={"deadline": 3600, "loss": 1})
        create(http, "held", missing={"deadline": 86400, "loss": 1, "learn": "deadline"})
        decide(http, "held", "a", "b", "c")
        observe(http, "held", {"b": 0.0, "a": 1.0})
        ids = [f"n{k}" for k in range(300)]
        decide(http, "one", *ids)
        decide(http, "two", "early")
        server.pass_time(3601)
        until(lambda: state(http, "two")["outcomes"]["defaults"] == 1)
        observe(http, "two", {"early": 0.5})
        sent = {id: 0.5 for k, id in enumerate(ids) if k < 10 or k >= 290}
        observe(http, "one", sent)
        observe(http, "one", sent)
        observe(http, "one", {"n0": 0.25, "n1": 0.25, "nobody": 0.5})
        http.post(at("one", "outcomes"), json={"decision": "n0", "loss": 1})
        http.post(at("one", "outcomes"), json={"decision": "nobody", "loss": 1})
        figure = figures(http)
        assert figure("belated_held", experiment="held") == 2
        for name in ("one", "two", "held"):
            shown = state(http, name)
            assert figure("belated_decisions_total", experiment=name) == shown["rounds"]
            assert figure("belated_outstanding", experiment=name) == shown["outstanding"]
            assert figure("belated_skipped_total", experiment=name) == shown["skipped"]
            assert figure("belated_defaults_total", experiment=name) == shown["outcomes"]["defaults"]
            assert figure("belated_held", experiment=name) == shown["outcomes"]["held"]
            for receipt in ("used", "skipped"):
                count = figure("belated_outcomes_total", experiment=name, receipt=receipt)
                assert count == shown["outcomes"][receipt]
        assert figure("belated_skipped_total", experiment="one") > 100
        assert figure("belated_outcomes_total", experiment="one") == 20
        assert figure("belated_outcomes_total", experiment="two", receipt="skipped") == 1
        for receipt, count in (("repeated", 20), ("conflict", 3), ("unknown", 2)):
            assert figure("belated_outcomes_not_recorded_total", receipt=receipt, worker="0") == count


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_the_delays_are_those_of_the_ledger(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    with serving(kind, tmp_path_factory) as server, talk(server) as http:
        create(http, "delayed")
        decide(http, "delayed", *"abcdef")
        observe(http, "delayed", dict.fromkeys("abc", 1.0))
        server.pass_time(100)
        observe(http, "delayed", dict.fromkeys("de", 1.0))
        figure = figures(http)
        waits = [row["waited"] for row in rows(http, "delayed") if row["kind"] == "outcome"]
        assert len(waits) == 5
        assert sum(wait > 100 for wait in waits) == 2
        assert figure("belated_delay_seconds_count", experiment="delayed") == 5
        assert figure("belated_delay_seconds_sum", experiment="delayed") == pytest.approx(sum(waits))
        for bound in BOUNDS:
            count = figure("belated_delay_seconds_bucket", experiment="delayed", le=str(bound))
            assert count == sum(wait <= bound for wait in waits)
        assert figure("belated_delay_seconds_bucket", experiment="delayed", le="+Inf") == 5


def test_commits_are_counted_by_what_is_in_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "counted")
        decide(http, "counted", *(f"n{k}" for k in range(150)))
        for k in range(7):
            decide(http, "counted", f"n{k}")  # asked before: committed all the same
        observe(http, "counted", {"n0": 1, "n1": 1, "nobody": 1})
        http.post(at("counted", "decisions"), json={"id": 5})  # refused: no commit
        state(http, "counted")  # reading is none either
        figure = figures(http)
        assert figure("belated_commit_size_count", worker="0") == 9
        assert figure("belated_commit_size_sum", worker="0") == 160
        for bound, count in ((1, 7), (2, 7), (5, 8), (100, 8), (200, 9), (2000, 9), ("+Inf", 9)):
            assert figure("belated_commit_size_bucket", worker="0", le=str(bound)) == count
        assert figure("belated_commit_seconds_count", worker="0") == 9
        assert figure("belated_commit_seconds_sum", worker="0") > 0
        assert figure("belated_queue_length", worker="0") == 0
        assert figure("belated_failed_commits_total", worker="0") == 0
        assert figure("belated_busy_total", worker="0") == 0


def test_requests_are_counted_by_route_and_status(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "one")
        create(http, "two")
        for name in ("one", "two", "one"):
            decide(http, name, "a", "b")
        for name in ("three", "four"):
            assert http.post(at(name, "decisions")).status_code == 404
        http.post(at("one", "decisions"), json={"id": 5})
        for k in range(30):
            assert http.get(f"/nothing/{k}").status_code == 404
        http.put("/healthz")
        http.head("/healthz")
        assert b" 431 " in exchange(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
        text = http.get("/metrics").text
        figure = figures(http)
        route = {"method": "POST", "route": "/v1/experiments/{name}/decisions"}
        assert figure("belated_requests_total", status="200", **route) == 3
        assert figure("belated_requests_total", status="404", **route) == 2
        assert figure("belated_requests_total", status="422", **route) == 1
        assert figure("belated_requests_total", route="", status="404") == 30
        assert figure("belated_requests_total", route="", status="405") == 1
        assert figure("belated_requests_total", route="", status="431") == 1
        assert figure("belated_requests_total", route="/healthz", status="200", method="GET") == 1
        assert figure("belated_request_seconds_count", **route) == 6
        assert figure("belated_request_seconds_bucket", le="+Inf", **route) == 6
        assert figure("belated_request_seconds_sum", **route) > 0
        for name in ("three", "four", "/nothing"):
            assert name not in text


@contextmanager
def held(server: Server) -> Iterator[None]:
    """Nothing can be committed meanwhile: somebody else is writing."""
    if server.store.startswith("sqlite"):
        connection = apsw.Connection(server.store.removeprefix("sqlite:///"))
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()
    else:
        with psycopg.connect(server.store) as session:
            session.execute("SELECT key FROM experiments FOR UPDATE")
            yield
            session.rollback()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_a_full_queue_refuses_and_what_it_took_is_answered(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    with serving(kind, tmp_path_factory, queue=20) as server, talk(server) as http, ThreadPoolExecutor(3) as threads:
        create(http, "full")
        ids = [f"n{k}" for k in range(40)]
        decide(http, "full", *ids[:20])
        decide(http, "full", *ids[20:])
        done(http.post(at("full", "archive")))  # takes outcomes; figures are shown without asking for its state
        until(lambda: figures(http)("belated_queue_oldest_seconds") == 0)

        def report(some: list[str]) -> httpx.Response:
            with talk(server) as mine:
                return mine.post(at("full", "outcomes"), json=[{"decision": id, "loss": 1} for id in some], timeout=60)

        with held(server):
            begun = time.monotonic()
            taken = [threads.submit(report, ids[:12])]
            until(lambda: figures(http)("belated_queue_length", worker="0") == 12)
            taken.append(threads.submit(report, ids[12:20]))
            until(lambda: figures(http)("belated_queue_length", worker="0") == 20)
            refused = [report(ids[20:29]), http.post(at("full", "decisions"), json=[{}] * 9)]
            assert not any(each.done() for each in taken)
            assert http.get("/healthz").status_code == 200
            age = until(lambda: figures(http)("belated_queue_oldest_seconds"))
            assert age < time.monotonic() - begun
        for response in refused:
            problem(response, 503, "busy")
            assert int(response.headers["retry-after"]) >= 1
        assert [len(done(each.result())) for each in taken] == [12, 8]
        assert sum(state(http, "full")["outcomes"].values()) == 20
        assert figures(http)("belated_busy_total") == 2
        assert figures(http)("belated_queue_length") == 0
        until(lambda: figures(http)("belated_queue_oldest_seconds") == 0)
        assert len(done(report(ids))) == 40  # more than the limit, but nobody waits


def test_archived_experiments_are_shown_no_more(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        for name in ("kept", "gone"):
            create(http, name)
        done(http.post(at("gone", "archive")))
        text = http.get("/metrics").text
        assert json.dumps("kept") in text
        assert json.dumps("gone") not in text
