"""How fast a key may ask, and what it hears when it asks faster."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from belated.cli.main import main
from belated.ledger import open_ledger
from belated.ledger.events import ApiKey
from belated.ledger.keys import new_key
from belated.service import server as server_module
from belated.service.auth import Authenticator
from belated.service.rates import Bucket
from belated.service.server import ServerSettings
from support.clients import BOTH, client
from support.http_helpers import EXPERIMENTS, create, done, problem, serving, talk
from support.serving import ADMIN_KEY, Server

HOUR = 3600


def secret(server: Server, rate: float | None = None) -> str:
    made, key = new_key("somebody", "admin", rate=rate)
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
    return made


class Clock:
    """A clock that is set by hand."""

    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_lets_through_a_second_s_worth_and_then_its_rate() -> None:
    clock = Clock()
    bucket = Bucket(10.0, clock)
    assert [bucket.take() for _ in range(10)] == [0.0] * 10
    assert [bucket.take() for _ in range(3)] == pytest.approx([0.1] * 3)  # a refusal costs nothing
    clock.now += 0.1
    assert bucket.take() == 0.0
    assert bucket.take() == pytest.approx(0.1)
    taken = 0
    for _ in range(1000):
        clock.now += 0.01
        taken += bucket.take() == 0.0
    assert taken in (99, 100)
    clock.now += 60.0
    assert [bucket.take() == 0.0 for _ in range(11)] == [True] * 10 + [False]


def test_a_slow_bucket_has_room_for_one() -> None:
    clock = Clock()
    bucket = Bucket(0.25, clock)
    assert bucket.take() == 0.0
    assert bucket.take() == pytest.approx(4.0)
    clock.now += 3.9
    assert bucket.take() == pytest.approx(0.1)
    clock.now += 0.2
    assert bucket.take() == 0.0


def test_a_key_is_slowed_down_and_others_are_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        serving("sqlite", tmp_path_factory) as server,
        talk(server, secret(server, 1 / HOUR)) as slow,
        talk(server) as fast,
    ):
        done(slow.get(EXPERIMENTS))
        for _ in range(2):
            answer = slow.get(EXPERIMENTS)
            problem(answer, 429, "too_fast")
            assert 0 < int(answer.headers["retry-after"]) <= HOUR
            done(fast.get(EXPERIMENTS))


@pytest.mark.parametrize("kind", BOTH)
def test_clients_ask_again_as_long_as_they_are_told_to(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server:
        with talk(server) as http:
            create(http, "one")
        with client(kind, server.url, secret(server, 2.0)) as slow:
            assert [slow.decide("one").round for _ in range(4)] == [1, 2, 3, 4]


def test_the_rate_of_the_server_is_for_keys_without_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, rate=1 / HOUR) as server:
        with talk(server, secret(server)) as plain:
            assert [plain.get(EXPERIMENTS).status_code for _ in range(3)] == [200, 429, 429]
        with talk(server, secret(server, 1000.0)) as own:
            assert {own.get(EXPERIMENTS).status_code for _ in range(10)} == {200}


def test_the_options_of_the_command_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ServerSettings] = []

    def serve(settings: ServerSettings) -> int:
        started.append(settings)
        return 0

    monkeypatch.setattr(server_module, "serve", serve)
    monkeypatch.setenv("BELATED_ADMIN_KEY", ADMIN_KEY)
    command = ["serve", "--port", "0", "--store", f"sqlite:///{tmp_path / 'ledger.db'}"]
    assert main([*command, "--rate", "2.5", "--forget-after", "90d"]) == 0
    assert main(command) == 0
    assert [(each.limits.rate, each.limits.forget_after) for each in started] == [(2.5, 90 * 86400), (None, None)]
    for wrong in (["--rate", "0"], ["--rate", "nan"], ["--rate", "fast"], ["--forget-after", "90"]):
        with pytest.raises(SystemExit):
            main([*command, *wrong])


def test_the_rate_is_shared_by_the_workers() -> None:
    """Each of two workers allows half, as connections are shared evenly."""
    plain, key = new_key("plain", "read")
    own_secret, own = new_key("own", "read", rate=8.0)

    async def read() -> list[ApiKey]:
        return [key, own]

    async def taken(secret: str) -> int:
        auth = Authenticator(read, 20.0, workers=2)
        await auth.refresh()
        caller = await auth.check(f"Bearer {secret}".encode(), "read")
        assert caller.bucket is not None
        clock = Clock()
        caller.bucket._clock = clock
        caller.bucket._full_at = clock.now
        return sum(caller.bucket.take() == 0.0 for _ in range(100))

    assert [asyncio.run(taken(each)) for each in (plain, own_secret)] == [10, 4]
