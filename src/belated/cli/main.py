"""The command `belated`: read the arguments, run the command, report errors in a line."""
# PYTHON_ARGCOMPLETE_OK

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module

from belated.cli import completion
from belated.cli.output import Output
from belated.cli.parser import parser
from belated.errors import BelatedError, needs_extra

REFUSED = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
PIPE_CLOSED = 141  # 128 + SIGPIPE

_MODULES = {
    "audit": "theory",
    "bounds": "theory",
    "cells": "learners",
    "cluster-worker": "league",
    "compare": "compare",
    "completion": "completion",
    "demo": "demo",
    "estimates": "estimates",
    "keys": "keys",
    "league": "league",
    "learners": "learners",
    "ledger": "ledger",
    "range": "range",
    "replay": "replay",
    "report": "league",
    "serve": "service",
    "sweep": "league",
    "trial": "trial",
    "warm": "service",
}
"""The module of each command. It is imported when the command is run, since most of them need numpy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        try:
            return _run(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # `belated … | head`: the reader has gone. What is left in the buffer must go somewhere when Python exits.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run(arguments: Sequence[str] | None) -> int:
    commands = parser()
    if "_ARGCOMPLETE" in os.environ:
        completion.answer(commands)
    options = commands.parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    out = Output(getattr(options, "json", False), getattr(options, "wide", False))
    if options.version:
        from belated import __version__

        out.text(__version__)
        return 0
    if options.command is None:
        out.text(commands.format_help().rstrip())
        return 0
    try:
        return _command(options.command)(options, out)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        out.note("belated: stopped")
        return INTERRUPTED
    except OSError as error:
        out.note(f"belated: {f'{error.filename}: {error.strerror}' if error.filename else error}")
        return REFUSED
    except (BelatedError, ValueError, ImportError) as error:
        out.note(f"belated: {error}")
        return REFUSED


def _command(name: str) -> Callable[[argparse.Namespace, Output], int]:
    module = _MODULES[name]
    with needs_extra("the service", "service") if module in ("demo", "keys", "ledger", "service") else nullcontext():
        function: Callable[[argparse.Namespace, Output], int] = getattr(
            import_module(f"belated.cli.{module}"), name.replace("-", "_")
        )
    return function
