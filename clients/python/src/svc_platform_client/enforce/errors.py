"""What local enforcement can fail with: a closed list."""

from __future__ import annotations

import errno
from typing import Literal

import grpc

from .._text import visible_line
from ..errors import PlatformError

Failure = Literal["not_permitted", "not_authentic", "unavailable", "evidence_overdue", "invalid", "io_failed", "exists"]


class EnforcementError(Exception):
    """
    Raised by every operation; nothing of the output is there under its name then.

    `failure`: `not_permitted` (the platform denied it, or demands what cannot be met), `not_authentic` (bytes are not
    what was protected), `unavailable` (no answer that counts), `evidence_overdue`, `invalid` (input, option or key
    file), `io_failed` (a disk is full or fails, or a stream broke), `exists` (the output's name is taken).
    `decision_id`: the decision that denied, where there is one. The message steers no terminal, whatever it repeats.
    """

    def __init__(self, failure: Failure, message: str, decision_id: str = "") -> None:
        super().__init__(visible_line(message))
        self.failure: Failure = failure
        self.decision_id = decision_id

    @property
    def is_retryable(self) -> bool:
        """Whether the same operation may succeed later; with a stream, a fresh one. A refusal of the call is final."""
        cause = self.__cause__
        is_refused = isinstance(cause, PlatformError) and cause.code not in _PASSING
        return self.failure in _RETRYABLE and not is_refused

    @property
    def http_status(self) -> int:
        """Status for the answer of an HTTP service that enforces."""
        return _HTTP_STATUSES[self.failure]


_RETRYABLE = frozenset({"unavailable", "evidence_overdue", "io_failed"})
_PASSING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)
_HTTP_STATUSES: dict[Failure, int] = {
    "invalid": 400,
    "not_permitted": 403,
    "exists": 409,
    "not_authentic": 422,
    "io_failed": 500,
    "unavailable": 503,
    "evidence_overdue": 503,
}


_PATH_MISTAKES = frozenset(
    getattr(errno, name)
    for name in (
        *("EACCES", "EEXIST", "EINVAL", "EISDIR", "ELOOP", "ENAMETOOLONG", "ENOENT", "ENOTDIR", "ENOTEMPTY", "EPERM"),
        *("EROFS", "EXDEV"),
    )
)
"""What the system says of a path that cannot be used as it is; whatever else it says is of its disk."""


def failure_of_system(error: BaseException) -> Failure:
    """The failure that an error is: a mistake of the caller, or of a disk or stream."""
    is_system = isinstance(error, OSError) and error.errno is not None and error.errno not in _PATH_MISTAKES
    return "io_failed" if is_system else "invalid"
