"""What wraps content keys: keys that this process holds, given or from a file."""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any, Literal, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ._files import create_file
from .errors import EnforcementError

_KEY = 32
_NONCE = 12


class KeyProvider(Protocol):
    """Wraps and unwraps content keys under one key-encryption key."""

    @property
    def provider(self) -> str:
        """Kind of provider, as the header has it: `local`."""

    @property
    def reference(self) -> str:
        """Name of the key: what decisions are asked about. Never key material."""

    @property
    def transport(self) -> Literal["local_provided", "wrapped_key_reference"]:
        """How the platform must plan the key: one that this process holds, or one that a key service keeps."""

    def wrap(self, content_key: bytes, associated_data: bytes) -> str:
        """Text that gives the content key again, with the same associated data and no other."""

    def unwrap(self, wrapped: str, associated_data: bytes) -> bytes:
        """The content key. Raises `not_authentic`, or `unavailable`."""


class LocalKey:
    """A key of 32 bytes in this process: AES-256-GCM with a random nonce, for at most 2^32 content keys."""

    provider = "local"
    transport: Literal["local_provided"] = "local_provided"

    def __init__(self, reference: str, key: bytes) -> None:
        if len(key) != _KEY:
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
        if len(content_key) != _KEY:
            raise EnforcementError("not_authentic", "the content key does not open with this key and header")
        return content_key


def create_key_file(path: str | os.PathLike[str], reference: str | None = None) -> None:
    """Makes a key file that is not there yet, readable by its owner alone: a JWK (RFC 7517) of type `oct`."""
    key = base64.urlsafe_b64encode(secrets.token_bytes(_KEY)).rstrip(b"=").decode()
    jwk = {"kty": "oct", "alg": "A256GCM", "kid": reference or f"local-{secrets.token_hex(8)}", "k": key}
    create_file(Path(path), f"{json.dumps(jwk)}\n".encode())


def key_file(path: str | os.PathLike[str]) -> LocalKey:
    """The key of a key file; its `kid` is the reference. Raises `invalid` where others than the owner may read it."""
    try:
        # Opening a FIFO would wait for whoever writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
                raise EnforcementError("invalid", f"{path} is no file that its owner alone may read: make it 0600")
            jwk: Any = json.loads(file.read(65_536))
        key = base64.urlsafe_b64decode(jwk["k"] + "=")
        if jwk["kty"] != "oct" or not isinstance(jwk["kid"], str) or not jwk["kid"]:
            raise ValueError("another kind of key")
        return LocalKey(jwk["kid"], key)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path} is no key file: a JWK of type oct with kid and 32 bytes of k"
        raise EnforcementError("invalid", message) from error
