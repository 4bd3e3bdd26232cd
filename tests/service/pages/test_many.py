"""The page of an experiment with very many decisions: it comes from what is kept, not from reading them."""

from pathlib import Path

import pytest

from support.elements import read_html
from support.pages import fill_ledger, visiting
from support.serving import ADMIN_KEY, Server, Stores

DECISIONS = 300_000
MOST_BYTES = 300_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_very_many_decisions_are_shown(tmp_path: Path) -> None:
    """After a restart, too: the first time the arms are looked at, and when what was read of them has been kept."""
    store = Stores.fresh("sqlite", tmp_path)
    fill_ledger(store, ADMIN_KEY, "many", DECISIONS)
    with Server(store, tmp_path / "log") as server:
        look(server)
        server.terminate()
        server.start()
        look(server)


def look(server: Server) -> None:
    """Open the page, and listen until it has a verdict; check how large it is."""
    with visiting(server) as http:
        with http.stream("GET", "/experiments/many/live", timeout=500) as stream:
            assert "event: known" in stream.iter_lines()
        answer = http.get("/experiments/many")
        assert answer.status_code == 200
        assert len(answer.content) < MOST_BYTES
        page = read_html(answer.text)
        assert page.one(data_show="rounds").text == f"{DECISIONS:,}"
        (known,) = page.one("script", id="known").children
        assert "verdict" in str(known)
