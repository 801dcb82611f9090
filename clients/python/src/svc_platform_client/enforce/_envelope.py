"""The envelope of `docs/enforcement.md`: a line that names the format, a header in canonical JSON, the ciphertext."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import rfc8785

from ._streams import SEGMENT_SIZES, Readable, read_exactly
from .errors import EnforcementError

FORMAT = "svc-platform-envelope/v1"
_MAGIC = f"{FORMAT}\n".encode()
_MAX_HEADER = 131_072


@dataclass(frozen=True)
class Header:
    """What is protected under which decision, and which key wraps the content key."""

    binding: dict[str, Any]
    """aead, decision_id, labels, policy_revision, resource: the same however often the key is rewrapped."""
    key: dict[str, str]
    """decision_id, provider, reference, wrapped."""

    def payload_associated_data(self) -> bytes:
        """What the payload is bound to."""
        return f"{FORMAT}/payload\0".encode() + hashlib.sha256(_canonical(self.binding)).digest()


def key_associated_data(binding: dict[str, Any], key: dict[str, str]) -> bytes:
    """What the wrapped content key is bound to."""
    named = {name: key[name] for name in ("decision_id", "provider", "reference")}
    return f"{FORMAT}/key\0".encode() + hashlib.sha256(_canonical({"binding": binding, "key": named})).digest()


def encode_header(header: Header) -> bytes:
    """The bytes in front of the ciphertext."""
    data = _canonical({"binding": header.binding, "key": header.key})
    if len(data) > _MAX_HEADER:
        raise EnforcementError("invalid", "the header would be too long")
    return _MAGIC + len(data).to_bytes(4, "big") + data


def read_header(source: Readable) -> Header:
    """Reads the header, which is not authenticated yet, up to the ciphertext. Raises `not_authentic`."""
    if read_exactly(source, len(_MAGIC)) != _MAGIC:
        raise _malformed("it is no envelope of this format")
    size = int.from_bytes(read_exactly(source, 4), "big")
    if not 0 < size <= _MAX_HEADER:
        raise _malformed("its header has no length that can be")
    data = read_exactly(source, size)
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise _malformed("its header cannot be read") from None
    # One text for every header: no duplicate member, no other order, no space rides along unauthenticated.
    if not _is_header(value) or _canonical(value) != data:
        raise _malformed("its header is not in canonical form")
    return Header(value["binding"], value["key"])


def _canonical(value: Any) -> bytes:
    """RFC 8785."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError):
        raise EnforcementError("invalid", "a text cannot be written as JSON") from None


def _malformed(what: str) -> EnforcementError:
    return EnforcementError("not_authentic", f"the artifact cannot be read: {what}")


def _is_header(value: Any) -> bool:
    if not _has(value, {"binding", "key"}):
        return False
    binding, key = value["binding"], value["key"]
    return (
        _has(binding, {"aead", "decision_id", "labels", "policy_revision", "resource"})
        and all(isinstance(binding[name], str) for name in ("aead", "decision_id", "policy_revision"))
        and binding["aead"] in SEGMENT_SIZES
        and isinstance(binding["labels"], list)
        and all(isinstance(label, str) for label in binding["labels"])
        and _has(binding["resource"], {"kind"}, {"id", "mime_type"})
        and all(isinstance(text, str) for text in binding["resource"].values())
        and _has(key, {"decision_id", "provider", "reference", "wrapped"})
        and all(isinstance(text, str) for text in key.values())
    )


def _has(value: Any, required: set[str], optional: frozenset[str] | set[str] = frozenset()) -> bool:
    return isinstance(value, dict) and required <= value.keys() <= required | optional
