"""What wraps content keys: keys that this process holds. Those that sign, and key files, are beside it."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Literal, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ._header import is_reference
from .errors import EnforcementError

KEY_SIZE = 32
_NONCE = 12

Transport = Literal["local_provided", "wrapped_key_reference"]


class Key(Protocol):
    """What keys of every kind say of themselves."""

    @property
    def provider(self) -> str:
        """Kind of provider, as the header has it: `local`."""

    @property
    def reference(self) -> str:
        """Name of the key: what decisions are asked about. Never key material."""

    @property
    def transport(self) -> Transport:
        """How the platform must plan the key: one that this process holds, or one that a key service keeps."""


class KeyProvider(Key, Protocol):
    """Wraps and unwraps content keys under one key-encryption key."""

    def wrap(self, content_key: bytes, associated_data: bytes) -> str:
        """Text that gives the content key again, with the same associated data and no other."""

    def unwrap(self, wrapped: str, associated_data: bytes) -> bytes:
        """The content key. Raises `not_authentic`, or `unavailable`."""


class SigningKey(Key, Protocol):
    """Signs under one private key, or verifies only."""

    @property
    def can_sign(self) -> bool:
        """Whether the private half is here."""

    def sign(self, message: bytes) -> bytes:
        """The signature: of Ed25519, or of ECDSA with P-256 in DER. Raises `invalid` if the key verifies only."""

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's over the message. Raises `unavailable` where that cannot be said."""


class TdfKey(Key, Protocol):
    """Wraps shares of a TDF's payload key for the key access service (KAS) that has the private key."""

    @property
    def type(self) -> str:
        """`wrapped`: RSA-OAEP with SHA-1. `ec-wrapped`: ECDH, HKDF-SHA-256 and AES-256-GCM."""

    @property
    def url(self) -> str:
        """Address of the service; readers without the private key ask there."""

    @property
    def kid(self) -> str:
        """Name of the key at the service."""

    @property
    def can_unwrap(self) -> bool:
        """Whether the private half can be used here."""

    def wrap_share(self, share: bytes) -> Mapping[str, str]:
        """`wrappedKey` of the key access object, and for `ec-wrapped` `ephemeralPublicKey`."""

    def unwrap_share(self, access: Mapping[str, str]) -> bytes:
        """The share of a key access object. Raises `not_authentic`, or `unavailable`."""


class LocalKey:
    """A key of 32 bytes in this process: AES-256-GCM with a random nonce, for at most 2^32 content keys."""

    provider = "local"
    transport: Transport = "local_provided"

    def __init__(self, reference: str, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise EnforcementError("invalid", "a local key has 32 bytes")
        self.reference = reference
        self._cipher = AESGCM(key)

    def wrap(self, content_key: bytes, associated_data: bytes) -> str:
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, content_key, associated_data)).decode()

    def unwrap(self, wrapped: str, associated_data: bytes) -> bytes:
        try:
            data = base64.b64decode(wrapped, validate=True)
            if base64.b64encode(data).decode() != wrapped:
                raise ValueError("not canonical")
            content_key = self._cipher.decrypt(data[:_NONCE], data[_NONCE:], associated_data)
        except (InvalidTag, ValueError):
            content_key = b""
        return require_content_key(content_key)


def require_reference(reference: str) -> None:
    """Raises `invalid` where the reference holds what a terminal obeys or does not show."""
    if not is_reference(reference):
        raise EnforcementError("invalid", f"{reference} is no reference of a key")


def require_content_key(content_key: bytes) -> bytes:
    """Raises `not_authentic` where it is none."""
    if len(content_key) != KEY_SIZE:
        raise EnforcementError("not_authentic", "the content key does not open with this key and header")
    return content_key
