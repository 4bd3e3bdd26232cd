"""Times, shares and amounts as pages show them."""

from belated.ledger.events import when
from belated.templates.display import number

DAY = 86400.0
_UNITS = ((2 * DAY, DAY, "day"), (2 * 3600.0, 3600.0, "hour"), (120.0, 60.0, "minute"), (0.0, 1.0, "second"))


def ago(seconds: float) -> str:
    """Return how long ago something was: `3 minutes ago`."""
    return "now" if seconds < 2.0 else f"{duration(float(int(seconds)), 0)} ago"


def duration(seconds: float, digits: int = 1) -> str:
    """Return a length of time in its largest fitting unit: `90 seconds`, `2.5 hours`."""
    for least, unit, word in _UNITS:
        if seconds >= least:
            amount = round(seconds / unit, digits) if seconds >= 1.0 else seconds
            return f"{number(amount)} {word}{'' if amount == 1 else 's'}"
    return "0 seconds"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.1 else f"{100 * share:.1f} %"


def moment(at: int) -> str:
    """Return a time of the ledger, to the second, in UTC."""
    return when(at)[:19].replace("T", " ")
