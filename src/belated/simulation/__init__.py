"""Simulations: many learners on the same losses, delays and draws, many times over."""

from belated.simulation.intervals import Interval
from belated.simulation.run import Trace
from belated.simulation.simulation import Simulation, replay, simulate, spaced_checkpoints

__all__ = ["Interval", "Simulation", "Trace", "replay", "simulate", "spaced_checkpoints"]
