"""What headers of all profiles have in common: what they are bound to, and that each has one spelling only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import rfc8785

from .errors import EnforcementError


def canonical(value: Any) -> bytes:
    """RFC 8785."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError):
        raise EnforcementError("invalid", "a text cannot be written as JSON") from None


def parse_canonical(data: bytes, is_header: Callable[[Any], bool]) -> dict[str, Any]:
    """Reads JSON in its canonical form alone: no duplicate member, no other order, no space rides along."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise malformed("its header cannot be read") from None
    if not is_header(value) or canonical(value) != data:
        raise malformed("its header is not in canonical form")
    return dict(value)


def malformed(what: str) -> EnforcementError:
    return EnforcementError("not_authentic", f"the artifact cannot be read: {what}")


def is_binding(binding: Any, added: set[str]) -> bool:
    """Whether it has the members of every binding and those that the profile adds, and no others."""
    return (
        has_members(binding, {"decision_id", "labels", "policy_revision", "resource"} | added)
        and are_texts(binding, {"decision_id", "policy_revision"})
        and isinstance(binding["labels"], list)
        and all(isinstance(label, str) for label in binding["labels"])
        and has_members(binding["resource"], {"kind"}, {"id", "mime_type"})
        and are_texts(binding["resource"], binding["resource"].keys())
    )


def has_members(value: Any, required: set[str], optional: frozenset[str] | set[str] = frozenset()) -> bool:
    return isinstance(value, dict) and required <= value.keys() <= required | optional


def are_texts(value: Any, members: Any) -> bool:
    return all(isinstance(value[name], str) for name in members)
