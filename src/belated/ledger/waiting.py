"""Waiting for a database that is still coming up, as after the start of a machine that runs both."""

import logging
import time
from collections.abc import Callable

from belated.ledger.base import Ledger, LedgerUnavailable

logger = logging.getLogger("belated.ledger")

PAUSE_SECONDS = 0.5
SAY_SECONDS = 10.0
"""How often the log says what is waited for."""


def migrate_when_up(ledger: Ledger, seconds: float, stopped: Callable[[], bool] = lambda: False) -> None:
    """Bring the tables up to date, as soon as the database is there: wait for it so long, or until told to stop.

    A database that is there and refuses us is not waited for.
    """
    begun = time.monotonic()
    said: float | None = None
    refused = False
    while True:
        try:
            ledger.migrate()
            break
        except LedgerUnavailable as error:
            waited = time.monotonic() - begun
            if waited >= seconds or stopped():
                raise
            if not ledger.is_coming_up():
                if refused:
                    raise
                refused = True  # it may have come up just now: once more
                continue
            refused = False
            if said is None or waited - said >= SAY_SECONDS:
                said = waited
                logger.warning("waiting for the database, for %.0f s more at most: %s", seconds - waited, error)
            time.sleep(PAUSE_SECONDS)
    if said is not None:
        logger.warning("the database %s is there after %.1f s", ledger.store, time.monotonic() - begun)
