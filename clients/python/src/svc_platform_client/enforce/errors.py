"""What local enforcement can fail with: a closed list."""

from __future__ import annotations

from typing import Literal

Failure = Literal["not_permitted", "not_authentic", "unavailable", "evidence_overdue", "invalid", "exists"]


class EnforcementError(Exception):
    """
    Raised by every operation; nothing of the output is there under its name then.

    `failure`: `not_permitted` (the platform denied it, or demands what cannot be met), `not_authentic` (bytes are not
    what was protected), `unavailable` (no answer that counts), `evidence_overdue`, `invalid` (input, option or key
    file), `exists` (the output's name is taken). `decision_id`: the decision that denied, where there is one.
    """

    def __init__(self, failure: Failure, message: str, decision_id: str = "") -> None:
        super().__init__(message)
        self.failure: Failure = failure
        self.decision_id = decision_id
