"""Which column of a log is for what."""

from collections.abc import Mapping, Sequence

from belated.errors import InvalidValue, unknown

GUESSES = {
    "arm": ("arm", "action", "variant", "treatment", "arm_name", "item_id"),
    "value": ("value", "revenue", "amount", "minutes"),
    "reward": ("reward", "outcome", "success", "converted", "conversion", "click"),
    "loss": ("loss",),
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "action_prob"),
    "distribution": ("distribution", "probabilities"),
    "time": ("round", "time", "timestamp", "at", "date", "datetime", "decided_at", "decision_time"),
    "outcome_time": (
        "outcome_time",
        "outcome_at",
        "reward_time",
        "converted_at",
        "conversion_time",
        "observed_at",
    ),
    "delay": ("delay", "duration"),
    "id": ("decision", "decision_id", "id"),
}
"""What a column is for -> the names by which it is found, if none is given."""
_RIVALS = (("value", "reward", "loss"), ("outcome_time", "delay"))
"""Columns of which a log uses one: a name given for one of them is not guessed against."""
_OUTCOMES = ("reward", "loss")
EVENT_COLUMNS = ("kind", "round", "arm", "propensity", "loss", "at")
"""What is read of an exported ledger."""


def has_events(names: Sequence[str]) -> bool:
    """Return whether these are the columns of an exported ledger, with a row for each event."""
    return "kind" in names and "receipt" in names


def check_known(given: Mapping[str, str | None]) -> None:
    """Refuse names for what no column is for."""
    for what in given:
        if what not in GUESSES:
            raise unknown("column", what, GUESSES)


def found_columns(
    source: str, names: Sequence[str], given: Mapping[str, str | None], has_scale: bool = False
) -> dict[str, str]:
    """Return what each column is for -> its name, as it is given or guessed.

    has_scale: whether there is a range for values; without one, a column of values is not looked for.
    """
    found: dict[str, str] = {}
    _check_given(given, has_scale)
    for what in GUESSES:
        if what == "value" and not has_scale:
            continue
        if (name := given.get(what)) is not None:
            if name not in names:
                raise InvalidValue(f"{source} has no column {name!r}; there are {', '.join(names)}", what)
        elif not any(given.get(rival) for rival in _rivals_of(what)) and not ("value" in found and what in _OUTCOMES):
            name = next((guess for guess in GUESSES[what] if guess in names), None)
        if name is not None:
            found[what] = name
    _check_outcome(source, names, found)
    _choose_times(source, given, found)
    for what, name in found.items():
        if names.count(name) > 1:
            raise InvalidValue(f"{source} has the column {name!r} twice; it is needed once", what)
    return found


def _check_given(given: Mapping[str, str | None], has_scale: bool) -> None:
    value = given.get("value")
    if value and not has_scale:
        raise InvalidValue(f"value is {value!r}, but there is no range: give lowest and highest in its units", "value")
    other = next((what for what in _OUTCOMES if given.get(what)), None)
    if value and other is not None:
        raise InvalidValue(f"value is {value!r} and {other} is {given[other]!r}; one of them is needed", "value")


def _rivals_of(what: str) -> Sequence[str]:
    return next((pair for pair in _RIVALS if what in pair), ())


def _check_outcome(source: str, names: Sequence[str], found: Mapping[str, str]) -> None:
    there = f"name it: there are {', '.join(names)}"
    if "arm" not in found:
        raise InvalidValue(f"{source} has no column for the arm; {there}", "arm")
    if "reward" in found and "loss" in found:
        raise InvalidValue(
            f"{source} has the columns {found['reward']!r} and {found['loss']!r}; name the one that counts", "reward"
        )
    if not {"value", "reward", "loss"} & found.keys():
        if value := next((guess for guess in GUESSES["value"] if guess in names), None):
            raise InvalidValue(
                f"{source} has no column for the reward or the loss; if {value!r} is the outcome in units of its own,"
                " give its lowest and highest value",
                "reward",
            )
        raise InvalidValue(f"{source} has no column for the reward or the loss; {there}", "reward")


def _choose_times(source: str, given: Mapping[str, str | None], found: dict[str, str]) -> None:
    """Leave one of the columns that say when outcomes came."""
    if given.get("outcome_time") and given.get("delay"):
        raise InvalidValue(
            f"outcome_time is {given['outcome_time']!r} and delay is {given['delay']!r}; one of them is needed", "delay"
        )
    if "outcome_time" in found:
        found.pop("delay", None)
        if "time" not in found:
            raise InvalidValue(
                f"{source} has {found['outcome_time']!r}, when outcomes came, but no column for the time of decisions;"
                " name it as time",
                "time",
            )
