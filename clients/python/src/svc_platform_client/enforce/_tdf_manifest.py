"""
The manifest of a TDF (OpenTDF 4.3): keys, policy, and hashes of the payload's segments. The assertion that names our
decision includes a digest of everything else in the manifest, and is authenticated under the payload key.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from typing import Any

from ._header import are_texts, canonical, decode_base64, has_members, is_binding, is_reference, malformed, parse_json
from ._platform import Json
from .errors import EnforcementError
from .keys import TdfKey, require_content_key
from .signing_keys import encode_base64url

SEGMENT_HASHES = ("HS256", "GMAC")
SEGMENT = 2_097_152
"""Bytes of plaintext in a segment that is written."""
SEGMENT_OVERHEAD = 28
"""Bytes that encryption adds to a segment: nonce and tag."""
_MAX_SEGMENT = 16_777_216 + SEGMENT_OVERHEAD
"""The largest segment that is read, which bounds memory."""
_TAG = 16
_ASSERTION = "svc-platform-decision"
_STATEMENT_SCHEMA = "urn:svc-platform:tdf-decision:v1"
_SHAPE: Json = {
    "schemaVersion": r"4\.([3-9]|[0-9]{2,})\.[0-9]+",
    "payload": {"isEncrypted": True, "url": r"0\.payload"},
    "encryptionInformation": {
        "type": "split",
        "method": {"algorithm": "AES-256-GCM"},
        "policy": "[A-Za-z0-9+/=]*",
        "keyAccess": [
            {
                **{"type": str, "url": str, "wrappedKey": str, "policyBinding": {"alg": str, "hash": str}},
                **{"kid?": str, "sid?": str, "ephemeralPublicKey?": str},
            }
        ],
        "integrityInformation": {
            "rootSignature": {"alg": "HS256", "sig": str},
            "segmentHashAlg": "HS256|GMAC",
            "segments": [{"hash": str}],
        },
    },
    "assertions?": [{"id": str, "statement": dict}],
}
"""The members that are read. Texts are regular expressions; a member with a question mark is optional."""


def segment_hash(alg: str, encrypted: bytes, payload_key: bytes) -> str:
    """Hash of an encrypted segment, in base64. GMAC is the tag at its end."""
    return _base64(encrypted[-_TAG:] if alg == "GMAC" else _hmac(payload_key, encrypted))


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def policy_of(binding: Json, namespace: str, planned: Sequence[str]) -> str:
    """Policy of an artifact: its uuid is the decision; base64. `planned`: attribute values that a plan named."""
    values = [("decision", binding["decision_id"]), *(("label", label) for label in binding["labels"])]
    own = [f"https://{namespace}/attr/{name}/value/{value}" for name, value in values]
    attributes = [{"attribute": fqn} for fqn in dict.fromkeys([*own, *planned])]
    body = {"dataAttributes": attributes, "dissem": []}
    return _base64(canonical({"body": body, "uuid": binding["decision_id"]}))


def require_attributes(labels: Sequence[str], namespace: str | None) -> str:
    """Raises `invalid` if a namespace or label is not the name of an attribute: names are compared in lower case."""
    if namespace is None or re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", namespace) is None:
        raise EnforcementError("invalid", "profile tdf needs a namespace of attributes, such as example.com")
    for label in labels:
        if re.fullmatch(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", label) is None:
            raise EnforcementError("invalid", f"label {json.dumps(label)} is no attribute value")
    return namespace


def key_access_of(key: TdfKey, share: bytes, sid: str, policy: str) -> Json:
    """The key access object of a share, bound to the policy."""
    binding = {"alg": "HS256", "hash": _base64(_hmac(share, policy.encode()).hex().encode())}
    named = {"type": key.type, "url": key.url, "kid": key.kid, "protocol": "kas", "sid": sid, "policyBinding": binding}
    return {**key.wrap_share(share), **named}


def share_of(key: TdfKey, access: Json, policy: str) -> bytes:
    """A share of the payload key. Raises `not_authentic` unless it is the one that this policy was bound to."""
    share, binding = require_content_key(key.unwrap_share(access)), access["policyBinding"]
    bound = _hmac(share, policy.encode())
    if binding["alg"] != "HS256" or binding["hash"] not in (_base64(bound), _base64(bound.hex().encode())):
        raise EnforcementError("not_authentic", "the policy is not the one that the file was made with")
    return share


def manifest_of(
    key_access: Sequence[Json], policy: str, alg: str, segments: Sequence[Json], mime_type: str, payload_key: bytes
) -> Json:
    """A new manifest, without the assertion."""
    integrity = {
        "rootSignature": {"alg": "HS256", "sig": _base64(_hmac(payload_key, _hashes(segments)))},
        "segmentHashAlg": alg,
        "segmentSizeDefault": SEGMENT,
        "encryptedSegmentSizeDefault": SEGMENT + SEGMENT_OVERHEAD,
        "segments": segments,
    }
    method = {"algorithm": "AES-256-GCM", "isStreamable": True, "iv": ""}
    encryption = {"type": "split", "keyAccess": key_access, "method": method, "policy": policy}
    payload = {"isEncrypted": True, "mimeType": mime_type, "protocol": "zip", "type": "reference", "url": "0.payload"}
    return {
        "encryptionInformation": encryption | {"integrityInformation": integrity},
        "payload": payload,
        "schemaVersion": "4.3.0",
    }


def encode_manifest(manifest: Json, statement: Json, payload_key: bytes | None) -> bytes:
    """
    Bytes of a manifest of ours: canonical JSON, with an assertion of this statement and no others. Without the payload
    key its signature is the manifest's own.
    """
    others = {name: value for name, value in manifest.items() if name != "assertions"}
    named = {**statement, "manifest": f"sha256:{hashlib.sha256(canonical(others)).hexdigest()}"}
    assertion = {
        "appliesToState": "unencrypted",
        "id": _ASSERTION,
        "scope": "tdo",
        "statement": {"format": "json", "schema": _STATEMENT_SCHEMA, "value": canonical(named).decode()},
        "type": "other",
    }
    digest = hashlib.sha256(canonical(assertion))
    hashes = _hashes(manifest["encryptionInformation"]["integrityInformation"]["segments"])
    claims = {"assertionHash": digest.hexdigest(), "assertionSig": _base64(hashes + digest.digest())}
    signed = ".".join(encode_base64url(canonical(part)) for part in ({"alg": "HS256"}, claims))
    if payload_key is None:
        mac = str(_member(_member(manifest["assertions"][0], "binding"), "signature")).split(".")[-1]
    else:
        mac = encode_base64url(_hmac(payload_key, signed.encode()))
    binding = {"method": "jws", "signature": f"{signed}.{mac}"}
    return canonical({**others, "assertions": [{**assertion, "binding": binding}]})


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _hashes(segments: Sequence[Json]) -> bytes:
    try:
        return b"".join(base64.b64decode(segment["hash"]) for segment in segments)
    except ValueError:
        raise malformed("a hash is no base64") from None


def parse_manifest(data: bytes) -> Json:
    """Parses a manifest of any OpenTDF writer. Raises `not_authentic`. Authenticates nothing yet."""
    value = parse_json(data.removeprefix(codecs.BOM_UTF8), "its manifest")
    if not _fits(value, _SHAPE):
        raise malformed("its manifest is none of OpenTDF 4.3")
    return dict(value)


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, type):
        return isinstance(value, shape)
    if isinstance(shape, str):
        return isinstance(value, str) and re.fullmatch(shape, value) is not None
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _fits(value[name.rstrip("?")], inner) if name.rstrip("?") in value else name.endswith("?")
            for name, inner in shape.items()
        )
    return value is shape


def statement_of(manifest: Json) -> Json | None:
    """The statement of our assertion. None if the file is of another writer. Raises `not_authentic`."""
    assertions = manifest.get("assertions", [])
    if all(assertion["id"] != _ASSERTION for assertion in assertions):
        return None
    if len(assertions) > 1:
        raise malformed("it has more than one assertion")
    text = assertions[0]["statement"].get("value")
    if not isinstance(text, str):
        raise malformed("its assertion is no text")
    value = parse_json(text.encode(errors="surrogatepass"), "its assertion")
    if not _is_statement(value):
        raise malformed("its assertion is another one")
    return {"binding": value["binding"], "keys": value["keys"]}


def _is_statement(value: Any) -> bool:
    return (
        has_members(value, {"binding", "keys", "manifest"})
        and is_binding(value["binding"], set())
        and isinstance(value["keys"], list)
        and len(value["keys"]) > 0
        and all(
            has_members(key, {"decision_id", "reference"})
            and are_texts(key, key.keys())
            and is_reference(key["reference"])
            for key in value["keys"]
        )
    )


def require_segments(manifest: Json, payload_key: bytes) -> None:
    """Raises `not_authentic` unless the key is the payload's, and signs the segments as they are listed."""
    integrity = manifest["encryptionInformation"]["integrityInformation"]
    if _base64(_hmac(payload_key, _hashes(integrity["segments"]))) != integrity["rootSignature"]["sig"]:
        raise EnforcementError("not_authentic", "the list of segments is not of this payload key")


def require_manifest(data: bytes, manifest: Json, statement: Json, payload_key: bytes | None) -> None:
    """
    Raises `not_authentic` unless every byte of the manifest is as `encode_manifest` writes it. Without the payload key
    the assertion's signature is not checked.
    """
    encryption = manifest["encryptionInformation"]
    policy = encryption["policy"]
    binding, (uuid, attributes, _) = statement["binding"], read_policy(policy)
    namespace = re.match("https://([^/]+)/attr/decision/", attributes[0] if attributes else "")
    try:
        is_whole = encode_manifest(manifest, statement, payload_key) == data
    except EnforcementError:
        is_whole = False
    is_named = uuid == binding["decision_id"] and len(encryption["keyAccess"]) == len(statement["keys"])
    # Others may follow, which a plan named.
    planned = attributes[1 + len(binding["labels"]) :]
    if not is_whole or not is_named or namespace is None or policy_of(binding, namespace[1], planned) != policy:
        raise EnforcementError("not_authentic", "the manifest is not the one that its assertion was made for")


def read_policy(policy: str) -> tuple[str, Sequence[str], Sequence[object]]:
    """uuid, attributes, and recipients. Raises `not_authentic`."""
    found = parse_json(decode_base64(policy), "its policy")
    if not _fits(found, {"uuid": str, "body": dict}):
        raise malformed("its policy is none of OpenTDF")
    body = {name: [] if value is None else value for name, value in found["body"].items()}
    if not _fits(body, {"dataAttributes?": [{"attribute": r"[^\ud800-\udfff]*"}], "dissem?": list}):
        raise malformed("its policy is none of OpenTDF")
    attributes = [item["attribute"] for item in body.get("dataAttributes", [])]
    return found["uuid"], attributes, body.get("dissem", [])


def encrypted_size(segment: Json, integrity: Json) -> int:
    """Size of an encrypted segment in bytes. Raises `not_authentic` if it cannot be."""
    size, plain = (segment.get(name) for name in ("encryptedSegmentSize", "segmentSize"))
    if size is None:
        size = integrity.get("encryptedSegmentSizeDefault")
    # bool is an int here, and JSON's true is no size.
    if type(size) is not int or not SEGMENT_OVERHEAD <= size <= _MAX_SEGMENT:
        raise malformed("a segment has no size that can be")
    if plain is not None and (type(plain) is not int or plain != size - SEGMENT_OVERHEAD):
        raise malformed("a segment has two sizes")
    return size
