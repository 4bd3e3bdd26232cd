"""Why a worker stops."""

import asyncio

OUTDATED = 4
"""The exit status of a worker whose ledger a newer belated has upgraded: starting it again is of no use."""


class Stopping(asyncio.Event):
    """Set as soon as a worker is to stop; `status` is the exit status that it will have, where it decides so itself."""

    status = 0
