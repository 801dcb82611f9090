"""What bulk calls fill in and verify, item by item. How they are tried again the conformance suite shows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from bulk_service import served
from google.protobuf.message import Message
from logs import Signer, receipt_of

from svc_platform_client import AsyncPlatformClient, Options, PlatformClient, ReceiptRefused, bulk_v1, v1, verify_item

SIGNER = Signer(bytes(32))
RECORD = "0190a5d2-ac96-774b-bcce-000000000002"
DECIDING = ["PlanProtections", "ResolvePolicies", "PlanKeyAccesses"]
RECORDING = ["RecordEvents", "RegisterArtifacts"]


def serving(method: str, seen: list[Any], answer: Message) -> tuple[str, grpc.RpcMethodHandler[Any, Any]]:
    def handle(request: Any, context: grpc.ServicerContext) -> Message:
        seen.append(request)
        return answer

    service = "BulkDecisionService" if method in DECIDING else "BulkRecordService"
    request_type = getattr(bulk_v1, f"{method}Request")
    handler = grpc.unary_unary_rpc_method_handler(handle, request_type.FromString, type(answer).SerializeToString)
    return f"/platform.bulk.v1.{service}/{method}", handler


def call_of(client: PlatformClient | AsyncPlatformClient, method: str) -> Callable[..., Any]:
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", method).lower()
    called: Callable[..., Any] = getattr(client, name)
    return called


@pytest.mark.parametrize("method", DECIDING)
def test_each_item_names_the_obligations_that_are_understood_unless_it_names_its_own(method: str) -> None:
    seen: list[Any] = []
    answer = getattr(bulk_v1, f"{method}Response")(service="svc")
    with served(serving(method, seen, answer)) as url:
        request = getattr(bulk_v1, f"{method}Request")()
        request.items.add()
        request.items.add(understood_obligations=["own"])
        with PlatformClient(url, options=Options(understood_obligations=["log-use"])) as client:
            assert call_of(client, method)(request) == answer
        assert [list(item.understood_obligations) for item in seen[0].items] == [["log-use"], ["own"]]
        assert list(request.items[0].understood_obligations) == []


@pytest.mark.parametrize("method", RECORDING)
def test_each_item_without_an_idempotency_key_gets_one(method: str) -> None:
    seen: list[Any] = []
    with served(serving(method, seen, getattr(bulk_v1, f"{method}Response")())) as url:
        request = getattr(bulk_v1, f"{method}Request")()
        request.items.add()
        request.items.add(idempotency_key="own")

        async def awaited() -> None:
            async with AsyncPlatformClient(url) as client:
                await call_of(client, method)(request)

        asyncio.run(awaited())
        with PlatformClient(url) as client:
            call_of(client, method)(request)
            with pytest.raises(ValueError, match="visible"):
                request.items.add(idempotency_key="not visible")
                call_of(client, method)(request)
    keys = [[item.idempotency_key for item in arrived.items] for arrived in seen]
    assert [len(first) for first, _ in keys] == [36, 36]
    assert keys[0][0] != keys[1][0]
    assert [own for _, own in keys] == ["own", "own"]


def plan(decision_id: str = RECORD, **decision: Any) -> bulk_v1.ProtectionPlanItem:
    made = v1.ProtectionDecision(allow=True, decision_id=decision_id, receipt=receipt_of(SIGNER, 5, 2, brief=True))
    made.MergeFrom(v1.ProtectionDecision(**decision))
    return bulk_v1.ProtectionPlanItem(outcome=bulk_v1.ITEM_OUTCOME_ANSWERED, decision=made)


@pytest.mark.parametrize(
    ("items", "holds"),
    [
        ([plan(), bulk_v1.ProtectionPlanItem(outcome=bulk_v1.ITEM_OUTCOME_REFUSED)], True),
        ([plan(), plan(decision_id="another")], False),
        ([plan()], False),
    ],
    ids=["holds", "of another decision", "too few items"],
)
def test_the_receipt_of_each_item_is_verified_where_log_keys_are_known(items: list[Any], holds: bool) -> None:
    answer = bulk_v1.PlanProtectionsResponse(items=items)
    with served(serving("PlanProtections", [], answer)) as url:
        request = bulk_v1.PlanProtectionsRequest(items=[v1.PlanProtectionRequest()] * 2)
        with PlatformClient(url, options=Options(log_keys=[SIGNER.log_key])) as client:
            if holds:
                assert client.plan_protections(request) == answer
                return
            with pytest.raises(ReceiptRefused) as refused:
                client.plan_protections(request)
            assert refused.value.answer == answer


def test_an_item_that_was_not_answered_has_no_receipt_to_verify() -> None:
    with pytest.raises(ReceiptRefused, match="no receipt"):
        verify_item(v1.PlanProtectionRequest(), bulk_v1.ProtectionPlanItem(), SIGNER.log_key)
    assert verify_item(v1.PlanProtectionRequest(), plan(), [SIGNER.log_key]).leaf_index == 2
