"""Decisions whose outcomes come late, out of order, or never.

Live: `Bandit`. In bulk: `simulate`. What can learn: `learners`. Names are loaded when they are first used, so that
importing this package costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belated import audit, bounds, delays, environments, learners
    from belated.bandit import Bandit
    from belated.decisions import Decision, Receipt
    from belated.errors import AlreadyObserved, BelatedError, SnapshotError, UnknownDecision
    from belated.player import Trace
    from belated.simulation import Simulation, simulate

_HOMES = {
    "Bandit": "bandit",
    "Decision": "decisions",
    "Receipt": "decisions",
    "AlreadyObserved": "errors",
    "BelatedError": "errors",
    "SnapshotError": "errors",
    "UnknownDecision": "errors",
    "Simulation": "simulation",
    "Trace": "player",
    "simulate": "simulation",
}
_MODULES = ("audit", "bounds", "delays", "environments", "learners")

__all__ = [
    "AlreadyObserved",
    "Bandit",
    "BelatedError",
    "Decision",
    "Receipt",
    "Simulation",
    "SnapshotError",
    "Trace",
    "UnknownDecision",
    "audit",
    "bounds",
    "delays",
    "environments",
    "learners",
    "simulate",
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
