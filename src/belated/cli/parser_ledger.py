"""The arguments of `belated ledger`."""

from pathlib import Path
from typing import Any

from belated.cli.options import add_command, add_store, add_tables, age, seconds, whole

VERIFY_HELP = """\
Check that the ledger is whole: its file or database, its tables, its indexes. Then replay every
event of experiments and compare the result with what is stored. Nothing is changed or created.
The exit status is 1 where something is wrong.
"""
BACKUP_HELP = """\
Write the whole ledger to FILE, as it is at one moment, also while the service runs. FILE is an
SQLite ledger, whichever database it comes from; it is verified before it gets its name.
"""
RESTORE_HELP = """\
Make a ledger of a backup, in a store that has none: an SQLite file that is not there, or an empty
database. Stop the service first. Nothing is ever written over another ledger: move that away.
"""
COPY_HELP = """\
Copy a ledger from one store to another: experiments, events, keys, snapshots, bit for bit. The
target must be empty; it has all of the copy, or nothing. Stop the service first: what it decides
after the copy has begun is not in it.
"""


def add(commands: Any) -> None:
    """Add the commands."""
    ledger = add_command(commands, "ledger", "verify, export, back up, restore or copy the ledger, or erase ids in it")
    actions = ledger.add_subparsers(dest="action", metavar="action", required=True)
    verify = add_command(actions, "verify", "check the ledger, and replay the events of experiments", VERIFY_HELP)
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
    verify.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="X",
        help="propensities may differ by this, as those of another processor do; default: bit for bit",
    )
    verify.add_argument("--json", action="store_true", help="print JSON instead of text")
    export = add_command(actions, "export", "export the events of an experiment as NDJSON, CSV or Parquet")
    export.add_argument("experiment", metavar="EXPERIMENT", help="its name")
    export.add_argument("--format", choices=("ndjson", "csv", "parquet"), default="ndjson", help="default: %(default)s")
    export.add_argument("--after", type=whole, default=0, metavar="N", help="only events after event number N")
    export.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    backup = add_command(actions, "backup", "write the whole ledger to a file", BACKUP_HELP)
    backup.add_argument("file", type=Path, metavar="FILE", help="the backup to write")
    backup.add_argument("--force", action="store_true", help="replace FILE if it is there")
    restore = add_command(actions, "restore", "make a ledger of a backup", RESTORE_HELP)
    restore.add_argument("file", type=Path, metavar="FILE", help="what `belated ledger backup` wrote")
    copy = add_command(actions, "copy", "copy the ledger to another store", COPY_HELP)
    copy.add_argument("--from", dest="source", required=True, metavar="STORE", help="sqlite:///PATH or postgresql://…")
    copy.add_argument("--to", dest="target", required=True, metavar="STORE", help="the same; nothing may be in it")
    migrate = add_command(actions, "migrate", "bring a ledger of an older belated up to date, as `belated serve` does")
    for action in (verify, export, backup, restore, migrate, _add_forget(actions)):
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
