"""Who does the work: tasks on the cores of this machine, or on a cluster. The same tasks, the same numbers.

joblib runs them: on threads here, since the compiled loop leaves the GIL alone; on a Dask cluster where an address is
given (`belated worker` joins it). A worker that dies loses nothing: its tasks go to the others.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], *, workers: int | None, cluster: str | None
) -> Iterator[Any]:
    """What the function returns for each task, in whatever order they are done."""
    try:
        import joblib
    except ImportError as error:
        raise ImportError("this needs joblib: pip install 'belated[league]'") from error
    if cluster is None:
        parallel = joblib.Parallel(
            n_jobs=workers or available_cores(), backend="threading", return_as="generator_unordered"
        )
        yield from parallel(joblib.delayed(function)(*task) for task in tasks)
    else:
        yield from _on_cluster(function, tasks, cluster)


def work_for(address: str, threads: int | None) -> None:
    """Join the Dask cluster at this address, and work for it until it closes: the same as `dask worker`."""
    try:
        from distributed.cli.dask_worker import main
    except ImportError as error:
        raise ImportError("a cluster needs Dask: pip install 'belated[cluster]'") from error
    main(
        [address, "--nthreads", str(threads or available_cores()), "--no-dashboard", "--death-timeout", "60"],
        standalone_mode=False,
    )


def _on_cluster(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("a cluster needs Dask: pip install 'belated[cluster]'") from error
    import joblib

    try:
        client: Any = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    with client, joblib.parallel_config(backend="dask", wait_for_workers_timeout=60):
        yield from joblib.Parallel(return_as="generator_unordered")(joblib.delayed(function)(*task) for task in tasks)
