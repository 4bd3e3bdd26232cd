"""The key in BELATED_ADMIN_KEY: put in place, rotated, and refused where it is not the administrator's."""

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from belated.ledger import open_ledger
from belated.ledger.events import ApiKey
from belated.ledger.keys import ensure_admin, id_of, new_key
from belated.ledger.sql import SqlLedger
from support.http_helpers import done, talk
from support.ledger_helpers import together
from support.refusals import refused
from support.serving import KINDS, Server
from support.waiting import until

OLD, NEW = "the-old-administrator-key", "the-new-administrator-key"


def states(ledger: SqlLedger) -> dict[str, bool]:
    """Id -> whether it opens."""
    return {key.id: key.revoked is None for key in ledger.all_keys()}


@pytest.mark.parametrize("kind", KINDS)
def test_another_secret_revokes_the_key_that_came_before(ledger: SqlLedger) -> None:
    mine, own = new_key("mine", "admin")
    ledger.add_key(own)
    for _ in range(2):
        assert ensure_admin(ledger, OLD) is None
    assert states(ledger) == {own.id: True, id_of(OLD.encode()): True}
    for _ in range(2):
        assert ensure_admin(ledger, NEW) is None
    assert states(ledger) == {own.id: True, id_of(OLD.encode()): False, id_of(NEW.encode()): True}
    with refused(None, id_of(OLD.encode()), error=ValueError):
        ensure_admin(ledger, OLD)
    assert ensure_admin(ledger, mine) is None  # a key of that ledger; its name stays
    assert states(ledger) == {own.id: True, id_of(OLD.encode()): False, id_of(NEW.encode()): False}
    assert [key.name for key in ledger.all_keys() if key.id == own.id] == ["mine"]


def test_the_old_key_opens_no_more_and_the_new_one_does(store: str, tmp_path: Path) -> None:
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, OLD)
    server = Server(store, tmp_path / "log")
    with server, talk(server, OLD) as old:
        until(lambda: old.get("/v1/experiments").status_code == 401)
        with closing(open_ledger(store)) as ledger, talk(server, NEW) as new:
            ensure_admin(ledger, NEW)
            done(new.get("/v1/experiments"))


def expired() -> tuple[str, ApiKey]:
    secret, key = new_key("expired", "admin")
    return secret, key._replace(expires=key.created)


def test_a_lesser_key_is_refused_by_its_id_alone(ledger: SqlLedger) -> None:
    lesser = [
        new_key("a", "decide"),
        new_key("b", "read"),
        new_key("c", "admin", experiments=["*"]),
        expired(),
    ]
    for _, key in lesser:
        ledger.add_key(key)
    ensure_admin(ledger, OLD)
    before = ledger.all_keys()
    for secret, key in lesser:
        with refused(None, "BELATED_ADMIN_KEY", key.id, error=ValueError) as caught:
            ensure_admin(ledger, secret)
        assert secret not in str(caught.value)
    assert ledger.all_keys() == before  # that the old one still opens, above all


def test_only_a_key_for_everything_counts_as_the_administrator(ledger: SqlLedger) -> None:
    ledger.add_key(new_key("scoped", "admin", experiments=["one"])[1])
    ledger.add_key(expired()[1])
    assert ensure_admin(ledger, None) is not None
    assert ensure_admin(ledger, None) is None


@pytest.mark.parametrize(("kind", "secret"), [("sqlite", NEW), ("sqlite", None), ("postgresql", NEW)])
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
