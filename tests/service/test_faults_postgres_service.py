"""PostgreSQL dies, is full or hangs up under a service: 503 meanwhile, nothing wrong, and no restart of the service."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from support.faults import HEADERS, NAME, PATH, Load, readiness, wait_until_ready
from support.postgres import Postgres
from support.serving import Server, is_alive
from support.waiting import until

FULL = "could not extend file: No space left on device"
FULL_DISK = f"""
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '{FULL}' USING ERRCODE = '53100'; END $$;
"""
AT_ONCE = "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION full_disk();"
AT_THE_COMMIT = (
    "CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT OR UPDATE ON {table}"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION full_disk();"
)
TABLES = ("events", "experiments", "probes")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres.start() as server:
        yield server


@pytest.fixture
def server(postgres: Postgres, tmp_path: Path) -> Iterator[Server]:
    with Server(postgres.new_database(), tmp_path / "log") as server, server.client() as client:
        client.create(NAME, ["a", "b", "c"], seed=7)
        yield server


def test_a_database_that_is_killed_under_load_loses_nothing_and_the_service_goes_on(
    postgres: Postgres, server: Server
) -> None:
    load = Load(server.url)
    with load.going_on():
        for _ in range(3):
            load.wait_for(200, 100)
            postgres.kill()
            load.wait_for(503, 10)
            status, reason = readiness(server.url)
            assert status == 503
            assert "refused" in reason
            assert httpx.get(f"{server.url}/healthz").status_code == 200
            postgres.restart()
            load.wait_for(200, 10)
    postgres.kill()
    until(lambda: readiness(server.url)[0] == 503)  # nobody asks for anything
    postgres.restart()
    wait_until_ready(server.url)
    assert is_alive(server.pid)
    assert {answer.status for answer in load.answers} == {200, 503}
    assert max(answer.ended - answer.begun for answer in load.answers) < 20
    load.agrees_with(server.store)


def test_connections_that_the_database_ends_are_not_noticed_beyond_a_few_refusals(server: Server) -> None:
    load = Load(server.url)
    with psycopg.connect(server.store, autocommit=True) as connection, load.going_on():
        for _ in range(30):
            load.wait_for(200, 5)
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE application_name = 'belated' AND datname = current_database()"
            ).fetchone()
            assert ended is not None
            assert ended[0] > 0
    answers = load.answers
    assert sum(answer.status == 200 for answer in answers) > len(answers) / 2
    load.agrees_with(server.store)


@pytest.mark.parametrize("when", [AT_ONCE, AT_THE_COMMIT])
def test_a_full_database_refuses_says_so_and_works_again_when_there_is_room(server: Server, when: str) -> None:
    load = Load(server.url)
    with psycopg.connect(server.store, autocommit=True) as connection:
        connection.execute(FULL_DISK)
        for table in TABLES:
            connection.execute(when.format(table=table).encode())

        def let_it_be_full(is_full: bool) -> None:
            for table in TABLES:
                word = "ENABLE" if is_full else "DISABLE"
                connection.execute(f"ALTER TABLE {table} {word} TRIGGER full_disk".encode())

        let_it_be_full(False)
        with load.going_on():
            for _ in range(3):
                load.wait_for(200, 50)
                let_it_be_full(True)
                load.wait_for(503, 20)
                let_it_be_full(False)
            load.wait_for(200, 50)
            let_it_be_full(True)
            load.wait_for(503, 20)
        shown = httpx.get(f"{server.url}{PATH}", headers=HEADERS)
        assert shown.status_code == 200
        for _ in range(3):
            status, reason = readiness(server.url)
            assert status == 503
            assert FULL in reason
        refused = httpx.post(f"{server.url}{PATH}/decisions", headers=HEADERS, json={"id": "refused"})
        assert (refused.status_code, refused.json()["code"]) == (503, "ledger_unavailable")
        assert FULL in refused.json()["message"]
        let_it_be_full(False)
        wait_until_ready(server.url)
    assert {answer.code for answer in load.answers} == {"", "ledger_unavailable"}
    load.agrees_with(server.store)
    with server.client() as client:
        assert client.decide(NAME).round == shown.json()["rounds"] + 1
