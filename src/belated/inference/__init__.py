"""Which arm wins, and how sure: estimates that stay true under adaptive allocation, delay and repeated looks.

>>> from belated import inference
>>> log = inference.Log.from_arrays(["a", "b"] * 500, rewards=[1.0, 0.0] * 500)
>>> inference.estimates(log).winner
'a'
"""

from belated.inference.course import Course, course
from belated.inference.estimates import ArmEstimate, Difference, Estimate, Estimates
from belated.inference.sources import estimates
from belated.logs import EventLog, Log, read_log

__all__ = [
    "ArmEstimate",
    "Course",
    "Difference",
    "Estimate",
    "Estimates",
    "EventLog",
    "Log",
    "course",
    "estimates",
    "read_log",
]
