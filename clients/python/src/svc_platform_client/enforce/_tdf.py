"""
Profile `tdf`: files of OpenTDF 4.3, which other readers open with the private key or through its key access service.
The policy's uuid and an assertion name the decision. `docs/enforcement.md` has what others need to know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .. import v1
from ._artifacts import (
    Content,
    Outcome,
    Work,
    access,
    finished,
    labels_of,
    previous_of,
    produce,
    protect_content,
    protecting,
    require_resource,
)
from ._data import Digesting, digest_of, opened, progress, read_at, seekable
from ._operation import Asked, Context, Permitted, Request
from ._platform import Json
from ._streams import segments_of, within
from ._tdf_manifest import (
    SEGMENT,
    SEGMENT_HASHES,
    SEGMENT_OVERHEAD,
    encode_manifest,
    encrypted_size,
    key_access_of,
    manifest_of,
    parse_manifest,
    policy_of,
    read_policy,
    require_attributes,
    require_manifest,
    require_segments,
    segment_hash,
    share_of,
    statement_of,
)
from ._tdf_zip import (
    Container,
    Stored,
    after_payload,
    before_payload,
    needs_zip64,
    read_container,
    require_framing,
)
from .errors import EnforcementError
from .keys import KEY_SIZE, TdfKey

PROFILE = "tdf"
Shares = Sequence[Sequence[TdfKey]]
"""The keys of each share of the payload key."""
References = Sequence[Sequence[str]]
_NONCE = 12


def protect_tdf(
    context: Context,
    request: Request,
    key_reference: str | None,
    references: References | None,
    alg: str,
    with_content_digest: bool,
) -> Work:
    """Turns plaintext into a TDF."""
    namespace = require_attributes(request.labels, context.attribute_namespace)
    if alg not in SEGMENT_HASHES:
        raise EnforcementError("invalid", f"there is no {alg}")
    shares = _shares_of(context, references, key_reference)
    keys, named = [key for share in shares for key in share], Digesting()

    def make(content: Content) -> Iterator[bytes]:
        payload_key, payload, segments = os.urandom(KEY_SIZE), Stored(), list[Json]()
        most = None if content.size is None else content.size + SEGMENT_OVERHEAD * (1 - -content.size // SEGMENT)
        is_zip64, cipher = needs_zip64(most), AESGCM(payload_key)
        yield before_payload(is_zip64)
        for number, plaintext, _ in segments_of(content.source, SEGMENT, SEGMENT):
            # The key is the file's alone, so the number is a nonce.
            nonce = number.to_bytes(_NONCE, "big")
            encrypted = nonce + cipher.encrypt(nonce, plaintext, None)
            sizes = {"segmentSize": len(plaintext), "encryptedSegmentSize": len(encrypted)}
            segments.append({"hash": segment_hash(alg, encrypted, payload_key), **sizes})
            payload.update(encrypted)
            yield encrypted
        if not is_zip64 and needs_zip64(payload.size):
            raise EnforcementError("invalid", "the input grew")
        policy = policy_of(content.binding, namespace, content.permitted.attribute_fqns)
        mime_type = content.binding["resource"].get("mime_type")
        key_access = _wrapped(payload_key, shares, policy)
        manifest = manifest_of(key_access, policy, alg, segments, mime_type or "application/octet-stream", payload_key)
        statement = {"binding": content.binding, "keys": _key_names(keys, content.permitted.keys)}
        data = encode_manifest(manifest, statement, payload_key)
        named.update(data)
        yield after_payload(payload, data, is_zip64)

    asked = protecting(request, PROFILE, keys)
    return (yield from protect_content(context, request, asked, with_content_digest, make, named))


def _shares_of(context: Context, references: References | None, reference: str | None) -> Shares:
    if references is None:
        return [[context.tdf_key(reference)]]
    if not references or not all(references):
        raise EnforcementError("invalid", "a share of the payload key has no key")
    return [[context.tdf_key(name) for name in names] for names in references]


def _key_names(keys: Sequence[TdfKey], decisions: Sequence[v1.KeyAccessDecision]) -> list[Json]:
    return [
        {"decision_id": decision.decision_id, "reference": key.reference}
        for key, decision in zip(keys, decisions, strict=True)
    ]


def _wrapped(payload_key: bytes, shares: Shares, policy: str) -> list[Json]:
    """Splits the payload key, and wraps each share with each of its keys."""
    parts = [os.urandom(KEY_SIZE) for _ in shares[1:]]
    last = payload_key
    for part in parts:
        last = _sum(last, part)
    return [
        key_access_of(key, part, f"share-{number}", policy)
        for number, (part, keys) in enumerate(zip([*parts, last], shares, strict=True), 1)
        for key in keys
    ]


def _sum(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Tdf:
    """A file's parts, of which nothing is verified."""

    container: Container
    manifest: Json
    statement: Json | None
    """None if the file is of another writer."""
    names: Json

    @property
    def plaintext_size(self) -> int:
        """In bytes, as the manifest says."""
        segments = self.manifest["encryptionInformation"]["integrityInformation"]["segments"]
        return self.container.payload_size - SEGMENT_OVERHEAD * len(segments)


def read_tdf(file: BinaryIO) -> Tdf:
    """Reads everything but the payload. Raises `not_authentic`."""
    container = read_container(file)
    manifest = parse_manifest(container.manifest)
    return Tdf(container, manifest, statement_of(manifest), digest_of(BytesIO(container.manifest)).names())


def require_statement(found: Tdf) -> Json:
    """Raises `not_authentic` if the file has none."""
    if found.statement is None:
        message = "the file names no decision: it was not protected here, or was changed"
        raise EnforcementError("not_authentic", message)
    return found.statement


def open_tdf(context: Context, request: Request, allow_foreign: bool) -> Outcome:
    """Turns a TDF into plaintext again. One without our statement is opened only if `allow_foreign` says so."""
    with opened(request.source, context.directory) as file:
        found = read_tdf(file)

        def pieces(payload_key: bytes) -> Iterator[bytes]:
            for encrypted in _payload_of(file, found, payload_key, Stored(), request):
                yield _decrypted(encrypted, payload_key)

        return _release(context, request, found, allow_foreign, pieces)


def open_tdf_range(context: Context, request: Request, names: Json | None, offset: int, length: int) -> Outcome:
    """Opens the segments of a range. Their sizes, of which positions are sums, are proven by the assertion only."""
    with seekable(request.source) as file:
        found, count = read_tdf(file), progress(request.on_progress, None)
        if names not in (None, found.names):
            raise EnforcementError("not_authentic", "the artifact is another one")

        def pieces(payload_key: bytes) -> Iterator[bytes]:
            for segment, position, start in _segments_within(found, offset, length):
                encrypted = _read_segment(file, found, payload_key, segment, position)
                count(encrypted)
                yield within(_decrypted(encrypted, payload_key), offset - start, length)

        return _release(context, request, found, False, pieces)


def _segments_within(found: Tdf, offset: int, length: int) -> list[tuple[Json, int, int]]:
    """Segments that a range touches, and where they are: at least one, and the last if the range ends behind it."""
    integrity = found.manifest["encryptionInformation"]["integrityInformation"]
    touched: list[tuple[Json, int, int]] = []
    position = start = 0
    for number, segment in enumerate(integrity["segments"], 1):
        size = encrypted_size(segment, integrity)
        end = start + size - SEGMENT_OVERHEAD
        if (offset < end or number == len(integrity["segments"])) and offset + max(length, 1) > start:
            touched.append((segment, position, start))
        position, start = position + size, end
    if position != found.container.payload_size or not touched:
        raise _changed()
    return touched


def _release(
    context: Context,
    request: Request,
    found: Tdf,
    allow_foreign: bool,
    pieces: Callable[[bytes], Iterator[bytes]],
) -> Outcome:
    """Asks for permission, and gives out the pieces that the payload key opens."""
    is_foreign = found.statement is None and allow_foreign
    binding = _foreign_binding(context, request, found) if is_foreign else require_statement(found)["binding"]
    require_resource(binding, request)
    holdings = _holdings_of(context, found)
    keys = [("unwrap", key) for key, _ in holdings]
    asked = Asked("access", PROFILE, binding["resource"], labels_of(binding, request), keys, found.names)
    outcome = access(context, request, asked, lambda: pieces(_unwrapped(found, holdings)))
    return replace(outcome, is_foreign=is_foreign)


def _decrypted(encrypted: bytes, payload_key: bytes) -> bytes:
    try:
        return AESGCM(payload_key).decrypt(encrypted[:_NONCE], encrypted[_NONCE:], None)
    except InvalidTag:
        raise _changed() from None


def _foreign_binding(context: Context, request: Request, found: Tdf) -> Json:
    """
    What a file of another writer is asked about: the caller's resource, and its policy's attributes as labels. Names of
    attributes are compared in lower case.
    """
    if request.resource is None:
        raise EnforcementError("invalid", "a foreign file does not say what resource it is")
    uuid, attributes, recipients = read_policy(found.manifest["encryptionInformation"]["policy"])
    if recipients:
        raise EnforcementError("not_permitted", "the file is for recipients, which no decision considers")
    names = [attribute.lower() for attribute in attributes]
    # The policy is bound to the key, and anyone can leave out the assertion, which has the resource.
    if any(name.endswith(f"/attr/decision/value/{uuid}".lower()) for name in names):
        raise EnforcementError("not_authentic", "the file was protected here, and lacks its assertion")
    namespace = context.attribute_namespace
    prefix = "" if namespace is None else f"https://{namespace}/attr/label/value/"
    return {"labels": [name.removeprefix(prefix) for name in names], "resource": request.resource}


def _holdings_of(context: Context, found: Tdf) -> list[tuple[TdfKey, Json]]:
    """For each share a key of this process. Raises `invalid` if one has none."""
    names = [] if found.statement is None else [key["reference"] for key in found.statement["keys"]]
    shares: dict[str, tuple[TdfKey, Json] | None] = {}
    for index, item in enumerate(found.manifest["encryptionInformation"]["keyAccess"]):
        held = (
            (key, item)
            for key in context.tdf_keys()
            if key.can_unwrap
            and key.type == item["type"]
            and key.kid == item.get("kid", key.kid)
            and names[index : index + 1] in ([], [key.reference])
        )
        sid = item.get("sid", "")
        shares[sid] = shares.get(sid) or next(held, None)
    holdings = [holding for holding in shares.values() if holding is not None]
    if not holdings or len(holdings) < len(shares):
        raise EnforcementError("invalid", "there is no TDF key here for every share of the payload key")
    return holdings


def _unwrapped(found: Tdf, holdings: Sequence[tuple[TdfKey, Json]]) -> bytes:
    """The payload key, after everything that is bound to it was verified."""
    payload_key = bytes(KEY_SIZE)
    for key, item in holdings:
        payload_key = _sum(payload_key, share_of(key, item, found.manifest["encryptionInformation"]["policy"]))
    require_segments(found.manifest, payload_key)
    if found.statement is not None:
        require_manifest(found.container.manifest, found.manifest, found.statement, payload_key)
    return payload_key


def _payload_of(file: BinaryIO, found: Tdf, payload_key: bytes, payload: Stored, request: Request) -> Iterator[bytes]:
    """
    The segments, if their hashes are those of the manifest; `payload` sums them up. Raises `not_authentic`, at the end
    for framing.
    """
    container, integrity = found.container, found.manifest["encryptionInformation"]["integrityInformation"]
    count = progress(request.on_progress, container.payload_size)
    for segment in integrity["segments"]:
        encrypted = _read_segment(file, found, payload_key, segment, payload.size)
        payload.update(encrypted)
        count(encrypted)
        yield encrypted
    if payload.size != container.payload_size:
        raise _changed()
    if found.statement is not None:
        require_framing(file, container, payload)


def _read_segment(file: BinaryIO, found: Tdf, payload_key: bytes, segment: Json, position: int) -> bytes:
    """Raises `not_authentic` unless the segment at this position of the payload has the manifest's hash."""
    integrity = found.manifest["encryptionInformation"]["integrityInformation"]
    size = encrypted_size(segment, integrity)
    if position + size > found.container.payload_size:
        raise _changed()
    encrypted = read_at(file, found.container.payload_at + position, size)
    if segment_hash(integrity["segmentHashAlg"], encrypted, payload_key) != segment["hash"]:
        raise _changed()
    return encrypted


def _changed() -> EnforcementError:
    return EnforcementError("not_authentic", "the artifact is not as it was protected")


def rewrap_tdf(context: Context, request: Request, new_reference: str, references: References | None) -> Outcome:
    """Wraps the payload key with another key, or in other shares. Policy and payload stay."""
    with opened(request.source, context.directory) as file:
        found = read_tdf(file)
        binding = require_statement(found)["binding"]
        require_resource(binding, request)
        holdings, shares = _holdings_of(context, found), _shares_of(context, references, new_reference)
        new = [key for share in shares for key in share]
        keys = [*(("rewrap", key) for key, _ in holdings), *(("wrap", key) for key in new)]
        previous, labels = previous_of(request.source, found.names), labels_of(binding, request)
        asked = Asked("rewrap", PROFILE, binding["resource"], labels, keys, found.names, previous)
        named = Digesting()

        def make(permitted: Permitted) -> Iterator[bytes]:
            encryption = found.manifest["encryptionInformation"]
            for fqn in permitted.attribute_fqns:
                if fqn not in read_policy(encryption["policy"])[1]:
                    why = f"the plan demands {fqn}, which the file's policy lacks"
                    raise EnforcementError("not_permitted", why, permitted.plan.decision_id)
            payload_key, payload = _unwrapped(found, holdings), Stored()
            is_zip64 = needs_zip64(found.container.payload_size)
            yield before_payload(is_zip64)
            yield from _payload_of(file, found, payload_key, payload, request)
            key_access = _wrapped(payload_key, shares, encryption["policy"])
            manifest = {**found.manifest, "encryptionInformation": {**encryption, "keyAccess": key_access}}
            statement = {"binding": binding, "keys": _key_names(new, permitted.keys[len(holdings) :])}
            data = encode_manifest(manifest, statement, payload_key)
            named.update(data)
            yield after_payload(payload, data, is_zip64)

        return finished(produce(context, request, asked, make, named))
