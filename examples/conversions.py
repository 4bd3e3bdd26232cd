"""A small shop whose conversions come late: which button sells?

Visitors see a button, some of them buy, a while later. Only purchases are reported; nobody reports that a visitor did
not buy. The experiment says what silence means: no purchase within the deadline is a loss of 1.

    belated serve                                    # prints a key at its first start
    BELATED_KEY=... python examples/conversions.py   # the shop, in fast motion: a week is a second
"""

import argparse
import heapq
import random
import time

from belated.api.types import Deadline, Experiment
from belated.client import Client

SELLS = {"blue": 0.05, "green": 0.10, "red": 0.25}
"""How many of those who see a button buy; the shop does not know."""
A_WEEK = 1.0
"""Seconds, in fast motion."""


def run_shop(client: Client, name: str, visitors: int, seed: int) -> Experiment:
    """Let visitors come in small groups, report purchases when they happen, wait for the last; the state at the end."""
    chance = random.Random(seed)
    client.create(name, list(SELLS), seed=seed, missing=Deadline(deadline=A_WEEK, loss=1.0))
    purchases: list[tuple[float, str]] = []  # (when it will happen, the decision it belongs to)
    for group in range(0, visitors, 20):
        ids = [f"visitor-{number}" for number in range(group, min(group + 20, visitors))]
        for decision in client.decide_many(name, ids):
            if chance.random() < SELLS[str(decision.arm)]:
                takes = min(chance.expovariate(4 / A_WEEK), 0.8 * A_WEEK)
                heapq.heappush(purchases, (time.monotonic() + takes, decision.id))
        report(client, name, purchases)
        time.sleep(A_WEEK / 50)
    while purchases:
        time.sleep(A_WEEK / 50)
        report(client, name, purchases)
    time.sleep(1.5 * A_WEEK)  # the deadline of the last visitor
    return client.experiment(name)


def report(client: Client, name: str, purchases: list[tuple[float, str]]) -> None:
    """Tell the service of the purchases that have happened by now."""
    happened = {}
    while purchases and purchases[0][0] <= time.monotonic():
        happened[heapq.heappop(purchases)[1]] = 1.0
    client.observe_many(name, rewards=happened)


def main() -> None:
    options = argparse.ArgumentParser(description="A small shop whose conversions come late.")
    options.add_argument("--url", default="http://127.0.0.1:8000")
    options.add_argument("--visitors", type=int, default=4000)
    options.add_argument("--name", default=f"button-{int(time.time())}")
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    with Client(given.url) as client:
        state = run_shop(client, given.name, given.visitors, given.seed)
    print(
        f"{state.rounds} visitors, {state.outcomes.used} purchases, {state.outcomes.defaults} who did not buy in time"
    )
    for arm in state.arms:
        print(f"{arm.arm:>6}: shown to {arm.decisions:4d}, mean loss {arm.mean_loss:.2f}, now at {arm.probability:.2f}")


if __name__ == "__main__":
    main()
