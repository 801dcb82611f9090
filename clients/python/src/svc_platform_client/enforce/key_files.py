"""Key files: one JWK (RFC 7517) with `kid`, which is the key's reference."""

from __future__ import annotations

import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from ._files import create_file
from .errors import EnforcementError
from .keys import KEY_SIZE, LocalKey, require_reference
from .signing_keys import LocalSigningKey, decode_base64url, encode_base64url
from .tdf_keys import LocalTdfKey

File = str | os.PathLike[str]


def create_key_file(path: File, reference: str | None = None) -> None:
    """Makes a key file that is not there yet, readable by its owner alone: a key that wraps, of type `oct`."""
    key = encode_base64url(secrets.token_bytes(KEY_SIZE))
    _create(path, {"kty": "oct", "alg": "A256GCM", "kid": reference or _new_reference(), "k": key})


def create_signing_key_file(
    path: File, reference: str | None = None, algorithm: Literal["EdDSA", "ES256"] = "EdDSA"
) -> None:
    """The same with a key that signs: Ed25519, of type `OKP` (RFC 8037), or ECDSA with P-256, of type `EC`."""
    jwk = OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate(), as_dict=True) if algorithm == "EdDSA" else _new_ec()
    _create(path, jwk | {"alg": algorithm, "kid": reference or _new_reference()})


def create_tdf_key_file(
    path: File, url: str, reference: str | None = None, algorithm: Literal["RSA-OAEP", "ECDH-ES"] = "RSA-OAEP"
) -> None:
    """The same with a TDF key: RSA of 2,048 bits, or ECDH with P-256. The file has the KAS's address as `kas_url`."""
    jwk = (
        RSAAlgorithm.to_jwk(rsa.generate_private_key(65_537, 2048), as_dict=True)
        if algorithm == "RSA-OAEP"
        else _new_ec()
    )
    jwk |= {"alg": algorithm, "kid": reference or _new_reference(), "kas_url": url}
    LocalTdfKey(jwk["kid"], jwk, url=url)
    _create(path, jwk)


def _new_ec() -> dict[str, Any]:
    return ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True)


_PUBLIC = ("kty", "crv", "x", "y", "n", "e", "alg", "kid", "kas_url")


def create_public_key_file(private_key_path: File, path: File, format: Literal["jwk", "pem"] = "jwk") -> None:  # noqa: A002
    """
    Makes a key file with the public half of a signing key, for verifiers, or of a TDF key, for writers; as a JWK, or in
    PEM for other programs. Raises `invalid`, or `exists`.
    """
    jwk = _read(private_key_path)
    key = _key_of(jwk, private_key_path)
    if isinstance(key, LocalKey):
        raise EnforcementError("invalid", f"{private_key_path} has no public half")
    if format == "pem":
        create_file(Path(path), key.public_pem())
    else:
        _create(path, {name: value for name, value in jwk.items() if name in _PUBLIC})


def key_file(path: File) -> LocalKey | LocalSigningKey | LocalTdfKey:
    """The key of a key file. Raises `invalid` where it is none, or others than the owner may read a secret."""
    return _key_of(_read(path), path)


def _key_of(jwk: dict[str, Any], path: File) -> LocalKey | LocalSigningKey | LocalTdfKey:
    kid, url = jwk.get("kid"), jwk.get("kas_url")
    try:
        if isinstance(kid, str) and kid:
            require_reference(kid)
            if jwk.get("kty") == "OKP" or (jwk.get("kty"), jwk.get("alg")) == ("EC", "ES256"):
                return LocalSigningKey(kid, jwk)
            if isinstance(url, str) and jwk.get("alg") in ("RSA-OAEP", "ECDH-ES"):
                return LocalTdfKey(kid, jwk, url=url)
            if jwk.get("kty") == "oct":
                return LocalKey(kid, decode_base64url(jwk.get("k")))
    except ValueError:
        pass
    message = f"{path} is no key file: a JWK with kid, of type oct with 32 bytes of k, one that signs, or one of a KAS"
    raise EnforcementError("invalid", message)


def _read(path: File) -> dict[str, Any]:
    """Reads a JWK; where it is not a public one, from a file that is its owner's alone."""
    try:
        # Opening a FIFO would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ValueError("no regular file")
            jwk = json.loads(file.read(65_536))
        if not isinstance(jwk, dict):
            raise ValueError("no object")
    except (OSError, ValueError, RecursionError) as error:
        raise EnforcementError("invalid", f"{path} is no key file that can be read") from error
    is_public = jwk.get("kty") in ("OKP", "EC", "RSA") and "d" not in jwk
    if not is_public and stat.S_IMODE(mode) & 0o077:
        raise EnforcementError("invalid", f"{path} is readable by others than its owner: make it 0600")
    return jwk


def _create(path: File, jwk: dict[str, Any]) -> None:
    require_reference(jwk["kid"])
    create_file(Path(path), f"{json.dumps(jwk)}\n".encode())


def _new_reference() -> str:
    return f"local-{secrets.token_hex(8)}"
