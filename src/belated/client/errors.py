"""The errors of the clients."""

from typing import Any

from belated.errors import BelatedError


class ServiceError(BelatedError):
    """A request that the service refused: `code` for programs, `message` for people, `field` where a value is wrong."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error pass from one process to another: the arguments are more than the message."""
        return type(self), (self.status, self.code, self.message, self.field)


class ServiceUnavailable(ServiceError):
    """A service that could not be reached, or could not commit, until the time to send again was over."""
