"""Bulk calls: single calls by the thousand, with what the client fills in, and verifies, item by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from . import bulk_v1, v1
from ._calls import Calls, made_key, refusing, require_detail, sent_with
from ._methods import Method
from .errors import ReceiptRefused
from .receipts import ItemRequest, RecordedItem, VerifiedReceipt, receipt_of, require_outcome, verify_item

Question = TypeVar(
    "Question", bulk_v1.PlanProtectionsRequest, bulk_v1.ResolvePoliciesRequest, bulk_v1.PlanKeyAccessesRequest
)
Records = TypeVar("Records", bulk_v1.RecordEventsRequest, bulk_v1.RegisterArtifactsRequest)
BulkAnswer = TypeVar(
    "BulkAnswer",
    bulk_v1.PlanProtectionsResponse,
    bulk_v1.ResolvePoliciesResponse,
    bulk_v1.PlanKeyAccessesResponse,
    bulk_v1.RecordEventsResponse,
    bulk_v1.RegisterArtifactsResponse,
)


async def ask_all(
    calls: Calls, method: Method[Question, BulkAnswer], request: Question, deadline: float | None
) -> BulkAnswer:
    """Questions, each of which says which obligations are understood."""
    asked = type(request)()
    asked.CopyFrom(request)
    for item in asked.items:
        if not item.understood_obligations:
            item.understood_obligations.extend(calls.options.understood_obligations)
    sent_at = sent_with(None)
    answer = await calls.carry_out(method, asked, deadline, calls.wanted_receipts())
    require_receipts(calls, [(item, sent_at) for item in asked.items], answer, [])
    return answer


async def record_all(
    calls: Calls, method: Method[Records, BulkAnswer], request: Records, deadline: float | None
) -> BulkAnswer:
    """Events or registrations, each with a key that all attempts keep."""
    sent = type(request)()
    sent.CopyFrom(request)
    sent_at = [sent_with(item.idempotency_key or None) for item in sent.items]
    for item in sent.items:
        item.idempotency_key = made_key(item.idempotency_key)
    answer = await calls.carry_out(method, sent, deadline, calls.wanted_receipts())
    keys = [item.idempotency_key for item in sent.items]
    require_receipts(calls, list(zip(map(payload_of, sent.items), sent_at, strict=True)), answer, keys)
    return answer


def payload_of(item: bulk_v1.EventItem | bulk_v1.RegistrationItem) -> ItemRequest:
    return item.event if isinstance(item, bulk_v1.EventItem) else item.registration


def require_receipts(
    calls: Calls, asked: Sequence[tuple[ItemRequest, float]], answer: BulkAnswer, keys: Sequence[str]
) -> None:
    """
    Raises ReceiptRefused if log keys are known and the receipt of an item that was answered does not hold, or one
    record answers two items. `keys`: those of the items; two with one key have one record.
    """
    if not calls.are_verified():
        return
    items: Sequence[RecordedItem] = answer.items
    with refusing(answer):
        if len(items) != len(asked):
            raise ReceiptRefused("the answer has more or fewer items than the request")
        # Two items may ask the same, so that their questions do not tell their records apart.
        owners: dict[tuple[str, int], str] = {}
        for at, ((request, sent_at), item) in enumerate(zip(asked, items, strict=True)):
            verified = require_item_receipt(calls, request, item, answer.caller, sent_at)
            if verified is not None:
                owner = keys[at] if keys else f"item {at}"
                if owners.setdefault((verified.log_origin, verified.leaf_index), owner) != owner:
                    raise ReceiptRefused("one record answers two items")


def require_item_receipt(
    calls: Calls,
    request: ItemRequest,
    item: RecordedItem,
    told_caller: v1.Caller | None,
    sent_at: float,
) -> VerifiedReceipt | None:
    """The same of one item. One that was not answered has nothing to verify."""
    require_outcome(item)
    if item.outcome != bulk_v1.ITEM_OUTCOME_ANSWERED:
        return None
    # Brief ones come unasked.
    require_detail(receipt_of(item), is_whole=calls.options.receipts == "whole")
    log_keys = calls.options.log_keys
    return verify_item(request, item, log_keys, told_caller, caller=calls.caller, sent_at=sent_at)
