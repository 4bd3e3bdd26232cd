"""What people see of results: tables for a terminal, figures, and a report in one HTML page."""

from belated.report.report import write

__all__ = ["write"]
