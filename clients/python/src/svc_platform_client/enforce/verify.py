"""
What the receipts beside a file prove, offline: against the keys of the log that the verifier trusts, and for what the
verifier says that the file is. The receipts file and the artifact are untrusted input.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, cast

from google.protobuf.json_format import ParseDict, ParseError

from .. import v1
from ..errors import ReceiptRefused
from ..receipts import parse_log_key, verify_receipt
from ..receipts._relations import ABSENT, TABLE, Value, at, is_within, path_of, same
from ._artifacts import receipts_path_of
from ._data import Input, digest_of, is_stream, opened, pieces_of, seekable
from ._envelope import read_header
from ._platform import Json
from ._receipts import MAX_CHAIN, is_receipts, read_receipts
from ._signature import DetachedSignature, read_signature, require_content, require_signature
from ._tdf import read_tdf, require_statement
from ._tdf_manifest import require_manifest
from .errors import EnforcementError
from .keys import SigningKey

File = str | os.PathLike[str]
Kind = Literal["artifact", "opened"]
"""A file that was protected, sealed or signed; or one that was opened."""

_RULES: Json = TABLE["artifact"]
_OPERATIONS: Mapping[str, Sequence[str]] = {"artifact": ("protect", "rewrap"), "opened": ("access",)}
_PROFILES = ("envelope", "detached_signature", "tdf")


@dataclass(frozen=True)
class VerifiedRecord:
    name: str
    """What it is of: plan, key_access, new_key_access, registration, evidence."""
    kind: str
    recorded_at: str
    """RFC 3339, in UTC."""


@dataclass(frozen=True)
class VerifiedOrigin:
    """What was protected first, of which an artifact is a rewrap."""

    decision_id: str
    artifact_digest: str
    recorded_at: str
    """When it was registered; RFC 3339, in UTC."""


@dataclass(frozen=True)
class VerifiedArtifact:
    """All of it stands in records of the log."""

    operation: str
    """protect, access, rewrap."""
    profile: str
    artifact_digest: str
    """SHA-256 of the artifact; of an opened file, of the artifact that it was opened from."""
    artifact_cid: str
    decision_id: str
    tenant_id: str
    principal_id: str
    """Who asked, and was allowed."""
    resource: Mapping[str, str]
    labels: Sequence[str]
    """Those that were decided on."""
    key_reference: str
    """Of the key that the operation was allowed to use; of a rewrap, of the new one."""
    records: Sequence[VerifiedRecord]
    """What was shown, in the order of the log."""
    is_evidence_pending: bool
    """Whether the event is not among them: it was still on its way."""
    is_content_proven: bool | None
    """
    Of an opened file: whether its bytes are those that were decided on. No record names the plaintext of an envelope,
    unless its digest was asked about. None of an artifact.
    """
    origin: VerifiedOrigin | None
    """
    What was protected first. None if a rewrap does not carry the receipts that show it: then what the header says of
    the first decision, and of the policy that decided, is proven by nothing.
    """
    is_key_committed: bool | None = None
    """Whether the header of an envelope commits to its content key; only the old form does not. None of other files."""


def verify_artifact(
    artifact: Input,
    *,
    log_keys: str | Sequence[str],
    kind: Kind = "artifact",
    receipts: File | Json | None = None,
    data: File | None = None,
    keys: Sequence[SigningKey] | None = None,
) -> VerifiedArtifact:
    """
    Checks that the log holds the decisions, the registration and the event of this very artifact, that they belong to
    each other, and that its header is bound to them. Decrypts nothing.

    `log_keys`: C2SP verifier keys of the tenant's log, from the operator; one of them must hold.
    `kind`: what the file is: one that was protected, or with `opened` one that was opened.
    `artifact`: its path, or a binary file that can be read at any position.
    `receipts`: the receipts file, or what an operation returned; by default the file beside the artifact's path.
    `data`, `keys`: of a detached signature: what must be what was signed, and keys of which the one that it names must
    have made it. Neither is looked at by default.

    Raises EnforcementError: `not_authentic` if something does not hold, `invalid` if a file or an option is none.
    """
    if kind not in _OPERATIONS:
        raise EnforcementError("invalid", f"there is no kind {kind} here: {', '.join(_OPERATIONS)}")
    keys_of_log = [log_keys] if isinstance(log_keys, str) else list(log_keys)
    try:
        for text in keys_of_log:
            parse_log_key(text)
    except ValueError as error:
        raise EnforcementError("invalid", str(error)) from error
    found = _receipts_for(artifact, receipts)
    _require(found["operation"] in _OPERATIONS[kind], f"the receipts are of {found['operation']}, not of such a file")
    _require(found["artifact_profile"] in _PROFILES, f"there is no profile {found['artifact_profile']} here")
    is_signature = found["artifact_profile"] == "detached_signature" and kind == "artifact"
    if (data is not None or keys is not None) and not is_signature:
        raise EnforcementError("invalid", "data and keys are those of a detached signature")
    links = _links_of(found, keys_of_log)
    if kind == "opened":
        return _verify_opened(artifact, links)
    if is_signature:
        return _verify_links(links, _signature_parts(artifact, data, keys))
    if found["artifact_profile"] == "tdf":
        return _verify_links(links, _tdf_parts(artifact))
    measured = _envelope_parts(artifact)
    return replace(_verify_links(links, measured), is_key_committed="key_commitment" in measured["binding"])


def _receipts_for(artifact: Input, receipts: File | Json | None) -> Json:
    if receipts is None and not is_stream(artifact):
        return read_receipts(receipts_path_of(cast(File, artifact)))
    if isinstance(receipts, (str, os.PathLike)):
        return read_receipts(Path(receipts))
    if not is_receipts(receipts):
        raise EnforcementError("invalid", "there are no receipts of this format")
    return dict(cast(Json, receipts))


@dataclass(frozen=True)
class _Link:
    """One receipts file, and the records that its receipts show."""

    file: Json
    records: Mapping[str, Json]


def _links_of(found: Json, log_keys: Sequence[str]) -> Sequence[_Link]:
    """The file, and those that it carries of what it was made of, the newest first."""
    links: list[_Link] = []
    link: Any = found
    while link is not None:
        _require(len(links) <= MAX_CHAIN, "too many artifacts are said to be made of each other")
        _require(is_receipts(link), "receipts of the artifact before are none")
        # What is before a rewrap is an artifact, and before any other operation there is nothing.
        is_made = len(links) == 0 or link["operation"] in _OPERATIONS["artifact"]
        _require(is_made, "an artifact is said to be made of none")
        links.append(_Link(link, _records_of(link, log_keys)))
        _require("previous" not in link or link["operation"] == "rewrap", "what is no rewrap was made of nothing")
        link = link.get("previous")
    return links


def _records_of(found: Json, log_keys: Sequence[str]) -> Mapping[str, Json]:
    parts: Json = _RULES["parts"][found["operation"]]
    for name in parts["needs"]:
        _require(name in found["receipts"], f"there is no receipt of the {name}")
    allowed = {*parts["needs"], *parts["may"]}
    _require(found["receipts"].keys() <= allowed, "there is a receipt that such an artifact does not have")
    return {
        name: _proven_record(name, found["receipts"][name], log_keys)
        for name in _RULES["order"]
        if name in found["receipts"]
    }


def _proven_record(name: str, receipt: Any, log_keys: Sequence[str]) -> Json:
    try:
        shown = verify_receipt(ParseDict(receipt, v1.Receipt()), log_keys)
    except (ReceiptRefused, ParseError, ValueError, TypeError, AttributeError) as error:
        raise EnforcementError("not_authentic", f"the receipt of the {name} does not verify: {error}") from error
    if shown.record is None:
        raise EnforcementError("not_authentic", f"the receipt of the {name} is a brief one, and shows a position only")
    return {**shown.record, "leaf_index": shown.leaf_index}


def _envelope_parts(path: Input) -> Json:
    """What the bytes of an envelope say, and are."""
    with seekable(path) as file:
        names = digest_of(file).names()
        file.seek(0)
        header = read_header(file)
    return _parts(header.binding, header.key, names)


def _tdf_parts(path: Input) -> Json:
    """What the manifest of a TDF says of its decision and its first key, and its digest."""
    with seekable(path) as file:
        found = read_tdf(file)
    statement = require_statement(found)
    require_manifest(found.container.manifest, found.manifest, statement, None)
    return _parts(statement["binding"], statement["keys"][0], found.names)


def _signature_parts(path: Input, data: File | None, keys: Sequence[SigningKey] | None) -> Json:
    signed = read_signature(path)
    if keys is not None:
        _require_signer(signed, keys)
    parts = _parts(signed.binding, signed.key, signed.artifact)
    if data is None:
        return parts
    with opened(data) as file:
        for _ in require_content(pieces_of(file), signed.binding):
            pass
    return parts | {"content": {"digest": signed.binding["content_digest"]}}


def _require_signer(signed: DetachedSignature, keys: Sequence[SigningKey]) -> None:
    reference = signed.key["reference"]
    signer = next((key for key in keys if key.reference == reference), None)
    if signer is None:
        raise EnforcementError("invalid", f"there is no key {reference} here")
    require_signature(signed, signer)


def _parts(binding: Mapping[str, Any], key: Mapping[str, str], names: Mapping[str, str]) -> Json:
    # An optional member that was sent empty is recorded as absent.
    resource = {name: text for name, text in binding["resource"].items() if text != ""}
    artifact = {"digest": names["artifact_digest"], "cid": names["artifact_cid"]}
    return {"binding": {**binding, "resource": resource}, "key": dict(key), "artifact": artifact}


def _verify_opened(path: Input, links: Sequence[_Link]) -> VerifiedArtifact:
    [link] = links
    asked = link.records["plan"]["request"].get("content_digest")
    is_named = asked is not None or link.file["artifact_profile"] == "detached_signature"
    measured: Json = {}
    with seekable(path) as file:
        if is_named:
            measured["content"] = {"digest": digest_of(file).digest()}
            _require(measured["content"]["digest"] == asked, "the file is not what was asked to be opened")
    _require_related(link, measured)
    return _shown(link, is_named, None)


def _verify_links(links: Sequence[_Link], measured: Json) -> VerifiedArtifact:
    for number, link in enumerate(links):
        parts = dict(measured) if number == 0 else {"binding": measured["binding"]}
        if number > 0 and "content" in measured:
            parts["content"] = measured["content"]
        if number + 1 < len(links):
            parts["previous"] = links[number + 1].records["registration"]
        _require_related(link, parts)
    last = links[-1]
    origin = None
    if last.file["operation"] == "protect":
        registration = last.records["registration"]
        origin = VerifiedOrigin(
            last.records["plan"]["record_id"],
            registration["request"]["artifact_digest"],
            registration["recorded_at"],
        )
    return _shown(links[0], None, origin)


def _require_related(link: _Link, measured: Json) -> None:
    """Every relation of the table that is of this operation and profile."""
    parts: Json = {**link.records, **measured, "file": link.file}
    operation, profile = link.file["operation"], link.file["artifact_profile"]
    for relation in _RULES["relations"]:
        if operation in relation.get("operations", [operation]) and profile in relation.get("profiles", [profile]):
            _require_relation(relation, parts)
    indices = [parts[name]["leaf_index"] for name in _RULES["order"] if name in parts]
    _require(all(one < other for one, other in pairwise(indices)), "the records are out of order")


def _require_relation(relation: Json, parts: Json) -> None:
    named: list[str] = relation["within"] if "within" in relation else relation["same"]
    paths = [path for path in named if path_of(path)[0] in parts]
    values: list[Value] = [at(parts, path_of(path)) for path in paths]
    if "within" in relation:
        if len(values) == 2:
            _require(is_within(*values), f"{paths[0]} has what {paths[1]} has not")
        return
    expected = relation.get("is", values[0] if values else ABSENT)
    for path, value in zip(paths, values, strict=True):
        _require(same(value, expected), f"{path} is not {relation['is'] if 'is' in relation else paths[0]}")


def _shown(link: _Link, is_content_proven: bool | None, origin: VerifiedOrigin | None) -> VerifiedArtifact:
    plan = link.records["plan"]
    named = plan if link.file["operation"] == "access" else link.records["registration"]
    key = link.records.get("new_key_access", link.records["key_access"])["request"].get("key_reference")
    _require(isinstance(key, str), "the decision about the key names none")
    return VerifiedArtifact(
        operation=plan["request"]["operation"],
        profile=plan["request"]["preferred_artifact_profile"],
        artifact_digest=named["request"]["artifact_digest"],
        artifact_cid=named["request"]["artifact_cid"],
        decision_id=plan["record_id"],
        tenant_id=plan["tenant_id"],
        principal_id=plan["caller"]["principal_id"],
        resource=plan["request"]["resource"],
        labels=plan["request"]["labels"],
        key_reference=key,
        records=[VerifiedRecord(name, one["kind"], one["recorded_at"]) for name, one in link.records.items()],
        is_evidence_pending="evidence" not in link.records,
        is_content_proven=is_content_proven,
        origin=origin,
    )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise EnforcementError("not_authentic", what)
