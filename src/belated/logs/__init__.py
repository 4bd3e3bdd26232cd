"""Logs: decisions in their order and what came of them, from files, from frames, from a ledger."""

from belated.logs.events import EventLog
from belated.logs.files import frame_log, read_log
from belated.logs.log import Log

__all__ = ["EventLog", "Log", "frame_log", "read_log"]
