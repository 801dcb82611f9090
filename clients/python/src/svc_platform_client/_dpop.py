"""DPoP proofs (RFC 9449)."""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm


class Prover:
    """Makes proofs with one key, and keeps the newest nonce of each server (section 8)."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        if not isinstance(self._key.curve, ec.SECP256R1):
            raise ValueError("a DPoP key is on P-256")
        self._public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self._nonces: dict[str, str] = {}

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        claims = {"jti": str(uuid.uuid4()), "htm": method, "htu": url, "iat": int(time.time())}
        if token is not None:
            digest = hashlib.sha256(token.encode("ascii")).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
        nonce = self.nonce(url)
        if nonce is not None:
            claims["nonce"] = nonce
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"typ": "dpop+jwt", "jwk": self._public})

    def nonce(self, url: str) -> str | None:
        return self._nonces.get(origin(url))

    def learn(self, url: str, nonce: str | None) -> bool:
        """Keeps the nonce of a server's answer; whether it has one."""
        if nonce:
            self._nonces[origin(url)] = nonce
        return bool(nonce)


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
