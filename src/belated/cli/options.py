"""Options that several commands share."""

import argparse
import math
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from belated.cli import completion
from belated.specs import seconds as seconds_of

MOST_SECONDS = 100 * 366 * 86400.0


def add_command(commands: Any, name: str, summary: str, description: str | None = None) -> argparse.ArgumentParser:
    """Add a command; its description is shown as it is written."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description or f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return command


def complete(action: argparse.Action, completer: Callable[..., list[str]]) -> None:
    """Let the shell complete an argument by these words."""
    action.completer = completer  # type: ignore[attr-defined]


def add_tables(command: argparse.ArgumentParser) -> None:
    """Add the options of every command that prints a table."""
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    command.add_argument("--wide", action="store_true", help="print all columns, however wide the table gets")


def add_learners(command: argparse.ArgumentParser, what: str) -> None:
    """Add --learners."""
    action = command.add_argument("--learners", nargs="+", metavar="LEARNER", help=what)
    complete(action, completion.learners)


def add_cells(command: argparse.ArgumentParser, *names: str, **settings: Any) -> None:
    """Add an argument for cells of the suite."""
    complete(command.add_argument(*names, metavar="CELL", **settings), completion.cells)


def add_families(command: argparse.ArgumentParser) -> None:
    """Add --family."""
    action = command.add_argument("--family", nargs="+", metavar="FAMILY", help="only cells of these families")
    complete(action, completion.families)


def add_repetition(command: argparse.ArgumentParser, usual: int, in_file: bool = False) -> None:
    """Add --replications and --seed. Their defaults are the usual values, or None where a file may give them."""
    command.add_argument(
        "--replications",
        type=whole,
        metavar="N",
        default=None if in_file else usual,
        help=f"how often to repeat the run; default: {usual}",
    )
    command.add_argument(
        "--seed", type=whole, metavar="N", default=None if in_file else 0, help="of the random numbers; default: 0"
    )


def add_threads(command: argparse.ArgumentParser) -> None:
    """Add --threads."""
    command.add_argument("--threads", type=whole, metavar="N", help="default: one for each core")


def add_out(command: argparse.ArgumentParser, folder: str) -> None:
    """Add --out."""
    command.add_argument(
        "--out", type=Path, default=Path(folder), metavar="DIR", help="folder for the files; default: %(default)s"
    )


def add_store(command: argparse.ArgumentParser) -> None:
    """Add --store."""
    command.add_argument(
        "--store",
        default=os.environ.get("BELATED_STORE", "sqlite:///belated.db"),
        help="sqlite:///PATH or postgresql://…; default: BELATED_STORE, else sqlite:///belated.db",
    )


def seconds(text: str) -> float:
    """Return a number of seconds, at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


def whole(text: str) -> int:
    """Return a whole number as people write it: 100000, 100_000, 100,000, 1e5."""
    try:
        number = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0.5
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(number)


def age(text: str) -> float:
    """Return a time that passes, in seconds, as people write it: 90d, 2w, 12h, 30m, 45s."""
    found = seconds_of(text)
    if found is None or not 0 < found <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90d, 12h, 30m or 45s, of at most 100 years")
    return found


def moment(text: str) -> float:
    """Return a point in time, in seconds since 1970: a date such as 2030-12-31, in UTC, or a time from now: 90d."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        try:
            return time.time() + age(text)
        except argparse.ArgumentTypeError:
            message = (
                f"{text!r} is not a time from now such as 90d, or a date such as 2030-12-31 or 2030-12-31T12:00:00Z"
            )
            raise argparse.ArgumentTypeError(message) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def rate(text: str) -> float:
    """Return a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
