"""Logs: decisions in their order and what came of them, from files, from frames, from a ledger."""

from belated.logs.events import EventLog
from belated.logs.files import ReadLog, frame_log, read_log, read_log_file
from belated.logs.log import Log
from belated.logs.rejections import Rejections

__all__ = ["EventLog", "Log", "ReadLog", "Rejections", "frame_log", "read_log", "read_log_file"]
