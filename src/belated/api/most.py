"""What the command line must know of the API before any package of the service is imported."""

MOST_AT_ONCE = 1_000
"""Decisions or outcomes in one request."""
