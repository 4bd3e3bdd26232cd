"""`belated serve`: the service."""

import argparse
import os
import time
from contextlib import closing

from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.ledger import open_ledger
from belated.ledger.keys import ensure_admin


def serve(options: argparse.Namespace, out: Output) -> int:
    """Serve until stopped."""
    from belated.service.limits import Limits, options_of_limits
    from belated.service.log import set_up
    from belated.service.server import MOST_WORKERS, ServerSettings, listen
    from belated.service.server import serve as run

    if not 1 <= options.workers <= MOST_WORKERS:
        raise InvalidValue(f"workers is {options.workers}; 1 to {MOST_WORKERS} are possible")
    if not 0 <= options.port < 65536:
        raise InvalidValue(f"port is {options.port}; 0 to 65535 is possible")
    for name, value in (("ready-wait", options.ready_wait), ("clock-bound", options.clock_bound)):
        if value < 1:
            raise InvalidValue(f"{name} is {value:g}; at least 1 second is needed")
    limits = Limits(
        **{limit.name: getattr(options, f"limit_{limit.name}") for limit in options_of_limits()},
        wait=options.ready_wait,
        rate=options.rate,
        forget_after=options.forget_after,
    )
    set_up(options.log_format)
    listen(options.host, options.port).close()  # before a key is shown that nobody could use
    with closing(open_ledger(options.store, wait=options.wait)) as ledger:
        first = ensure_admin(ledger, os.environ.get("BELATED_ADMIN_KEY"))
    if first:
        out.note(f"The first admin key of this ledger, shown this once:\n\n    {first}\n")
    return run(
        ServerSettings(
            options.store,
            options.host,
            options.port,
            options.workers,
            limits,
            options.wait,
            options.clock_bound,
            options.clock_settle,
            options.log_format,
            options.access_log,
        )
    )


def warm(options: argparse.Namespace, out: Output) -> int:
    """Compile learners."""
    from belated.learners import tune
    from belated.ledger.warm import DEFAULT, compile_all, compiled_of, one_at_a_time

    specs = list(options.learners)
    for spec in specs:
        tune(spec)  # refused where there is no such learner
    if options.store:
        with closing(open_ledger(options.store)) as opened:
            specs += sorted({each.learner for each in opened.all_outlines() if each.learner})
    begun = time.perf_counter()
    with one_at_a_time():
        names = compile_all(dict.fromkeys(filter(compiled_of, specs or [DEFAULT])))
    out.note(f"compiled, or found compiled: {', '.join(dict.fromkeys(names))} ({time.perf_counter() - begun:.1f} s)")
    return 0
