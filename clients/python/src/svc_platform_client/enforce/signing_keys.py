"""What signs and verifies: Ed25519 (RFC 8032), by a key that this process holds."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .errors import EnforcementError
from .keys import Transport


class LocalSigningKey:
    """An Ed25519 key of this process, as a JWK of type `OKP` (RFC 8037): with `d` it signs, without it verifies."""

    provider = "local"
    transport: Transport = "local_provided"

    def __init__(self, reference: str, jwk: Mapping[str, object]) -> None:
        """Raises `invalid` where it is none."""
        self.reference = reference
        try:
            if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
                raise ValueError("another type or curve")
            self._public = Ed25519PublicKey.from_public_bytes(decode_base64url(jwk.get("x")))
            self._private: Ed25519PrivateKey | None = None
            if "d" in jwk:
                self._private = Ed25519PrivateKey.from_private_bytes(decode_base64url(jwk["d"]))
                # Otherwise no key would verify its signatures.
                if self._private.public_key() != self._public:
                    raise ValueError("x is not of d")
        except ValueError as error:
            raise EnforcementError("invalid", "a signing key is a JWK of type OKP, curve Ed25519") from error

    @property
    def can_sign(self) -> bool:
        return self._private is not None

    def sign(self, message: bytes) -> bytes:
        if self._private is None:
            raise EnforcementError("invalid", f"key {self.reference} verifies only")
        return self._private.sign(message)

    def verify(self, message: bytes, signature: bytes) -> bool:
        try:
            self._public.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def decode_base64url(text: object) -> bytes:
    """RFC 7515 section 2: without padding, in its one spelling. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("no text")
    data = base64.b64decode(f"{text}{'=' * (-len(text) % 4)}".encode("ascii"), altchars=b"-_", validate=True)
    if encode_base64url(data) != text:
        raise ValueError("not canonical")
    return data


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
