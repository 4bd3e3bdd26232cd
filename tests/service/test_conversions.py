"""What the pages about the service show, run against a real server."""

import re
import runpy
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.http_helpers import MOSTLY_SQLITE
from support.serving import ADMIN_KEY, Server, Stores
from support.waiting import until

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", MOSTLY_SQLITE)
def test_the_shop_finds_the_button_that_sells(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,500 visitors, buttons that sell to 5, 10 and 25 %: the best has the largest probability at the end.

    The experiment's draws and the visitors' choices are seeded, and weeks pass when the shop sleeps.
    """
    shop = runpy.run_path(str(ROOT / "examples/conversions.py"))
    main = shop["main"]
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        server.pass_time(seconds)

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep, time=time.time)
    monkeypatch.setitem(main.__globals__, "time", clock)
    monkeypatch.setitem(main.__globals__, "A_WEEK", 7 * 86400.0)
    monkeypatch.setenv("BELATED_KEY", ADMIN_KEY)
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        monkeypatch.setattr(sys, "argv", ["conversions.py", "--url", server.url, "--visitors", "1500"])
        main()
        (name,) = (each.name for each in client.experiments())
        until(lambda: not client.experiment(name).outstanding)
        state = client.experiment(name)
    assert "1500" in capsys.readouterr().out
    assert state.outcomes.used + state.outcomes.defaults == state.rounds == 1500
    assert state.outcomes.skipped == 0  # purchases are sooner than the deadline
    assert state.outcomes.defaults > 1000
    assert max(state.arms, key=lambda arm: arm.probability).arm == "red"


def test_the_page_about_the_service_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/service.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.setenv("BELATED_KEY", ADMIN_KEY)
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log") as server:
        code = block.replace("http://127.0.0.1:8000", server.url)
        assert code != block
        names: dict[str, object] = {}
        exec(compile(code, "service.md", "exec"), names)
        with server.client() as client:
            assert client.experiment("banner").outcomes.used == 1
