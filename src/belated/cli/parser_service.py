"""The arguments of `belated serve`, `keys` and `ledger`."""

from pathlib import Path
from typing import Any

from belated.cli.options import add_command, add_store, add_tables, age, moment, rate, seconds, whole

SERVE_HELP = """\
Serve decisions over HTTP. Every answer is on disk before it is sent. The first start prints an
admin key, once; set BELATED_ADMIN_KEY to choose the key yourself. `belated keys` creates more keys.
The API is described at /docs.

store   sqlite:///belated.db               a file in the current folder, created if it is missing
        sqlite:////var/lib/belated.db      a file by its full path
        postgresql://USER@HOST/DATABASE    for workers on several machines
"""


def add(commands: Any) -> None:
    """Add the commands."""
    serve = add_command(commands, "serve", "serve decisions over HTTP", SERVE_HELP)
    add_store(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    serve.add_argument("--port", type=whole, default=8000, metavar="N", help="default: %(default)s; 0: any free port")
    serve.add_argument("--workers", type=whole, default=1, metavar="N", help="processes; default: %(default)s")
    for name, usual, what in (
        ("--wait", 60, "how long to wait at the start for a PostgreSQL that is still coming up"),
        ("--ready-wait", 5, "/readyz answers 503 while a request waits longer for its commit"),
        ("--clock-bound", 60, "a jump of the clock beyond this is not followed"),
        ("--clock-settle", 600, "a clock that went back is followed after it has stayed there so long"),
    ):
        serve.add_argument(name, type=seconds, default=usual, metavar="SECONDS", help=f"{what}; default: %(default)s")
    serve.add_argument(
        "--rate",
        type=rate,
        metavar="N",
        help="requests a second for each key without a rate of its own; default: any number",
    )
    serve.add_argument(
        "--forget-after",
        type=age,
        metavar="AGE",
        help="erase the ids of decisions older than this, such as 90d; default: never",
    )
    _add_keys(commands)
    _add_ledger(commands)


def _add_keys(commands: Any) -> None:
    keys = add_command(commands, "keys", "create, list and revoke the keys of the service")
    actions = keys.add_subparsers(dest="action", metavar="action", required=True)
    create = add_command(actions, "create", "create a key and print it, once")
    create.add_argument("name", metavar="NAME", help="whose key it is; shown in the list")
    create.add_argument(
        "--role", choices=("decide", "read", "admin"), default="decide", help="what it allows; default: %(default)s"
    )
    create.add_argument(
        "--experiments",
        nargs="+",
        metavar="NAME",
        help="the experiments that it opens; * stands for any characters, as in 'shop-*'; default: all",
    )
    create.add_argument(
        "--expires",
        type=moment,
        metavar="WHEN",
        help="when it ends: after a time such as 90d or 12h, or at a date such as 2030-12-31 (UTC); default: never",
    )
    create.add_argument(
        "--rate", type=rate, metavar="N", help="requests a second that it may make; default: that of belated serve"
    )
    listed = add_command(actions, "list", "list all keys, without their secrets")
    add_tables(listed)
    revoke = add_command(actions, "revoke", "revoke a key")
    revoke.add_argument("id", metavar="ID", help="the id that `belated keys list` shows")
    for action in (create, listed, revoke):
        add_store(action)


def _add_ledger(commands: Any) -> None:
    ledger = add_command(commands, "ledger", "verify or export the ledger of an experiment, or erase ids in it")
    actions = ledger.add_subparsers(dest="action", metavar="action", required=True)
    verify = add_command(
        actions,
        "verify",
        "replay the events of experiments and compare with what is stored",
        "Replay every event of experiments and compare the result with what is stored.\n"
        "The exit status is 1 where they differ.",
    )
    verify.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="default: all")
    verify.add_argument(
        "--url", metavar="URL", help="of a running service: compare with its state, too; BELATED_KEY holds the key"
    )
    verify.add_argument(
        "--clock-bound",
        type=seconds,
        default=60,
        metavar="SECONDS",
        help="of the service that wrote it: dates may go back by more than this; default: %(default)s",
    )
    verify.add_argument("--json", action="store_true", help="print JSON instead of text")
    export = add_command(actions, "export", "export the events of an experiment as NDJSON, CSV or Parquet")
    export.add_argument("experiment", metavar="EXPERIMENT", help="its name")
    export.add_argument("--format", choices=("ndjson", "csv", "parquet"), default="ndjson", help="default: %(default)s")
    export.add_argument("--after", type=whole, default=0, metavar="N", help="only events after event number N")
    export.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    for action in (verify, export, _add_forget(actions)):
        add_store(action)


def _add_forget(actions: Any) -> Any:
    forget = add_command(
        actions,
        "forget",
        "erase the ids of decisions; what was decided and learned stays",
        "Erase the ids of decisions and of their outcomes. Arms, propensities, losses and rounds stay.\n"
        "Works while the service runs. What is erased cannot be brought back.",
    )
    forget.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help="its name")
    forget.add_argument("--all", action="store_true", help="in all experiments")
    which = forget.add_mutually_exclusive_group()
    which.add_argument("--id", nargs="+", metavar="ID", help="the decisions with these ids")
    which.add_argument(
        "--matching", metavar="PATTERN", help="decisions whose ids match, * for any characters, as in 'user-17-*'"
    )
    which.add_argument("--older-than", type=age, metavar="AGE", help="decisions older than this, such as 90d or 12h")
    which.add_argument("--list", action="store_true", help="show what was erased so far, and erase nothing")
    forget.add_argument(
        "--rewrite",
        action="store_true",
        help="SQLite: write the whole file anew afterwards, without the last traces; deciders wait meanwhile",
    )
    forget.add_argument("--dry-run", action="store_true", help="count the ids, and erase nothing")
    add_tables(forget)
    return forget
