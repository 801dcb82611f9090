"""Leaves, and the records that they commit to (`docs/reference/ledger-formats.md` of the service)."""

from __future__ import annotations

import hashlib
import re

from cryptography.hazmat.primitives import constant_time, hashes
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..errors import ReceiptRefused
from ._texts import Json, canonical, is_moment, parse_canonical, require

MAX_LEAF_BYTES = 65_535
LEAF_MEMBERS = {"commitment", "kind", "record_id", "recorded_at", "v"}
RECORD_TEXTS = {"kind", "log", "record_id", "recorded_at", "request_digest", "request_id", "route", "tenant_id"}
RECORD_OBJECTS = {"caller", "outcome", "request"}
CALLER_MEMBERS = {"auth_source", "principal_id", "subject"}


def open_record(leaf_bytes: bytes, opening: bytes, record_bytes: bytes) -> dict[str, Json]:
    """The record, shown to be the one that the leaf commits to, and to say the same."""
    leaf = read_leaf(leaf_bytes)
    require(len(opening) == 32, "the opening is not of 32 bytes")
    require(commits(leaf["commitment"], opening, record_bytes), "the leaf does not commit to this record")
    record = read_record(record_bytes)
    for member in ("record_id", "kind", "recorded_at"):
        require(record[member] == leaf[member], f"leaf and record differ in {member}")
    outcome, request = record["outcome"], record["request"]
    if record["kind"] == "decision" and isinstance(outcome, dict) and "policy_revision" in outcome:
        revision = outcome["policy_revision"]
        decided = isinstance(revision, str) and revision == leaf.get("policy_revision")
        require(decided, "the record was decided by another policy than the leaf names")
    digest = "sha256:" + hashlib.sha256(canonical(request)).hexdigest()
    require(record["request_digest"] == digest, "the record has another request than its digest")
    return record


def read_leaf(data: bytes) -> dict[str, Json]:
    require(len(data) <= MAX_LEAF_BYTES, "the leaf is too large")
    leaf = parse_canonical(data)
    if not isinstance(leaf, dict):
        raise ReceiptRefused("the leaf is none")
    require(set(leaf) - {"policy_revision"} == LEAF_MEMBERS, "the leaf has other members than a leaf")
    require(isinstance(leaf["v"], float) and leaf["v"] == 1, "the leaf is of another version")
    texts = (leaf["kind"], leaf["record_id"], leaf["commitment"], leaf.get("policy_revision", ""))
    require(all(isinstance(text, str) for text in texts) and is_moment(leaf["recorded_at"]), "the leaf is none")
    require(re.fullmatch(r"hmac-sha256:[0-9a-f]{64}", str(leaf["commitment"])), "the leaf has no commitment")
    return leaf


def read_record(data: bytes) -> dict[str, Json]:
    record = parse_canonical(data)
    if not isinstance(record, dict) or set(record) != RECORD_TEXTS | RECORD_OBJECTS:
        raise ReceiptRefused("the record has other members than a record")
    require(all(isinstance(record[name], str) for name in RECORD_TEXTS), "the record is none")
    require(all(isinstance(record[name], dict) for name in RECORD_OBJECTS), "the record is none")
    caller = record["caller"]
    if not isinstance(caller, dict) or set(caller) != CALLER_MEMBERS:
        raise ReceiptRefused("the record's caller has other members than a caller")
    require(all(isinstance(text, str) for text in caller.values()), "the record's caller is none")
    return record


def commits(commitment: Json, opening: bytes, record: bytes) -> bool:
    """HMAC-SHA-256 under HKDF-SHA256 (RFC 5869) of the opening."""
    key = HKDF(hashes.SHA256(), 32, salt=None, info=b"platform-ledger/v1/commitment").derive(opening)
    mac = HMAC(key, hashes.SHA256())
    mac.update(record)
    made = "hmac-sha256:" + mac.finalize().hex()
    return isinstance(commitment, str) and constant_time.bytes_eq(made.encode(), commitment.encode())
