"""Protection as a binary file that an uploader reads."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ._artifacts import Outcome, Work
from .errors import EnforcementError


class Pulled:
    """The target of work whose pieces are read: takes nothing itself."""

    def write(self, piece: Any, /) -> int:
        return len(piece)

    def flush(self) -> None:
        """There is nothing to flush."""


class ProtectedStream(io.RawIOBase):
    """
    Works as far as it is read: memory is that of a few segments. It ends after artifact and event are recorded, and
    reading raises the EnforcementError of a failure, then and later: what was read is complete only if it ended.
    Closing it before stops the work, which is recorded as failed.
    """

    outcome: Outcome | None = None
    """Known at the end."""

    def __init__(self, work: Work, enclosed: Callable[[], AbstractContextManager[None]]) -> None:
        self._pieces, self._left = self._carry_out(work, enclosed), memoryview(b"")
        self._failure: EnforcementError | None = None

    def _carry_out(self, work: Work, enclosed: Callable[[], AbstractContextManager[None]]) -> Iterator[bytes]:
        with enclosed():
            self.outcome = yield from work

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self.closed:
            raise ValueError("read of a closed stream")
        if self._failure is not None:
            raise self._failure
        try:
            while not self._left and (piece := next(self._pieces, None)) is not None:
                self._left = memoryview(piece)
        except EnforcementError as error:
            self._failure = error
            raise
        size = min(len(buffer), len(self._left))
        memoryview(buffer).cast("B")[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._pieces.close()  # type: ignore[attr-defined]
        super().close()
