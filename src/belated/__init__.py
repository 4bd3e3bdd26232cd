"""Decisions whose outcomes come late, out of order, or never.

Live: `Bandit`. In bulk: `simulate`. The algorithms: `learners`. Names are loaded when they are first used, so that
importing this package costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belated import (
        audit,
        bounds,
        client,
        delays,
        environments,
        inference,
        league,
        learners,
        logs,
        replay,
        simplex,
        simulation,
        trial,
    )
    from belated.errors import (
        AlreadyObserved,
        BelatedError,
        BelatedWarning,
        InvalidValue,
        SnapshotError,
        UnknownDecision,
    )
    from belated.league import suite
    from belated.live import Bandit, Decision, Limits, Receipt, Scale
    from belated.simulation import Simulation, Trace, simulate

_HOMES = {
    "AlreadyObserved": "errors",
    "Bandit": "live",
    "BelatedError": "errors",
    "BelatedWarning": "errors",
    "Decision": "live",
    "InvalidValue": "errors",
    "Limits": "live",
    "Receipt": "live",
    "Scale": "live",
    "Simulation": "simulation",
    "SnapshotError": "errors",
    "Trace": "simulation",
    "UnknownDecision": "errors",
    "simulate": "simulation",
    "suite": "league",
}
_MODULES = (
    "audit",
    "bounds",
    "client",
    "delays",
    "environments",
    "inference",
    "league",
    "learners",
    "logs",
    "replay",
    "simplex",
    "simulation",
    "trial",
)

__all__ = [
    "AlreadyObserved",
    "Bandit",
    "BelatedError",
    "BelatedWarning",
    "Decision",
    "InvalidValue",
    "Limits",
    "Receipt",
    "Scale",
    "Simulation",
    "SnapshotError",
    "Trace",
    "UnknownDecision",
    "audit",
    "bounds",
    "client",
    "delays",
    "environments",
    "inference",
    "league",
    "learners",
    "logs",
    "replay",
    "simplex",
    "simulate",
    "simulation",
    "suite",
    "trial",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"belated.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"belated.{name}")
    elif name == "__version__":
        value = version("belated")
    else:
        raise AttributeError(f"module 'belated' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
