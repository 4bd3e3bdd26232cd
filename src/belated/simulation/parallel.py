"""Who does the work: jobs on the cores of this machine, or on a cluster. The same jobs give the same numbers.

joblib runs them: on threads here, since the compiled loop releases the GIL; on a Dask cluster where an address is
given (`belated cluster-worker` joins it). A cluster worker that dies loses nothing: its jobs go to the others.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from belated.errors import InvalidValue, needs_extra

CONNECT_SECONDS = 10
"""How long to wait for the scheduler of a cluster."""


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], *, threads: int | None, cluster: str | None
) -> Iterator[Any]:
    """Yield what the function returns for each job, in whatever order they are done."""
    with needs_extra("the league", "league"):
        import joblib
    if cluster is None:
        parallel = joblib.Parallel(
            n_jobs=threads or available_cores(), backend="threading", return_as="generator_unordered"
        )
        yield from parallel(joblib.delayed(function)(*job) for job in jobs)
    else:
        yield from _on_cluster(function, jobs, cluster)


def join_cluster(address: str, threads: int | None) -> None:
    """Join the Dask cluster at this address, and work for it until it closes: the same as `dask worker`."""
    with needs_extra("a cluster", "cluster"):
        from distributed.cli.dask_worker import main
    main(
        [address, "--nthreads", str(threads or available_cores()), "--no-dashboard", "--death-timeout", "60"],
        standalone_mode=False,
    )


def _on_cluster(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], address: str) -> Iterator[Any]:
    with needs_extra("a cluster", "cluster"):
        import joblib
        from distributed import Client
    try:
        client: Any = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise InvalidValue(f"no Dask scheduler answers at {address}: {error}", "cluster") from error
    with client, joblib.parallel_config(backend="dask", wait_for_workers_timeout=60):
        yield from joblib.Parallel(return_as="generator_unordered")(joblib.delayed(function)(*job) for job in jobs)
