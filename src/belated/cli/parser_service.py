"""The arguments of `belated serve` and `keys`."""

from typing import Any

from belated.cli import completion
from belated.cli.options import add_command, add_store, add_tables, age, complete, moment, rate, seconds, whole
from belated.service.limits import option, options_of_limits

SERVE_HELP = """\
Serve decisions over HTTP. Every answer is on disk before it is sent. The first start prints an
admin key, once; set BELATED_ADMIN_KEY to choose the key yourself. `belated keys` creates more keys.
The API is described at /docs.

store   sqlite:///belated.db               a file in the current folder, created if it is missing
        sqlite:////var/lib/belated.db      a file by its full path
        postgresql://USER@HOST/DATABASE    for workers on several machines
"""
DEMO_HELP = """\
Serve a lively shop on a scratch ledger, to look at the pages of the service: purchases come late and
mostly never, buyers of the better page take longer, one page loses its charm half way, a new one comes.
Prints the address and a key. Nothing is kept.
"""
WARM_HELP = """\
Compile what deciding with these learners needs, into the cache of compiled code (NUMBA_CACHE_DIR sets
its folder). A service does so itself when it starts or meets a new learner; after an upgrade, or in
an image, `belated warm` does it beforehand.
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
    serve.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how the log is written; default: %(default)s"
    )
    serve.add_argument("--access-log", action="store_true", help="write a line to the log for every request")
    limits = serve.add_argument_group("limits of one worker")
    for limit in options_of_limits():
        limits.add_argument(
            option(limit.name),
            dest=f"limit_{limit.name}",
            type=whole if limit.type is int else float,
            default=limit.default,
            metavar="N",
            help=f"{limit.metadata['summary']}; default: {limit.default:,}",
        )
    _add_keys(commands)
    _add_warm(commands)
    demo = add_command(commands, "demo", "look at the pages of the service, with a lively shop", DEMO_HELP)
    demo.add_argument("--port", type=whole, default=8000, metavar="N", help="default: %(default)s")
    demo.add_argument(
        "--seconds", type=seconds, default=86400, metavar="SECONDS", help="how long to play; default: %(default)s"
    )
    demo.add_argument(
        "--half", type=seconds, default=60, metavar="SECONDS", help="when things change; default: %(default)s"
    )


def _add_warm(commands: Any) -> None:
    warm = add_command(commands, "warm", "compile learners before the service needs them", WARM_HELP)
    complete(
        warm.add_argument("learners", nargs="*", metavar="LEARNER", help="default: the default learner"),
        completion.learners,
    )
    warm.add_argument("--store", metavar="STORE", help="compile all learners in use there, too")


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
