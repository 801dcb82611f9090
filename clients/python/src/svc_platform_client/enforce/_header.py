"""What headers of all profiles have in common: what they are bound to, and that each has one spelling only."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import rfc8785

from .._text import is_visible
from .errors import EnforcementError


def canonical(value: Any) -> bytes:
    """RFC 8785."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError):
        raise EnforcementError("invalid", "a text cannot be written as JSON") from None


def encode_canonical(value: Any, is_header: Callable[[Any], bool]) -> bytes:
    """Bytes of a header, which can be read again. Raises `invalid` otherwise: what is made must open."""
    data = canonical(value)
    try:
        parse_canonical(data, is_header)
    except EnforcementError as error:
        raise EnforcementError("invalid", "a header of this could not be read again") from error
    return data


def resource_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The members of a resource that the contract has. Raises `invalid` where one is no text, or there is none."""
    if not isinstance(given, Mapping):
        raise EnforcementError("invalid", "a resource is a mapping of its members")
    media_type = given.get("mime_type")
    members = {name: given.get(name) for name in ("kind", "id")}
    members["mime_type"] = given.get("mimeType") if media_type is None else media_type
    present = {name: text for name, text in members.items() if text is not None}
    for name, text in present.items():
        if not isinstance(text, str):
            raise EnforcementError("invalid", f"{name} of the resource is no text")
    return present


def is_reference(value: Any) -> bool:
    """Whether it names a key: no control characters, nor what turns the direction of text."""
    return isinstance(value, str) and is_visible(value)


def parse_canonical(data: bytes, is_header: Callable[[Any], bool]) -> dict[str, Any]:
    """Reads JSON in its canonical form alone: no duplicate member, no other order, no space rides along."""
    value = parse_json(data, "its header")
    try:
        if is_header(value) and canonical(value) == data:
            return dict(value)
    except EnforcementError:
        raise malformed("its header has no canonical form") from None
    raise malformed("its header is not in canonical form")


def parse_json(data: bytes, what: str) -> Any:
    """Parses JSON in UTF-8, without the numbers that only Python has. Raises `not_authentic`: `what` cannot be read."""
    try:
        return json.loads(data.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise malformed(f"{what} cannot be read") from None


def _no_number(name: str) -> None:
    raise ValueError(name)


def decode_base64(text: str) -> bytes:
    """Decodes base64 in its only spelling (RFC 4648 section 4): readers differ in what else they accept."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        data = b""
    if base64.b64encode(data).decode() != text:
        raise malformed("its base64 is not canonical")
    return data


def malformed(what: str) -> EnforcementError:
    return EnforcementError("not_authentic", f"the artifact cannot be read: {what}")


def is_binding(binding: Any, added: set[str], optional: frozenset[str] | set[str] = frozenset()) -> bool:
    """Whether it has the members of every binding and those that the profile adds, and no others."""
    return (
        has_members(binding, {"decision_id", "labels", "policy_revision", "resource"} | added, optional)
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
