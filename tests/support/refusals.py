"""What a refusal must say, whatever its words are: `tests/test_messages.py` is the one test of wording."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from belated.errors import InvalidValue


@contextmanager
def refused(
    field: str | None, *values: object, error: type[Exception] = InvalidValue
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Check that an error of this type is raised about this field, and that its message names these values."""
    with pytest.raises(error) as caught:
        yield caught
    assert getattr(caught.value, "field", None) == field, caught.value
    message = str(caught.value)
    assert [value for value in values if str(value) not in message] == [], message
