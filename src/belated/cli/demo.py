"""`belated demo`: the service with a lively shop, on a scratch ledger, to look at its pages."""

import argparse
import heapq
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from belated.api.types import Deadline
from belated.cli.output import Output
from belated.client import Client, ServiceError
from belated.errors import BelatedError

READY_SECONDS = 120.0
"""How long the service may take to start: the first time it compiles."""
STEP_SECONDS = 0.1
VISITORS = 6
SHOPPERS = 2
"""A step: who comes to the landing page, and to the basket."""
LANDING = "landing-page"
BASKET = "basket"


class Shop(NamedTuple):
    """What visitors do, which nobody but the shop knows: how many buy, and after how many seconds on average."""

    sells: dict[str, float]
    takes: dict[str, float]

    def visit(self, arm: str, chance: random.Random) -> float | None:
        """Return after how many seconds a visitor buys who sees an arm; None: never."""
        if chance.random() >= self.sells.get(arm, 0.05):  # somebody may have added an arm on the page
            return None
        return chance.expovariate(1.0 / self.takes.get(arm, 2.0))


FIRST = Shop(
    {"short": 0.06, "story": 0.10, "discount": 0.08, "reviews": 0.13},
    {"short": 1.0, "story": 6.0, "discount": 1.0, "reviews": 2.0},
)
LATER = Shop({**FIRST.sells, "discount": 0.02}, FIRST.takes)
"""Half way `discount` has lost its charm, and `reviews` is new. `story` is better than `short`, but who reads it takes
longer to buy.
"""
BUYS = {"plain": (0, 0, 0, 0, 1, 2), "with pictures": (0, 0, 1, 1, 1, 2)}
"""How many things a shopper buys, each as likely."""


def demo(options: argparse.Namespace, out: Output) -> int:
    """Serve and play until stopped, or for some seconds."""
    key = f"belated_demo_{secrets.token_hex(16)}"
    address = f"http://127.0.0.1:{options.port}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the service ends with the demo
    with tempfile.TemporaryDirectory(prefix="belated-demo-") as folder:
        command = [sys.executable, "-m", "belated.cli", "serve", "--store", f"sqlite:///{folder}/ledger.db"]
        command += ["--port", str(options.port)]
        server = subprocess.Popen(command, env=os.environ | {"BELATED_ADMIN_KEY": key}, stdout=subprocess.DEVNULL)
        try:
            with Client(address, key, retry_seconds=1.0) as client:
                _wait(server, client)
                _create(client)
                out.line(f"Open this page and sign in; it has the key {key}:")
                out.line(f"  {address}/sign-in#key={key}")
                out.line("Ctrl-C ends the demo; nothing of it is kept.")
                _play(client, options.seconds, options.half)
        except KeyboardInterrupt:
            pass
        except BelatedError as error:
            out.note(f"belated: the demo ended: {error}")
            return 1
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    return 0


def _wait(server: "subprocess.Popen[bytes]", client: Client) -> None:
    """Return when the service answers; it is not there where it has ended, as it does if its port is taken."""
    give_up = time.monotonic() + READY_SECONDS
    while True:
        if server.poll() is not None:
            raise BelatedError(f"the service did not start; its exit status is {server.returncode}")
        try:
            client.experiments()
            return
        except ServiceError:  # not there yet, or somebody else on this port
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def _create(client: Client) -> None:
    """Create the experiments of the shop."""
    # a floor, so that what was best is known sooner
    client.create(LANDING, ["short", "story", "discount"], missing=Deadline(15.0, 1.0), share_floor=0.1)
    client.create(
        BASKET,
        list(BUYS),
        outcome={"lowest": 0, "highest": 200},
        reports="sum",
        missing=Deadline(15.0, 1.0),
        limits={"arms": [{"arm": "plain", "share": 0.25}]},
    )


def _play(client: Client, seconds: float, half: float) -> None:
    """Let visitors come and buy, for some seconds; half way things change."""
    chance = random.Random(11)
    begun = time.monotonic()
    buys: list[tuple[float, str, str]] = []  # (when, experiment, decision)
    shop = FIRST
    while (now := time.monotonic()) < begun + seconds:
        if shop is FIRST and now > begun + half:
            shop = LATER
            with _whatever_was_done():
                client.add_arm(LANDING, "reviews")
        with _whatever_was_done():
            for decision in client.decide_many(LANDING, VISITORS):
                if (wait := shop.visit(str(decision.arm), chance)) is not None:
                    heapq.heappush(buys, (now + wait, LANDING, decision.id))
        with _whatever_was_done():
            for decision in client.decide_many(BASKET, SHOPPERS):
                for _ in range(chance.choice(BUYS.get(str(decision.arm), BUYS["plain"]))):
                    heapq.heappush(buys, (now + chance.expovariate(0.3), BASKET, decision.id))
        while buys and buys[0][0] <= now:
            _, name, id = heapq.heappop(buys)
            with _whatever_was_done():
                if name == LANDING:
                    client.observe(LANDING, id, reward=1.0)
                else:
                    client.observe(BASKET, id, value=round(chance.lognormvariate(3.6, 0.6), 2))
        time.sleep(max(0.0, now + STEP_SECONDS - time.monotonic()))


@contextmanager
def _whatever_was_done() -> Iterator[None]:
    """Play on where somebody has paused or archived an experiment on the page, or erased ids."""
    try:
        yield
    except ServiceError as error:
        if not 400 <= error.status < 500:
            raise
