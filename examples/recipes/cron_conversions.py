"""A cron job that reads a table of purchases every five minutes, and reports those that are new.

    pip install 'belated[client]'
    */5 * * * *  BELATED_KEY=... python cron_conversions.py shop.db      # the key needs the role decide

The receipt of a purchase is kept with it, and a purchase without one is new. A job that dies half-way, or two jobs at
once, report something twice, which the service takes once. Purchases that are committed late are not missed, as they
would be after a bookmark.
"""

import os
import sqlite3
import sys
from contextlib import closing

from belated.client import Client, ServiceError

EXPERIMENT = "button"
AT_ONCE = 1000
TABLE = """
CREATE TABLE IF NOT EXISTS purchases (id INTEGER PRIMARY KEY, visit TEXT NOT NULL, amount REAL NOT NULL, receipt TEXT);
CREATE INDEX IF NOT EXISTS new_purchases ON purchases (id) WHERE receipt IS NULL;
"""


def report_new(client: Client, shop: sqlite3.Connection) -> dict[str, int]:
    """Report purchases that have no receipt yet; return receipt -> how many."""
    counts: dict[str, int] = {}
    select = "SELECT id, visit FROM purchases WHERE receipt IS NULL ORDER BY id LIMIT ?"
    while new := shop.execute(select, (AT_ONCE,)).fetchall():
        receipts = report(client, [visit for _, visit in new])
        with shop:
            shop.executemany(
                "UPDATE purchases SET receipt = ? WHERE id = ?", [(receipts[visit], id) for id, visit in new]
            )
        for _, visit in new:
            counts[receipts[visit]] = counts.get(receipts[visit], 0) + 1
    return counts


def report(client: Client, visits: list[str]) -> dict[str, str]:
    """Report a purchase for each visit; return visit -> receipt. What cannot be an id must not hold up the others."""
    try:
        answers = client.observe_many(EXPERIMENT, rewards=dict.fromkeys(visits, 1.0))
    except ServiceError as error:
        if error.code != "invalid":
            raise
        if len(visits) == 1:
            return {visits[0]: "invalid"}
        half = len(visits) // 2
        return report(client, visits[:half]) | report(client, visits[half:])
    return {answer.decision: answer.receipt for answer in answers}


def main(path: str) -> None:
    url = os.environ.get("BELATED_URL", "http://127.0.0.1:8000")
    with closing(sqlite3.connect(path)) as shop, Client(url) as client:
        shop.executescript(TABLE)
        counts = report_new(client, shop)
    print(", ".join(f"{count} {receipt}" for receipt, count in counts.items()) or "nothing new")


if __name__ == "__main__":
    main(sys.argv[1])
