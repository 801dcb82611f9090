"""
Receipts, checked offline: that the tenant's log holds exactly the record that an answer speaks of, and stays one.

What a verified receipt proves, and what not, stands in the service's `docs/ledger.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import bulk_v1, v1
from ..errors import ReceiptRefused
from ._answers import Asked, holder_of, require_answers, require_item
from ._answers import require_outcome as require_outcome
from ._notes import LogKey as LogKey
from ._notes import parse_log_key as parse_log_key
from ._notes import parse_proof, require_signed
from ._records import open_record
from ._texts import Json, parse_base64, require
from ._trees import is_continued, leads_to_root, leaf_hash

__all__ = [
    "ItemRequest",
    "Json",
    "LogKey",
    "ReceiptRefused",
    "RecordedAnswer",
    "RecordedItem",
    "VerifiedReceipt",
    "continues",
    "parse_log_key",
    "verify_answer",
    "verify_item",
    "verify_receipt",
]

RecordedAnswer = (
    v1.PlanProtectionResponse
    | v1.ResolvePolicyResponse
    | v1.PlanKeyAccessResponse
    | v1.RegisterArtifactResponse
    | v1.RecordEvidenceResponse
)
"""An answer that comes with a receipt."""

RecordedItem = (
    bulk_v1.ProtectionPlanItem
    | bulk_v1.PolicyResolutionItem
    | bulk_v1.KeyAccessPlanItem
    | bulk_v1.RegistrationResult
    | bulk_v1.EventResult
)
"""An item of a bulk answer, or an acknowledged one of a stream, that comes with a receipt."""

ItemRequest = (
    v1.PlanProtectionRequest
    | v1.ResolvePolicyRequest
    | v1.PlanKeyAccessRequest
    | v1.RegisterArtifactRequest
    | v1.RecordEvidenceRequest
)
"""What an item answers."""

MATERIAL = ("leaf", "opening", "record")


@dataclass(frozen=True)
class VerifiedReceipt:
    """What a receipt proves."""

    log_origin: str
    leaf_index: int
    tree_size: int
    root: bytes
    record: dict[str, Json] | None = field(repr=False)
    """What was recorded; None of a brief receipt, which proves the position of a hash alone."""


def verify_receipt(receipt: v1.Receipt, log_keys: str | Sequence[str]) -> VerifiedReceipt:
    """
    Checks a receipt against the keys of the tenant's log, which come from the operator, never from the receipt.

    `log_keys`: C2SP verifier keys, `<origin>+<hash>+<key>`, one of which must have signed; with `@<size>` behind one
    that was retired, which counts for trees of up to so many leaves. Raises ReceiptRefused, and ValueError for a key
    that is none.
    """
    keys = [parse_log_key(text) for text in ([log_keys] if isinstance(log_keys, str) else log_keys)]
    index, path, checkpoint = parse_proof(receipt.proof)
    require_signed(checkpoint, keys)
    hashed = parse_base64(receipt.leaf_hash)
    if hashed is None or len(hashed) != 32:
        raise ReceiptRefused("the leaf_hash is malformed")
    proven = leads_to_root(hashed, index, checkpoint.size, checkpoint.root, path)
    require(proven, "the proof does not lead to the root")
    told = (receipt.log_origin, receipt.leaf_index, receipt.tree_size)
    require(told == (checkpoint.origin, index, checkpoint.size), "the members are not what the proof shows")
    given = [name for name in MATERIAL if receipt.HasField(name)]
    record = None
    if given:
        require(len(given) == len(MATERIAL), "the receipt has only a part of leaf, opening, record")
        leaf, opening, data = map(parse_base64, (receipt.leaf, receipt.opening, receipt.record))
        if leaf is None or opening is None or data is None:
            raise ReceiptRefused("leaf, opening or record is not base64")
        require(leaf_hash(leaf) == hashed, "the leaf_hash is not the leaf's")
        record = open_record(leaf, opening, data)
        same = (record["record_id"], record["log"]) == (receipt.record_id, receipt.log_origin)
        require(same, "record and members do not name the same record")
    return VerifiedReceipt(checkpoint.origin, index, checkpoint.size, checkpoint.root, record)


def verify_answer(
    answer: RecordedAnswer,
    log_keys: str | Sequence[str],
    *,
    request: ItemRequest | None,
    caller: v1.Caller | None = None,
    sent_at: float | None = None,
) -> VerifiedReceipt:
    """
    Checks the receipt of an answer as `verify_receipt` does, and that it is this answer's: that the record has what was
    asked, by whom and when, and every member of the answer that a record determines. Of a brief receipt only the id of
    a decision is compared.

    `request`: what was sent, with the obligations that were named as understood. None if it was not kept: then nothing
    shows that the answer is to the question that was asked.
    `caller`: whom `who_am_i` names; not compared if None.
    `sent_at`: when the call was made, in seconds of `time.time`; not compared if None.

    Raises ReceiptRefused also if the answer has no receipt.
    """
    receipt = receipt_of(answer)
    if receipt is None:
        raise ReceiptRefused("the answer has no receipt")
    verified = verify_receipt(receipt, log_keys)
    require_answers(answer, Asked(request, caller, sent_at), receipt.record_id, verified.record)
    return verified


def verify_item(
    request: ItemRequest | None,
    item: RecordedItem,
    log_keys: str | Sequence[str],
    told_caller: v1.Caller | None = None,
    *,
    caller: v1.Caller | None = None,
    sent_at: float | None = None,
) -> VerifiedReceipt:
    """
    The same of an item. `told_caller`: the one that the answer around the item names; streams name none, and then it is
    not compared.
    """
    receipt = receipt_of(item)
    if receipt is None:
        raise ReceiptRefused("the item has no receipt")
    verified = verify_receipt(receipt, log_keys)
    require_item(item, told_caller, Asked(request, caller, sent_at), receipt.record_id, verified.record)
    return verified


def receipt_of(answer: RecordedAnswer | RecordedItem) -> v1.Receipt | None:
    holder = getattr(answer, holder_of(answer))
    receipt: v1.Receipt | None = holder.receipt if holder.HasField("receipt") else None
    return receipt


def continues(earlier: VerifiedReceipt, later: VerifiedReceipt, proof: str) -> bool:
    """
    Whether the log of the later receipt holds all that the earlier one's held, in the same places (RFC 6962 section
    2.1.2); False where the proof does not show it.

    `proof`: what the service answers for the sizes of the two trees, a base64 hash a line.
    """
    hashes = [parse_base64(line) for line in proof.split("\n") if line]
    path = [value for value in hashes if value is not None and len(value) == 32]
    if len(path) != len(hashes) or earlier.log_origin != later.log_origin:
        return False
    return is_continued(earlier.tree_size, earlier.root, later.tree_size, later.root, path)
