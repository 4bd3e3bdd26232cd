"""Logs: decisions in their order and what came of them, from files, from frames, from a ledger."""

from belated.logs.events import EventLog
from belated.logs.files import ReadLog, frame_log, read_log, read_log_file
from belated.logs.log import Log
from belated.logs.ranges import Proposal, propose_scale
from belated.logs.rejections import Rejections
from belated.logs.scale import Scale
from belated.logs.unscaled import read_values

__all__ = [
    "EventLog",
    "Log",
    "Proposal",
    "ReadLog",
    "Rejections",
    "Scale",
    "frame_log",
    "propose_scale",
    "read_log",
    "read_log_file",
    "read_values",
]
