"""The process that simulates: started, listened to, and ended with whoever listens."""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator

import msgspec

from belated.service.simulate.plan import Plan

logger = logging.getLogger("belated.service")

MOST_LINE = 1 << 20
"""Bytes of what is told at once."""
FAILED = b'{"problem":"The simulation failed; the log of the service says why."}'


async def play(plan: Plan) -> AsyncGenerator[bytes, None]:
    """Yield findings as JSON, one after each run, or what is wrong. Whoever stops listening ends the process."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # not with what the working directory has
            "-m",
            "belated.service.simulate",
            stdin=PIPE,
            stdout=PIPE,
            limit=MOST_LINE,
            start_new_session=True,  # Ctrl-C ends the service, which ends this
            env={name: value for name, value in os.environ.items() if name != "BELATED_ADMIN_KEY"},
        )
    except OSError as error:
        logger.error("starting a process that simulates failed: %s", error)
        yield FAILED
        return
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(plan) + b"\n")  # stays open: the process ends when it is closed
        while line := await process.stdout.readline():
            yield line.rstrip()
        if status := await process.wait():
            logger.error("simulating failed: the process ended with status %d", status)
            yield FAILED
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
