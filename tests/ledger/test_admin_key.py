"""The key in BELATED_ADMIN_KEY: put in place, rotated, and refused where it is not the administrator's."""

import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from belated.ledger import Ledger, open_ledger
from belated.ledger.events import SECOND
from belated.ledger.keys import ensure_admin, id_of, new_key
from support.http_helpers import done, talk
from support.ledger_helpers import together
from support.serving import KINDS, Server, Stores
from support.waiting import until

OLD, NEW = "the-old-administrator-key", "the-new-administrator-key"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return Stores.fresh(request.param, tmp_path)


@pytest.fixture
def ledger(store: str) -> Iterator[Ledger]:
    with closing(open_ledger(store)) as opened:
        yield opened


def states(ledger: Ledger) -> dict[str, bool]:
    """Id -> whether it opens."""
    return {key.id: key.revoked is None for key in ledger.all_keys()}


def test_another_secret_revokes_the_key_that_came_before(ledger: Ledger) -> None:
    mine, own = new_key("mine", "admin")
    ledger.add_key(own)
    for _ in range(2):
        assert ensure_admin(ledger, OLD) is None
    assert states(ledger) == {own.id: True, id_of(OLD.encode()): True}
    for _ in range(2):
        assert ensure_admin(ledger, NEW) is None
    assert states(ledger) == {own.id: True, id_of(OLD.encode()): False, id_of(NEW.encode()): True}
    with pytest.raises(ValueError, match=f"{id_of(OLD.encode())}, was revoked"):
        ensure_admin(ledger, OLD)
    assert ensure_admin(ledger, mine) is None  # a key of that ledger; its name stays
    assert states(ledger) == {own.id: True, id_of(OLD.encode()): False, id_of(NEW.encode()): False}
    assert [key.name for key in ledger.all_keys() if key.id == own.id] == ["mine"]


def test_the_old_key_opens_no_more_and_the_new_one_does(store: str, tmp_path: Path) -> None:
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, OLD)
    server = Server(store, tmp_path / "log")
    with server, talk(server, OLD) as old:
        until(lambda: old.get("/v1/experiments").status_code == 401, 5)
        with closing(open_ledger(store)) as ledger, talk(server, NEW) as new:
            ensure_admin(ledger, NEW)
            done(new.get("/v1/experiments"))


def test_a_lesser_key_is_refused_by_its_id_alone(ledger: Ledger) -> None:
    soon = int((time.time() + 0.2) * SECOND)
    lesser = [
        ("may only decide", new_key("a", "decide")),
        ("may only read", new_key("b", "read")),
        ("opens some experiments only", new_key("c", "admin", experiments=["*"])),
        ("expired at 20", new_key("d", "admin", expires=soon)),
    ]
    for _, (_, key) in lesser:
        ledger.add_key(key)
    time.sleep(0.3)
    ensure_admin(ledger, OLD)
    before = ledger.all_keys()
    for words, (secret, key) in lesser:
        with pytest.raises(ValueError, match=f"BELATED_ADMIN_KEY, {key.id}, {words}") as refused:
            ensure_admin(ledger, secret)
        assert secret not in str(refused.value)
    assert ledger.all_keys() == before  # that the old one still opens, above all


def test_only_a_key_for_everything_counts_as_the_administrator(ledger: Ledger) -> None:
    ledger.add_key(new_key("scoped", "admin", experiments=["one"])[1])
    ledger.add_key(new_key("soon over", "admin", expires=int((time.time() + 0.1) * SECOND))[1])
    time.sleep(0.2)
    assert ensure_admin(ledger, None) is not None
    assert ensure_admin(ledger, None) is None


@pytest.mark.parametrize("secret", [NEW, None])
def test_servers_that_start_at_once_do_it_once(store: str, secret: str | None) -> None:
    ledgers = [open_ledger(store) for _ in range(6)]
    if secret:
        ensure_admin(ledgers[0], OLD)
    shown: list[str | None] = []
    together([partial(lambda each: shown.append(ensure_admin(each, secret)), each) for each in ledgers])
    opened = [key for key in ledgers[0].all_keys() if key.revoked is None]
    for each in ledgers:
        each.close()
    assert len(opened) == 1
    assert [id_of(each.encode()) for each in shown if each] == ([] if secret else [opened[0].id])
    assert not secret or opened[0].id == id_of(NEW.encode())
