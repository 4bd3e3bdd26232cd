"""What tests of the service's pages share: experiments that have seen a little, and who looks at them."""

from contextlib import closing

import httpx
from playwright.sync_api import Page

from belated.api.types import MOST_AT_ONCE, Deadline, DecisionResponse
from belated.ledger import open_ledger
from belated.ledger.commands import Decide, KeepSnapshot
from belated.ledger.events import ExperimentSettings
from belated.ledger.keys import ensure_admin, new_key
from belated.ledger.observing import Observe, Report
from belated.ledger.processor import CommandProcessor
from belated.service.pages.session import COOKIE
from support.serving import ADMIN_KEY, Server

ARMS: list[str | int] = [f"arm-{k}" for k in range(10)]
HOSTILE = '<b>"bold"</b>&<script>alert(1)</script>'


def fill(server: Server) -> None:
    """Make experiments that have seen a little."""
    with server.client() as client:
        client.create("button", ["blue", "green", HOSTILE], seed=3, missing=Deadline(3600.0, 1.0))
        client.create("minutes", ["old", "new"], outcome={"lowest": 0, "highest": 30, "better": "lower"})
        decisions = client.decide_many("button", 300)
        rewards = {each.id: float(k % 4 == 0) for k, each in enumerate(decisions) if each.arm != "blue"}
        client.observe_many("button", rewards=rewards | {each.id: 0.0 for each in decisions if each.arm == "blue"})
        client.observe_many("minutes", values={each.id: 12.0 for each in client.decide_many("minutes", 20)})
        client.retire_arm("button", HOSTILE)


def fill_ledger(store: str, key: str, name: str, decisions: int) -> None:
    """Make an experiment with very many decisions and their outcomes, of which one in twenty is good."""
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, key)
        ledger.create(ExperimentSettings(name, ARMS, "guarded", {}, 7, "wait"), 0, 10)
        processor = CommandProcessor(ledger)
        for first in range(0, decisions, MOST_AT_ONCE):
            (made,) = processor.run([Decide(name, [f"{first + k:016d}" for k in range(MOST_AT_ONCE)])])
            assert isinstance(made, list)
            reports = [
                Report(each.id, 1.0 - (each.round % 20 == 0)) for each in made if isinstance(each, DecisionResponse)
            ]
            processor.run([Observe(name, reports)])
        processor.run([KeepSnapshot(name)])


def visiting(server: Server, key: str = ADMIN_KEY) -> httpx.Client:
    """Somebody with this key, without a browser."""
    return httpx.Client(base_url=server.url, cookies={COOKIE: key} if key else {}, timeout=60)


def new_secret(server: Server, name: str, role: str, *experiments: str) -> tuple[str, str]:
    """Make a key, for all experiments if none is named: its secret and its id."""
    secret, key = new_key(name, role, experiments=experiments or None)
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
    return secret, key.id


def sign_in(page: Page, key: str = ADMIN_KEY) -> None:
    page.goto("/")
    page.locator("#key").fill(key)
    page.locator('form[action="/sign-in"] button').click()
