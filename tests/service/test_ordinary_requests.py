"""Decisions and outcomes take a short way to the queue: keys are checked there as everywhere else."""

from contextlib import closing
from typing import Any

import pytest

from belated.ledger import open_ledger
from belated.ledger.keys import new_key
from support.http_helpers import at, create, serving, talk


def test_keys_with_limits_are_held_to_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "mine")
        create(http, "other")
        secrets = {}
        with closing(open_ledger(server.store)) as ledger:
            limits: dict[str, dict[str, Any]] = {
                "scoped": {"experiments": ("mine",)},
                "ended": {"expires": 1},
                "rated": {"rate": 1 / 3600},
            }
            for name, limit in limits.items():
                secrets[name], key = new_key(name, "decide")
                ledger.add_key(key._replace(**limit))

        def answers(name: str, experiment: str, count: int = 1) -> list[int]:
            with talk(server, secrets[name]) as other:
                return [other.post(at(experiment, "decisions"), json={}).status_code for _ in range(count)]

        assert answers("scoped", "mine", 2) == [200, 200]
        assert answers("scoped", "other", 2) == [403, 403]
        assert answers("ended", "mine", 2) == [401, 401]
        assert answers("rated", "mine", 3) == [200, 429, 429]
