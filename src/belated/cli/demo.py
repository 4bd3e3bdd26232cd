"""`belated demo`: the service with a lively shop, on a scratch ledger, to look at its pages."""

import argparse
import heapq
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import NamedTuple

from belated.api.types import Deadline
from belated.cli.output import Output
from belated.client import Client, ServiceError

READY_SECONDS = 120.0
"""How long the service may take to start: the first time it compiles."""
STEP_SECONDS = 0.1
VISITORS = 6
"""A step."""
BUTTON = "button"
BASKET = "basket"


class Shop(NamedTuple):
    """What visitors do, which nobody but the shop knows: how many buy, and after how many seconds on average."""

    sells: dict[str, float]
    takes: dict[str, float]


FIRST = Shop(
    {"blue": 0.06, "green": 0.09, "red": 0.08, "violet": 0.14}, {"blue": 1.0, "green": 6.0, "red": 1.0, "violet": 2.0}
)
LATER = Shop({**FIRST.sells, "red": 0.02}, FIRST.takes)
"""Half way `red` has lost its charm, and `violet` is new. `green` is better than `blue`, but its buyers take longer."""


def demo(options: argparse.Namespace, out: Output) -> int:
    """Serve and play until stopped, or for some seconds."""
    key = f"belated_demo_{secrets.token_hex(16)}"
    with tempfile.TemporaryDirectory(prefix="belated-demo-") as folder:
        command = [sys.executable, "-m", "belated.cli", "serve", "--store", f"sqlite:///{folder}/ledger.db"]
        command += ["--port", str(options.port)]
        server = subprocess.Popen(command, env=os.environ | {"BELATED_ADMIN_KEY": key}, stdout=subprocess.DEVNULL)
        try:
            with Client(f"http://127.0.0.1:{options.port}", key, retry_seconds=READY_SECONDS) as client:
                client.experiments()
                out.line(f"Open http://127.0.0.1:{options.port}/ and sign in with this key: {key}")
                out.line("Ctrl-C ends the demo; nothing of it is kept.")
                _play(client, options.seconds, options.half)
        except KeyboardInterrupt:
            pass
        except ServiceError as error:
            out.note(f"belated: the demo ended: {error}")
            return 1
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(20)
    return 0


def _play(client: Client, seconds: float, half: float) -> None:
    """Let visitors come and buy, for some seconds; half way things change."""
    chance = random.Random(11)
    begun = time.monotonic()
    client.create(BUTTON, ["blue", "green", "red"], missing=Deadline(15.0, 1.0))
    client.create(
        BASKET,
        ["plain", "with pictures"],
        outcome={"lowest": 0, "highest": 200},
        reports="sum",
        missing=Deadline(15.0, 1.0),
        limits={"arms": [{"arm": "plain", "share": 0.25}]},
    )
    buys: list[tuple[float, str, str]] = []  # (when, experiment, decision)
    shop = FIRST
    while (now := time.monotonic()) < begun + seconds:
        if shop is FIRST and now > begun + half:
            shop = LATER
            client.add_arm(BUTTON, "violet")
        for decision in client.decide_many(BUTTON, VISITORS):
            if chance.random() < shop.sells[str(decision.arm)]:
                wait = chance.expovariate(1 / shop.takes[str(decision.arm)])
                heapq.heappush(buys, (now + wait, BUTTON, decision.id))
        for decision in client.decide_many(BASKET, 2):
            for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
                heapq.heappush(buys, (now + chance.expovariate(0.3), BASKET, decision.id))
        while buys and buys[0][0] <= now:
            _, name, id = heapq.heappop(buys)
            if name == BUTTON:
                client.observe(BUTTON, id, reward=1.0)
            else:
                client.observe(BASKET, id, value=round(chance.lognormvariate(3.6, 0.6), 2))
        time.sleep(max(0.0, now + STEP_SECONDS - time.monotonic()))
