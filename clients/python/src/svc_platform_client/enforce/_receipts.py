"""Reads receipts files. Their content is untrusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..receipts._relations import TABLE
from ._files import read_regular
from ._platform import Json
from ._spool import MAX_RECEIPTS_FILE, RECEIPTS_FORMAT
from .errors import EnforcementError

MAX_CHAIN: int = TABLE["artifact"]["max_chain"]
"""So many artifacts, each made of the one before, may be shown to come from the one that was protected first."""
_TEXTS = ("operation", "artifact_profile", "artifact_digest", "artifact_cid", "decision_id")


def read_receipts(path: Path) -> Json:
    """Raises `invalid` if the file is none."""
    try:
        found = json.loads(read_regular(path, MAX_RECEIPTS_FILE))
    except (OSError, ValueError, RecursionError) as error:
        raise EnforcementError("invalid", f"{path} is no receipts file that can be read: {error}") from error
    if not is_receipts(found):
        raise EnforcementError("invalid", f"{path} is no receipts file of this format")
    return dict(found)


def is_receipts(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and found.get("format") == RECEIPTS_FORMAT
        and isinstance(found.get("receipts"), dict)
        and all(isinstance(found.get(name), str) for name in _TEXTS)
    )
