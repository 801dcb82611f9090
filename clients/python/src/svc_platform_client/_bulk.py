"""Bulk calls: single calls by the thousand, with what the client fills in, and verifies, item by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from . import bulk_v1
from ._calls import Calls, made_key
from ._methods import Method
from .errors import ReceiptRefused
from .receipts import ItemRequest, RecordedItem, receipt_of, verify_item

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
    answer = await calls.carry_out(method, asked, deadline, calls.wanted_receipts())
    require_receipts(calls, list(asked.items), answer)
    return answer


async def record_all(
    calls: Calls, method: Method[Records, BulkAnswer], request: Records, deadline: float | None
) -> BulkAnswer:
    """Events or registrations, each with a key that all attempts keep."""
    sent = type(request)()
    sent.CopyFrom(request)
    for item in sent.items:
        item.idempotency_key = made_key(item.idempotency_key)
    answer = await calls.carry_out(method, sent, deadline, calls.wanted_receipts())
    require_receipts(calls, [payload_of(item) for item in sent.items], answer)
    return answer


def payload_of(item: bulk_v1.EventItem | bulk_v1.RegistrationItem) -> ItemRequest:
    return item.event if isinstance(item, bulk_v1.EventItem) else item.registration


def require_receipts(calls: Calls, requests: Sequence[ItemRequest], answer: BulkAnswer) -> None:
    """Raises ReceiptRefused where log keys are known and the receipt of an item that was answered does not hold."""
    if not calls.options.log_keys:
        return
    items: Sequence[RecordedItem] = answer.items
    try:
        if len(items) != len(requests):
            raise ReceiptRefused("the answer has more or fewer items than the request")
        for request, item in zip(requests, items, strict=True):
            if receipt_of(item) is not None:
                verify_item(request, item, calls.options.log_keys, answer.caller)
    except ReceiptRefused as refused:
        refused.answer = answer
        raise
