"""What the receipts beside an artifact prove, offline: against the keys of the log that the verifier trusts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from google.protobuf.json_format import ParseDict, ParseError

from .. import v1
from ..errors import ReceiptRefused
from ..receipts import verify_receipt
from ._artifacts import receipts_path_of
from ._data import digest_of, opened, pieces_of
from ._envelope import read_header
from ._platform import Json
from ._signature import DetachedSignature, read_signature, require_content, require_signature
from ._spool import RECEIPTS_FORMAT
from .errors import EnforcementError
from .keys import SigningKey

File = str | os.PathLike[str]
Record = Mapping[str, Any]
"""A record of the ledger."""
_MAX_RECEIPTS_FILE = 16 * 1_048_576


@dataclass(frozen=True)
class VerifiedRecord:
    name: str
    """What it is of: plan, key_access, new_key_access, registration, evidence."""
    kind: str
    recorded_at: str
    """RFC 3339, in UTC."""


@dataclass(frozen=True)
class VerifiedArtifact:
    operation: str
    artifact_digest: str
    decision_id: str
    records: Sequence[VerifiedRecord]
    """What was shown."""
    is_evidence_pending: bool
    """Whether the event is not among them: it was still on its way."""


def verify_artifact(
    artifact: File,
    *,
    log_keys: str | Sequence[str],
    receipts: File | None = None,
    data: File | None = None,
    keys: Sequence[SigningKey] | None = None,
) -> VerifiedArtifact:
    """
    Checks that the log holds the decisions, the registration and the event of this very artifact, or of the file that
    was opened, and that its header is bound to them. Decrypts nothing.

    `log_keys`: C2SP verifier keys of the tenant's log, from the operator; one of them must hold.
    `receipts`: the receipts file; by default the one beside the artifact.
    `data`, `keys`: of a detached signature: what must be what was signed, and keys of which the one that it names must
    have made it. Neither is looked at by default.

    Raises EnforcementError: `not_authentic` where something does not hold, `invalid` where a file is none.
    """
    found = _read_receipts(receipts_path_of(artifact) if receipts is None else Path(receipts))
    proven = {name: _proven_record(name, receipt, log_keys) for name, receipt in found["receipts"].items()}
    required = ["plan", "key_access"] if found["operation"] == "access" else ["plan", "key_access", "registration"]
    for name in required:
        _require(name in proven, f"there is no receipt of the {name}")
    _check_decisions(found, proven)
    is_signature = found["artifact_profile"] == "detached_signature" and found["operation"] != "access"
    if (data is not None or keys is not None) and not is_signature:
        raise EnforcementError("invalid", "data and keys are those of a detached signature")
    if found["operation"] != "access":
        _check_artifact(artifact, found, proven, data, keys)
    event = proven.get("evidence")
    if event is not None:
        is_own = event["kind"] == "evidence" and _asked(event, "artifact_digest") == found["artifact_digest"]
        _require(is_own, "the event is of another artifact")
    records = [VerifiedRecord(name, record["kind"], record["recorded_at"]) for name, record in proven.items()]
    return VerifiedArtifact(found["operation"], found["artifact_digest"], found["decision_id"], records, event is None)


def _read_receipts(path: Path) -> Json:
    """Raises `invalid` where the file is none."""
    with opened(path) as file:
        data = file.read(_MAX_RECEIPTS_FILE + 1)
    texts = ("operation", "artifact_profile", "artifact_digest", "artifact_cid", "decision_id")
    try:
        found = json.loads(data)
        is_own = (
            len(data) <= _MAX_RECEIPTS_FILE
            and found["format"] == RECEIPTS_FORMAT
            and isinstance(found["receipts"], dict)
            and all(isinstance(found[name], str) for name in texts)
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        is_own = False
    if not is_own:
        raise EnforcementError("invalid", f"{path} is no receipts file of this format")
    return dict(found)


def _proven_record(name: str, receipt: Any, log_keys: str | Sequence[str]) -> Record:
    try:
        record = verify_receipt(ParseDict(receipt, v1.Receipt(), ignore_unknown_fields=True), log_keys).record
    except (ReceiptRefused, ParseError, ValueError, TypeError, AttributeError) as error:
        raise EnforcementError("not_authentic", f"the receipt of the {name} does not verify: {error}") from error
    if record is None:
        _fail(f"the receipt of the {name} is a brief one, and shows a position only")
    return record


def _check_decisions(found: Json, proven: Mapping[str, Record]) -> None:
    for name in ("plan", "key_access", "new_key_access"):
        record = proven.get(name)
        if record is not None:
            allows = record["kind"] == "decision" and record["outcome"].get("allow") is True
            _require(allows, f"the {name} is no decision that allows")
    _require(proven["plan"]["record_id"] == found["decision_id"], "the plan is another decision")
    _require(_asked(proven["plan"], "operation") == found["operation"], "the plan is for another operation")


def _check_artifact(
    path: File,
    found: Json,
    proven: Mapping[str, Record],
    data: File | None,
    keys: Sequence[SigningKey] | None,
) -> None:
    with opened(path) as file:
        names = digest_of(file).names()
        same = all(found[name] == text for name, text in names.items())
        _require(same, "the artifact is not the one registered")
        registration = proven["registration"]
        stands = registration["kind"] == "registration" and registration["outcome"].get("accepted") is True
        _require(stands, "the registration does not stand")
        for member, what in (
            ("artifact_digest", "is of another artifact"),
            ("decision_id", "cites another decision"),
            ("artifact_profile", "is of another profile"),
        ):
            _require(_asked(registration, member) == found[member], f"the registration {what}")
        if found["artifact_profile"] == "detached_signature":
            signed = read_signature(path)
            _require(signed.artifact == names, "the artifact changed while it was read")
            _check_header(signed.binding, signed.key, found["operation"], proven)
            _check_signature(signed, proven, data, keys)
        else:
            file.seek(0)
            header = read_header(file)
            _check_header(header.binding, header.key, found["operation"], proven)


def _check_header(
    binding: Mapping[str, Any], key: Mapping[str, str], operation: str, proven: Mapping[str, Record]
) -> None:
    plan = proven["plan"]
    if operation == "protect":
        _require(plan["record_id"] == binding["decision_id"], "the artifact is bound to another decision")
        revision = plan["outcome"].get("policy_revision")
        _require(revision == binding["policy_revision"], "the artifact names another policy revision")
    key_access = proven.get("new_key_access" if operation == "rewrap" else "key_access")
    bound = key_access is not None and key_access["record_id"] == key["decision_id"]
    _require(bound, "the key is bound to another decision")
    resource = _asked(plan, "resource")
    for member in ("kind", "id"):
        named = resource.get(member) if isinstance(resource, dict) else None
        _require(named == binding["resource"].get(member), "the decision is about another resource")


def _check_signature(
    signed: DetachedSignature,
    proven: Mapping[str, Record],
    data: File | None,
    keys: Sequence[SigningKey] | None,
) -> None:
    same = _asked(proven["plan"], "content_digest") == signed.binding["content_digest"]
    _require(same, "the decision is about other data")
    if keys is not None:
        reference = signed.key["reference"]
        signer = next((key for key in keys if key.reference == reference), None)
        if signer is None:
            raise EnforcementError("invalid", f"there is no key {reference} here")
        require_signature(signed, signer)
    if data is not None:
        with opened(data) as file:
            for _ in require_content(pieces_of(file), signed.binding):
                pass


def _asked(record: Record, member: str) -> Any:
    """What the request said; records have been checked to hold one."""
    return record["request"].get(member)


def _require(holds: bool, what: str) -> None:
    if not holds:
        _fail(what)


def _fail(what: str) -> NoReturn:
    raise EnforcementError("not_authentic", what)
