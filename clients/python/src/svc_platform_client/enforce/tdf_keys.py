"""Keys of a key access service (KAS), which wrap shares of a TDF's payload key by their public half alone."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from ._header import decode_base64
from .errors import EnforcementError
from .keys import KEY_SIZE, Transport

_CURVES = ("P-256", "P-384", "P-521")
_MIN_MODULUS_BITS = 2048
_NONCE = 12
_OAEP = padding.OAEP(padding.MGF1(SHA1()), SHA1(), None)


class LocalTdfKey:
    """A key of this process, as a JWK of type `RSA` or `EC`: without its private half it protects only."""

    provider = "local"
    transport: Transport = "local_provided"

    def __init__(self, reference: str, jwk: Mapping[str, object], *, url: str, kid: str | None = None) -> None:
        """
        `url`: address of the service that has the private key.
        `kid`: name of the key at the service; default: the reference.

        Raises `invalid`.
        """
        if re.fullmatch(r"https?://[^\s/?#]\S*", url) is None:
            raise EnforcementError("invalid", "a TDF key has the https address of its key access service")
        self.reference, self.url, self.kid = reference, url, reference if kid is None else kid
        try:
            key = (RSAAlgorithm if jwk.get("kty") == "RSA" else ECAlgorithm).from_jwk(dict(jwk))
            self._private = key if isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)) else None
            self._public = key if isinstance(key, (rsa.RSAPublicKey, ec.EllipticCurvePublicKey)) else key.public_key()
            is_rsa = isinstance(self._public, rsa.RSAPublicKey)
            if self._public.key_size < _MIN_MODULUS_BITS if is_rsa else jwk["crv"] not in _CURVES:
                raise ValueError("too short, or of another curve")
        except (PyJWTError, ValueError, TypeError) as error:
            message = "a TDF key is a JWK of RSA, from 2,048 bits, or of P-256, P-384 or P-521"
            raise EnforcementError("invalid", message) from error
        self.type = "wrapped" if is_rsa else "ec-wrapped"

    @property
    def can_unwrap(self) -> bool:
        return self._private is not None

    def wrap_share(self, share: bytes) -> dict[str, str]:
        if isinstance(self._public, rsa.RSAPublicKey):
            return {"wrappedKey": base64.b64encode(self._public.encrypt(share, _OAEP)).decode()}
        ephemeral, nonce = ec.generate_private_key(self._public.curve), os.urandom(_NONCE)
        wrapped = nonce + _agreed(ephemeral, self._public).encrypt(nonce, share, None)
        pem = ephemeral.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return {"wrappedKey": base64.b64encode(wrapped).decode(), "ephemeralPublicKey": pem.decode()}

    def unwrap_share(self, access: Mapping[str, str]) -> bytes:
        try:
            wrapped = decode_base64(access["wrappedKey"])
            if isinstance(self._private, rsa.RSAPrivateKey):
                return self._private.decrypt(wrapped, _OAEP)
            ephemeral = load_pem_public_key(access.get("ephemeralPublicKey", "").encode())
            if self._private is None or not isinstance(ephemeral, ec.EllipticCurvePublicKey):
                raise ValueError("another type of key")
            return _agreed(self._private, ephemeral).decrypt(wrapped[:_NONCE], wrapped[_NONCE:], None)
        except (InvalidTag, UnsupportedAlgorithm, ValueError) as error:
            message = "a share of the payload key does not open with this key"
            raise EnforcementError("not_authentic", message) from error

    def public_pem(self) -> bytes:
        """The public half, for other programs."""
        return self._public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _agreed(private: ec.EllipticCurvePrivateKey, public: ec.EllipticCurvePublicKey) -> AESGCM:
    salt = hashlib.sha256(b"TDF").digest()
    return AESGCM(HKDF(SHA256(), KEY_SIZE, salt, b"").derive(private.exchange(ec.ECDH(), public)))
