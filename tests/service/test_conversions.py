"""What the pages about the service show, run against a real server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.serving import ADMIN_KEY, KINDS, Server, Stores

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_the_shop_finds_the_button_that_sells(kind: str, tmp_path: Path) -> None:
    """1,500 visitors, buttons that sell to 5, 10 and 25 %: the best has the largest probability at the end.

    The experiment's draws and the visitors' choices are seeded; how late purchases are reported is up to the machine.
    """
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "error",
                ROOT / "examples/conversions.py",
                "--url",
                server.url,
                "--visitors",
                "1500",
            ],
            env=os.environ | {"BELATED_KEY": ADMIN_KEY},
            capture_output=True,
            text=True,
            check=True,
        )
        with server.client() as client:
            (state,) = (client.experiment(each.name) for each in client.experiments())
    assert "1500 visitors" in done.stdout
    # a report after the deadline is skipped, beside the default that was taken
    assert state.outcomes.used + state.outcomes.defaults == state.rounds == 1500
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
