"""Watch calls in each process of the tests from its start."""

import os

if os.environ.get("BELATED_CALLS_TEST"):
    import watch_calls

    watch_calls.watch()
