"""
The detached signature of `docs/enforcement.md`: a DSSE envelope (https://github.com/secure-systems-lab/dsse) around an
in-toto Statement about the data, whose predicate is a header that names the decision; optionally in a Sigstore bundle.
It is canonical JSON inside and outside, and what DSSE leaves unsigned is fixed or repeats the payload. Signatures of
the old form have the header alone as payload.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._data import Digesting, Input, seekable
from ._header import (
    are_texts,
    canonical,
    decode_base64,
    encode_canonical,
    has_members,
    is_binding,
    is_reference,
    malformed,
    parse_canonical,
)
from ._platform import Json
from ._streams import read_exactly
from .errors import EnforcementError
from .keys import SigningKey

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_OLD_PAYLOAD_TYPE = "application/vnd.svc-platform.detached-signature.v1+json"
_PREDICATE_TYPE = "urn:svc-platform:detached-signature:v1"
_BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_MAX_FILE = 262_144
_MAX_SAFE_INTEGER = 2**53 - 1


@dataclass(frozen=True)
class DetachedSignature:
    """What a signature file says; nothing of it is verified yet."""

    binding: dict[str, Any]
    """content_digest, content_size_bytes, decision_id, labels, policy_revision, resource."""
    key: dict[str, str]
    """decision_id, reference."""
    message: bytes
    """The signed bytes."""
    signature: bytes
    is_bundle: bool
    artifact: Json
    """Digest and CID of the file."""


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What DSSE signs (its protocol, "Signature Definition")."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def encode_signature(binding: dict[str, Any], key_decision_id: str, key: SigningKey, is_bundle: bool) -> bytes:
    """Bytes of a signature file. Raises `unavailable` if the key gives no signature that it verifies."""
    header = {"binding": binding, "key": {"decision_id": key_decision_id, "reference": key.reference}}
    payload = encode_canonical(_statement(header), _is_statement)
    message = pre_authentication_encoding(_PAYLOAD_TYPE, payload)
    signature = key.sign(message)
    # The signature of a key service is verified before it is used.
    if key.verify(message, signature) is not True:
        raise EnforcementError("unavailable", f"key {key.reference} gave no signature that it verifies")
    # With an empty keyid, verifiers try the keys that they trust.
    signatures = [{"keyid": "", "sig": base64.b64encode(signature).decode()}]
    encoded = base64.b64encode(payload).decode()
    dsse = {"payload": encoded, "payloadType": _PAYLOAD_TYPE, "signatures": signatures}
    material = {"publicKey": {"hint": key.reference}}
    bundle = {"dsseEnvelope": dsse, "mediaType": _BUNDLE_TYPE, "verificationMaterial": material}
    data = encode_canonical(bundle if is_bundle else dsse, _is_file)
    if len(data) > _MAX_FILE:
        raise EnforcementError("invalid", "the header would be too long")
    return data


def _statement(header: dict[str, Any]) -> dict[str, Any]:
    """An in-toto Statement (github.com/in-toto/attestation, spec/v1)."""
    resource, digest = header["binding"]["resource"], header["binding"]["content_digest"]
    name = resource.get("id") or resource["kind"]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": header,
        "predicateType": _PREDICATE_TYPE,
        "subject": [{"digest": {"sha256": digest.removeprefix("sha256:")}, "name": name}],
    }


def read_signature(path: Input) -> DetachedSignature:
    """Reads a signature file and names it. Raises `invalid`, or `not_authentic`."""
    with seekable(path) as file:
        data = read_exactly(file, _MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise malformed("it is too long for a signature")
    found = parse_canonical(data, _is_file)
    is_bundle = "dsseEnvelope" in found
    dsse = found["dsseEnvelope"] if is_bundle else found
    [signature] = dsse["signatures"]
    payload = decode_base64(dsse["payload"])
    is_old = dsse["payloadType"] == _OLD_PAYLOAD_TYPE
    header = parse_canonical(payload, _is_header) if is_old else parse_canonical(payload, _is_statement)["predicate"]
    reference = header["key"]["reference"]
    hint = found["verificationMaterial"]["publicKey"]["hint"] if is_bundle else reference
    if signature["keyid"] != (reference if is_old else "") or hint != reference:
        raise malformed("it names two keys")
    artifact = Digesting()
    artifact.update(data)
    message, sig = pre_authentication_encoding(dsse["payloadType"], payload), decode_base64(signature["sig"])
    return DetachedSignature(header["binding"], header["key"], message, sig, is_bundle, artifact.names())


def require_signature(signed: DetachedSignature, key: SigningKey) -> None:
    """Raises `not_authentic` unless the key that the header names made it."""
    if key.verify(signed.message, signed.signature) is not True:
        raise EnforcementError("not_authentic", "the signature is not of this key and header")


def require_content(pieces: Iterable[bytes], binding: dict[str, Any]) -> Iterator[bytes]:
    """Passes on what is signed; raises `not_authentic` where it is more, and at its end where it is anything else."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        if size > binding["content_size_bytes"]:
            break
        yield piece
    if size != binding["content_size_bytes"] or f"sha256:{digest.hexdigest()}" != binding["content_digest"]:
        raise EnforcementError("not_authentic", "the data is not what was signed")


def _is_file(value: Any) -> bool:
    if not has_members(value, {"dsseEnvelope", "mediaType", "verificationMaterial"}):
        return _is_dsse(value, {_PAYLOAD_TYPE, _OLD_PAYLOAD_TYPE})
    material = value["verificationMaterial"]
    return (
        value["mediaType"] == _BUNDLE_TYPE
        and _is_dsse(value["dsseEnvelope"], {_PAYLOAD_TYPE})
        and has_members(material, {"publicKey"})
        and has_members(material["publicKey"], {"hint"})
        and are_texts(material["publicKey"], {"hint"})
    )


def _is_dsse(value: Any, types: set[str]) -> bool:
    members = {"payload", "payloadType", "signatures"}
    if not has_members(value, members) or not are_texts(value, {"payload", "payloadType"}):
        return False
    signatures = value["signatures"]
    if value["payloadType"] not in types or not isinstance(signatures, list) or len(signatures) != 1:
        return False
    return has_members(signatures[0], {"keyid", "sig"}) and are_texts(signatures[0], {"keyid", "sig"})


def _is_statement(value: Any) -> bool:
    """Whether all of it follows from its predicate."""
    members = {"_type", "predicate", "predicateType", "subject"}
    if not has_members(value, members) or not _is_header(value["predicate"]):
        return False
    return canonical(_statement(value["predicate"])) == canonical(value)


def _is_header(value: Any) -> bool:
    if not has_members(value, {"binding", "key"}):
        return False
    binding, key = value["binding"], value["key"]
    return (
        is_binding(binding, {"content_digest", "content_size_bytes"})
        and isinstance(binding["content_digest"], str)
        and re.fullmatch(r"sha256:[0-9a-f]{64}", binding["content_digest"]) is not None
        # bool is an int here, and JSON's true is no size.
        and type(binding["content_size_bytes"]) is int
        and 0 <= binding["content_size_bytes"] <= _MAX_SAFE_INTEGER
        and has_members(key, {"decision_id", "reference"})
        and are_texts(key, {"decision_id", "reference"})
        and is_reference(key["reference"])
    )
