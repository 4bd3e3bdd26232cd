"""Results for people: tables for a terminal, figures, and the report of a league in one HTML page."""

from belated.report.report import write

__all__ = ["write"]
