"""Signatures by a key of this process: Ed25519 (RFC 8032), or ECDSA with P-256 and SHA-256."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .errors import EnforcementError
from .keys import Transport


class LocalSigningKey:
    """A key of this process, as a JWK of type `OKP` (RFC 8037) or `EC`: with `d` it signs, without it verifies."""

    provider = "local"
    transport: Transport = "local_provided"

    def __init__(self, reference: str, jwk: Mapping[str, object]) -> None:
        """Raises `invalid` if it is none."""
        self.reference = reference
        try:
            self._public, self._private = _pair(jwk)
        except ValueError as error:
            raise EnforcementError("invalid", "a signing key is a JWK of Ed25519 (OKP) or P-256 (EC)") from error

    @property
    def can_sign(self) -> bool:
        return self._private is not None

    def sign(self, message: bytes) -> bytes:
        if self._private is None:
            raise EnforcementError("invalid", f"key {self.reference} verifies only")
        if isinstance(self._private, Ed25519PrivateKey):
            return self._private.sign(message)
        return self._private.sign(message, _ECDSA)

    def verify(self, message: bytes, signature: bytes) -> bool:
        try:
            if isinstance(self._public, Ed25519PublicKey):
                self._public.verify(signature, message)
            else:
                self._public.verify(signature, message, _ECDSA)
        except InvalidSignature:
            return False
        return True

    def public_pem(self) -> bytes:
        """The public half, for other programs."""
        return self._public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


_ECDSA = ec.ECDSA(SHA256())
_Public = Ed25519PublicKey | ec.EllipticCurvePublicKey
_Private = Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def _pair(jwk: Mapping[str, object]) -> tuple[_Public, _Private | None]:
    d = decode_base64url(jwk["d"]) if "d" in jwk else None
    public: _Public
    private: _Private | None = None
    match jwk.get("kty"), jwk.get("crv"):
        case "OKP", "Ed25519":
            public = Ed25519PublicKey.from_public_bytes(decode_base64url(jwk.get("x")))
            private = None if d is None else Ed25519PrivateKey.from_private_bytes(d)
        case "EC", "P-256":
            point = b"\x04" + decode_base64url(jwk.get("x")) + decode_base64url(jwk.get("y"))
            public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
            private = None if d is None else ec.derive_private_key(int.from_bytes(d, "big"), ec.SECP256R1())
        case _:
            raise ValueError("another type or curve")
    # Otherwise no key would verify its signatures.
    if private is not None and private.public_key() != public:
        raise ValueError("its public half is not of d")
    return public, private


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
