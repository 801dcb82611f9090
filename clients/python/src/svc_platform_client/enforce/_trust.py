"""Answers that count: if the log's keys are known, those alone that the log shows to be answers to what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .. import v1
from ..receipts import ItemRequest, RecordedAnswer, RecordedItem, verify_answer, verify_item
from ._platform import Platform
from .errors import EnforcementError


class TrustedLog:
    """The log of the tenant."""

    def __init__(self, platform: Platform, log_keys: Sequence[str] | None, caller: v1.Caller | None) -> None:
        self._platform, self._log_keys, self._caller = platform, log_keys, caller

    def require(self, request: ItemRequest, answer: RecordedAnswer | RecordedItem, sent_at: float) -> None:
        """
        Raises `unavailable` unless a whole receipt shows that the log holds this request, of this caller, made at this
        time, and this answer to it.
        """
        if self._log_keys is None:
            return
        try:
            caller = self._caller or self._platform.capabilities().caller
            if isinstance(answer, RecordedItem):
                shown = verify_item(request, answer, self._log_keys, caller=caller, sent_at=sent_at)
            else:
                shown = verify_answer(answer, self._log_keys, request=request, caller=caller, sent_at=sent_at)
        except Exception as error:
            message = f"the answer's receipt is not one of the trusted log and of what was asked: {error}"
            raise EnforcementError("unavailable", message) from error
        if shown.record is None:
            raise EnforcementError("unavailable", "the answer's receipt is a brief one, and shows a position only")


def moment_of(timestamp: str) -> float:
    """RFC 3339 in seconds of `time.time`."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
