"""The envelope of `docs/enforcement.md`: a line that names the format, a header in canonical JSON, the ciphertext."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Any

from ._header import (
    are_texts,
    canonical,
    encode_canonical,
    has_members,
    is_binding,
    is_reference,
    malformed,
    parse_canonical,
)
from ._streams import SEGMENT_SIZES, Readable, read_exactly
from .errors import EnforcementError
from .keys import KEY_SIZE

FORMAT = "svc-platform-envelope/v1"
_MAGIC = f"{FORMAT}\n".encode()
_MAX_HEADER = 131_072


@dataclass(frozen=True)
class Header:
    """What is protected under which decision, and which key wraps the content key."""

    binding: dict[str, Any]
    """
    aead, decision_id, key_commitment, labels, policy_revision, resource: the same however often the key is rewrapped.
    Files of the old form have no key_commitment.
    """
    key: dict[str, str]
    """decision_id, provider, reference, wrapped."""

    @property
    def is_key_committed(self) -> bool:
        """Whether it commits to the content key: AES-GCM alone may open under two."""
        return "key_commitment" in self.binding

    def require_content_key(self, content_key: bytes) -> bytes:
        """Raises `not_authentic` where it is no content key, or another than the header commits to."""
        committed = self.binding.get("key_commitment")
        if len(content_key) != KEY_SIZE or committed not in (None, key_commitment(content_key)):
            message = "the content key is not the one that the header commits to"
            raise EnforcementError("not_authentic", message)
        return content_key

    def payload_associated_data(self) -> bytes:
        """What the payload is bound to."""
        return f"{FORMAT}/payload\0".encode() + hashlib.sha256(canonical(self.binding)).digest()


def key_commitment(content_key: bytes) -> str:
    """What a binding says of its content key."""
    return f"hmac-sha256:{hmac.new(content_key, f'{FORMAT}/commitment'.encode(), 'sha256').hexdigest()}"


def key_associated_data(binding: dict[str, Any], key: dict[str, str]) -> bytes:
    """What the wrapped content key is bound to."""
    named = {name: key[name] for name in ("decision_id", "provider", "reference")}
    return f"{FORMAT}/key\0".encode() + hashlib.sha256(canonical({"binding": binding, "key": named})).digest()


def encode_header(header: Header) -> bytes:
    """The bytes in front of the ciphertext."""
    data = encode_canonical({"binding": header.binding, "key": header.key}, _is_header)
    if len(data) > _MAX_HEADER:
        raise EnforcementError("invalid", "the header would be too long")
    return _MAGIC + len(data).to_bytes(4, "big") + data


def read_header(source: Readable) -> Header:
    """Reads the header, which is not authenticated yet, up to the ciphertext. Raises `not_authentic`."""
    if read_exactly(source, len(_MAGIC)) != _MAGIC:
        raise malformed("it is no envelope of this format")
    size = int.from_bytes(read_exactly(source, 4), "big")
    if not 0 < size <= _MAX_HEADER:
        raise malformed("its header has no length that can be")
    value = parse_canonical(read_exactly(source, size), _is_header)
    return Header(value["binding"], value["key"])


def _is_header(value: Any) -> bool:
    if not has_members(value, {"binding", "key"}):
        return False
    binding, key = value["binding"], value["key"]
    return (
        is_binding(binding, {"aead"}, {"key_commitment"})
        and isinstance(binding["aead"], str)
        and binding["aead"] in SEGMENT_SIZES
        and ("key_commitment" not in binding or _is_commitment(binding["key_commitment"]))
        and has_members(key, {"decision_id", "provider", "reference", "wrapped"})
        and are_texts(key, key.keys())
        and is_reference(key["reference"])
    )


def _is_commitment(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"hmac-sha256:[0-9a-f]{64}", value) is not None
