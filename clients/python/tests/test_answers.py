"""
Receipts answer the question that was asked: what an intermediary can put in the place of an answer is refused, by the
clients and by the enforcement library.
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import grpc
import pytest
from bulk_service import served
from google.protobuf.message import Message
from logs import Signer
from recorded import Log, RecordingPlatform

from svc_platform_client import (
    AsyncPlatformClient,
    Options,
    PlatformClient,
    ReceiptRefused,
    bulk_v1,
    v1,
    verify_answer,
    verify_item,
    verify_receipt,
)
from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey
from svc_platform_client.receipts import receipt_of
from svc_platform_client.receipts._answers import ROUTES, holder_of
from svc_platform_client.receipts._relations import TABLE

SIGNER = Signer(bytes(32))
TENANTS = {"tenant-a": SIGNER, "tenant-b": Signer(bytes([1]) * 32, "logs.example.com/evidence/other")}
LOG_KEYS = [signer.log_key for signer in TENANTS.values()]
NOW = 1_772_366_400.0
DAY = 86_400.0
ITEMS: dict[str, Any] = {
    "protection-plan": bulk_v1.ProtectionPlanItem,
    "policy-resolve": bulk_v1.PolicyResolutionItem,
    "key-access-plan": bulk_v1.KeyAccessPlanItem,
    "artifact-register": bulk_v1.RegistrationResult,
    "evidence": bulk_v1.EventResult,
}


def questions(number: int) -> list[Any]:
    """One of each route, with every member that the record has."""
    common: dict[str, Any] = {
        "workload": v1.WorkloadDescriptor(
            application=f"payroll-{number}", environment="production", component="writer"
        ),
        "resource": v1.ResourceDescriptor(kind="invoice", id=f"invoice-{number}", mime_type="text/plain"),
        "purpose": f"audit {number}",
        "labels": ["confidential", f"label-{number}"],
        "attributes": {"region": f"eu-{number}"},
    }
    names: dict[str, Any] = {"artifact_digest": f"sha256:{number:064x}", "artifact_cid": f"cid-{number}"}
    asked: dict[str, Any] = {"content_digest": f"sha256:{number + 1:064x}", "understood_obligations": [f"log-{number}"]}
    envelope = v1.ARTIFACT_PROFILE_ENVELOPE
    made: dict[str, Any] = {"artifact_kind": v1.ARTIFACT_KIND_DATA_OBJECT, "artifact_profile": envelope}
    cited: dict[str, Any] = {"decision_id": f"decision-{number}"}
    protect, wrap = v1.PROTECTION_OPERATION_PROTECT, v1.KEY_ACCESS_OPERATION_WRAP
    size: dict[str, Any] = {"content_size_bytes": number}
    return [
        v1.PlanProtectionRequest(
            operation=protect, preferred_artifact_profile=envelope, **common, **names, **asked, **size
        ),
        v1.ResolvePolicyRequest(operation=protect, **common, **names, **asked, **size),
        v1.PlanKeyAccessRequest(
            operation=wrap, artifact_profile=envelope, key_reference=f"key-{number}", **common, **names, **asked
        ),
        v1.RegisterArtifactRequest(
            operation=protect, key_reference=f"key-{number}", **common, **names, **made, **cited
        ),
        v1.RecordEvidenceRequest(
            event_type=v1.EVIDENCE_EVENT_TYPE_PROTECT,
            outcome="completed",
            occurred_at="2026-03-01T12:00:00.000Z",
            **common,
            **names,
            **made,
            **cited,
        ),
    ]


def answer_of(platform: RecordingPlatform, request: Any) -> Any:
    calls: dict[str, Callable[..., Any]] = {
        "protection-plan": platform.plan_protection,
        "policy-resolve": platform.resolve_policy,
        "key-access-plan": platform.plan_key_access,
        "artifact-register": partial(platform.register_artifact, idempotency_key="key"),
        "evidence": partial(platform.record_evidence, idempotency_key="key"),
    }
    return calls[ROUTES[type(request)]](request)


@dataclass(frozen=True)
class Call:
    """A question, its answer, and what its caller knows."""

    world: str
    request: Any
    answer: Any
    caller: v1.Caller
    sent_at: float
    item: Any = None
    """The answer as that of an item; the caller is then the one of the answer around it too."""

    def refusal(self) -> str | None:
        """Why it is refused; None if it is not."""
        known: Any = {"caller": self.caller, "sent_at": self.sent_at}
        try:
            if self.item is None:
                verify_answer(self.answer, LOG_KEYS, request=self.request, **known)
            else:
                verify_item(self.request, self.item, LOG_KEYS, self.answer.caller, **known)
        except ReceiptRefused as refused:
            return str(refused)
        return None


def calls() -> list[Call]:
    made: list[Call] = []
    worlds: list[tuple[str, str, str, int, float, bool]] = [
        ("base", "tenant-a", "payroll", 1, NOW, True),
        ("another request", "tenant-a", "payroll", 2, NOW, True),
        ("another principal", "tenant-a", "auditor", 1, NOW, True),
        ("another tenant", "tenant-b", "payroll", 1, NOW, True),
        ("another time", "tenant-a", "payroll", 1, NOW + DAY, True),
        ("denied", "tenant-a", "payroll", 1, NOW, False),
    ]
    for world, tenant, principal, number, at, allow in worlds:
        platform = RecordingPlatform(Log(TENANTS[tenant], partial(float, at)), principal, tenant)
        platform.allow = allow
        platform.obligations = [v1.Obligation(id=f"log-{number}", parameters={"audience": world})]
        for request in questions(number):
            answer = answer_of(platform, request)
            made.append(Call(world, request, answer, platform.caller, at))
            item = ITEMS[ROUTES[type(request)]](outcome=bulk_v1.ITEM_OUTCOME_ANSWERED)
            for name in ("decision", "execution", "handling", "registration", "ingestion"):
                if name in item.DESCRIPTOR.fields_by_name:
                    getattr(item, name).CopyFrom(getattr(answer, name))
            made.append(Call(world, request, answer, platform.caller, at, item))
    return made


CALLS = calls()


def named(call: Call) -> str:
    return f"{call.world} {ROUTES[type(call.request)]}{'' if call.item is None else ' item'}"


@pytest.mark.parametrize("call", CALLS, ids=named)
def test_an_answer_to_what_was_asked_is_taken(call: Call) -> None:
    assert call.refusal() is None


def leaves(message: Message, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member that is no message, also one that is not set."""
    for field in message.DESCRIPTOR.fields:
        is_message = field.message_type is not None and not field.is_repeated
        if is_message and message.HasField(field.name):
            yield from leaves(getattr(message, field.name), (*path, field.name))
        yield (*path, field.name)


def changed(message: Any, path: tuple[str, ...]) -> Any:
    """The message, of which one member is another; a message is left out."""
    made = type(message)()
    made.CopyFrom(message)
    holder: Any = made
    for name in path[:-1]:
        holder = getattr(holder, name)
    field = holder.DESCRIPTOR.fields_by_name[path[-1]]
    value = getattr(holder, field.name)
    if field.is_repeated:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value["other"] = "1"
        elif len(value):
            del value[:]
        elif field.message_type is None:
            value.append("other")
        else:
            value.add()
    elif field.message_type is not None:
        if holder.HasField(field.name):
            holder.ClearField(field.name)
        else:
            value.SetInParent()
    elif isinstance(value, bool):
        setattr(holder, field.name, not value)
    else:
        other: Any = f"{value}x" if isinstance(value, str) else (2 if value == 1 else 1)
        setattr(holder, field.name, other)
    return made


# What no record has; warnings and receipts of a range go beside an item.
UNPROVEN = {*TABLE["unproven"], "leaf", "error", "idempotency_key"}
FREE_OF_RETRIES = set(TABLE["unproven_of_retries"])


def is_unproven(call: Call, path: tuple[str, ...]) -> bool:
    text, is_decision = ".".join(path), holder_of(call.answer) == "decision"
    is_retry = not is_decision and text in FREE_OF_RETRIES
    # What holds the receipt has its own tests, and a caller without a name is one of another name.
    return text in UNPROVEN or path[0] in UNPROVEN or is_retry or "receipt" in path


def test_no_member_that_a_record_determines_can_be_changed() -> None:
    count, taken = 0, []
    for call in CALLS:
        of = call.answer if call.item is None else call.item
        for path in leaves(of):
            if is_unproven(call, path):
                continue
            forged = changed(of, path)
            mutant = replace(call, answer=forged) if call.item is None else replace(call, item=forged)
            count += 1
            if mutant.refusal() is None:
                taken.append(f"{named(call)}: {'.'.join(path)}")
        for path in leaves(call.request):
            if path[0] in TABLE["request"]["never_recorded"] + TABLE["request"]["rewritten"]:
                continue
            count += 1
            if replace(call, request=changed(call.request, path)).refusal() is None:
                taken.append(f"{named(call)}: request {'.'.join(path)}")
    assert taken == []
    assert count > 2_000


def test_no_part_can_be_that_of_another_call() -> None:
    count, taken = 0, []
    for call, other in permutations(CALLS, 2):
        mutants: dict[str, Call] = {}
        if type(call.request) is type(other.request):
            if call.request != other.request:
                mutants["request"] = replace(call, request=other.request)
            if call.item is None and other.item is None:
                mutants["answer"] = replace(call, answer=other.answer)
            elif call.item is not None and other.item is not None:
                mutants["item"] = replace(call, item=other.item)
        if call.caller != other.caller:
            mutants["caller"] = replace(call, caller=other.caller)
        if call.sent_at < other.sent_at:
            mutants["time"] = replace(call, sent_at=other.sent_at)
        if call.item is None and other.item is None and receipt_of(call.answer) != receipt_of(other.answer):
            answer = copy.deepcopy(call.answer)
            getattr(answer, holder_of(answer)).receipt.CopyFrom(receipt_of(other.answer))
            mutants["receipt"] = replace(call, answer=answer)
        for part, mutant in mutants.items():
            # The same question again, of the same caller, has answers of its own; an event is recorded as it is again.
            is_again = call.request == other.request and call.caller == other.caller and call.sent_at <= other.sent_at
            is_record = holder_of(call.answer) != "decision"
            if is_again and (part in ("answer", "item") or (is_record and part == "receipt")):
                continue
            count += 1
            if mutant.refusal() is None:
                taken.append(f"{named(call)}: {part} of {named(other)}")
    assert taken == []
    assert count > 2_000


def test_a_record_of_the_future_is_refused() -> None:
    platform = RecordingPlatform(Log(SIGNER, lambda: time.time() + DAY))
    [request, *_] = questions(1)
    answer = platform.plan_protection(request)
    assert verify_answer(answer, LOG_KEYS, request=None).record is not None
    with pytest.raises(ReceiptRefused, match="to come"):
        verify_answer(answer, LOG_KEYS, request=request, sent_at=time.time())


def test_reasons_are_left_out_only_where_the_record_says_so() -> None:
    [request, *_] = questions(1)
    platform = RecordingPlatform(Log(SIGNER))
    answer = platform.plan_protection(request)
    del answer.decision.reasons[:]
    with pytest.raises(ReceiptRefused, match="reasons"):
        verify_answer(answer, LOG_KEYS, request=request)


def test_a_signature_of_the_trusted_key_stands_once() -> None:
    receipt = RecordingPlatform(Log(SIGNER)).plan_protection(questions(1)[0]).decision.receipt
    line = receipt.proof.splitlines()[-1]
    assert verify_receipt(receipt, LOG_KEYS).record is not None
    receipt.proof += f"{line}\n"
    with pytest.raises(ReceiptRefused, match="twice"):
        verify_receipt(receipt, LOG_KEYS)


# Over the wire: an intermediary with a token of the same tenant.


class Intermediary:
    """Answers what it likes."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.own = RecordingPlatform(Log(SIGNER))
        self.answer = answer

    def handlers(self) -> list[tuple[str, Any]]:
        def unary(service: str, method: str, of: Callable[[Any], Any]) -> tuple[str, Any]:
            package = bulk_v1 if service.startswith("Bulk") else v1
            handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
                lambda request, _: of(request),
                getattr(package, f"{method}Request").FromString,
                lambda answer: answer.SerializeToString(),
            )
            name = "bulk" if package is bulk_v1 else "sdk"
            return f"/platform.{name}.v1.{service}/{method}", handler

        def stream(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
            for request in requests:
                ingestion = self.answer(request.item.event).ingestion
                result = bulk_v1.EventResult(
                    outcome=bulk_v1.ITEM_OUTCOME_ANSWERED,
                    idempotency_key=request.item.idempotency_key,
                    ingestion=ingestion,
                )
                response = bulk_v1.StreamEventsResponse()
                response.items.add(sequence=request.sequence, result=result)
                yield response

        def plans(request: bulk_v1.PlanProtectionsRequest) -> bulk_v1.PlanProtectionsResponse:
            response = bulk_v1.PlanProtectionsResponse(status="ready", caller=self.own.caller)
            for item in request.items:
                answer = self.answer(item)
                response.items.add(
                    outcome=bulk_v1.ITEM_OUTCOME_ANSWERED, decision=answer.decision, execution=answer.execution
                )
            return response

        streamed: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            stream, bulk_v1.StreamEventsRequest.FromString, lambda answer: answer.SerializeToString()
        )
        return [
            unary("DiscoveryService", "WhoAmI", lambda _: v1.WhoAmIResponse(caller=self.own.caller)),
            unary("ProtectionService", "PlanProtection", self.answer),
            unary("ProtectionService", "ResolvePolicy", self.answer),
            unary("ProtectionService", "PlanKeyAccess", self.answer),
            unary("RegistrationService", "RegisterArtifact", self.answer),
            unary("EvidenceService", "RecordEvidence", self.answer),
            unary("BulkDecisionService", "PlanProtections", plans),
            ("/platform.bulk.v1.BulkStreamService/StreamEvents", streamed),
        ]


def honest(request: Any) -> Any:
    return answer_of(RecordingPlatform(Log(SIGNER)), request)


def of_another_question(request: Any) -> Any:
    """Its own question about something else, with a summary that says that it was the caller's."""
    answer = honest(next(other for other in questions(2) if type(other) is type(request)))
    answer.request_summary.CopyFrom(honest(request).request_summary)
    return answer


def of_another_principal(request: Any) -> Any:
    """The same question, with its own token."""
    answer = answer_of(RecordingPlatform(Log(SIGNER), "intermediary"), request)
    answer.caller.CopyFrom(RecordingPlatform(Log(SIGNER)).caller)
    return answer


def of_its_own(request: Any) -> Any:
    return answer_of(RecordingPlatform(Log(SIGNER), "intermediary"), request)


def of_yesterday(request: Any) -> Any:
    return answer_of(RecordingPlatform(Log(SIGNER, lambda: time.time() - DAY)), request)


def changed_on_its_way(request: Any) -> Any:
    answer = honest(request)
    for part in ("execution", "handling", "registration", "ingestion"):
        if part in answer.DESCRIPTOR.fields_by_name:
            member = getattr(answer, part)
            for name in ("send_plaintext_to_platform", "protect_locally", "accepted"):
                if name in member.DESCRIPTOR.fields_by_name:
                    setattr(member, name, not getattr(member, name))
                    return answer
    raise AssertionError


def brief(request: Any) -> Any:
    answer = honest(request)
    for name in ("leaf", "opening", "record"):
        receipt_of(answer).ClearField(name)  # type: ignore[union-attr]
    return answer


def without_receipt(request: Any) -> Any:
    answer = honest(request)
    getattr(answer, holder_of(answer)).ClearField("receipt")
    return answer


FORGERIES = [
    of_another_question,
    of_another_principal,
    of_its_own,
    of_yesterday,
    changed_on_its_way,
    brief,
    without_receipt,
]
OPTIONS = Options(log_keys=[SIGNER.log_key], receipts="whole", caller=RecordingPlatform(Log(SIGNER)).caller)
METHODS = ["plan_protection", "resolve_policy", "plan_key_access", "register_artifact", "record_evidence"]


def blocking(url: str, work: Callable[[PlatformClient], Any]) -> Any:
    with PlatformClient(url, options=OPTIONS) as client:
        return work(client)


@pytest.mark.parametrize("forge", [honest, *FORGERIES], ids=lambda it: it.__name__)
@pytest.mark.parametrize("number", range(5), ids=lambda it: METHODS[it])
def test_calls(number: int, forge: Callable[[Any], Any]) -> None:
    request, method = questions(1)[number], METHODS[number]

    async def awaited(url: str) -> Any:
        async with AsyncPlatformClient(url, options=OPTIONS) as client:
            return await getattr(client, method)(request)

    works: list[Callable[[str], Any]] = [
        lambda url: blocking(url, lambda it: getattr(it, method)(request)),
        lambda url: asyncio.run(awaited(url)),
    ]
    with served(*Intermediary(forge).handlers()) as url:
        for work in works:
            if forge is honest:
                assert work(url).status == "ready"
                continue
            with pytest.raises(ReceiptRefused) as refused:
                work(url)
            assert refused.value.answer is not None


@pytest.mark.parametrize("forge", [honest, *FORGERIES], ids=lambda it: it.__name__)
def test_bulk_items_and_streams(forge: Callable[[Any], Any]) -> None:
    plan, *_, event = questions(1)
    request = bulk_v1.PlanProtectionsRequest(items=[plan])

    async def stream_awaited(url: str) -> Any:
        async with AsyncPlatformClient(url, options=OPTIONS) as client, client.open_event_stream() as stream:
            return await (await stream.send(event))

    def stream_blocking(client: PlatformClient) -> Any:
        with client.open_event_stream() as stream:
            return stream.send(event).result(30)

    works: list[Callable[[str], Any]] = [
        lambda url: blocking(url, lambda it: it.plan_protections(request)),
        lambda url: blocking(url, stream_blocking),
        lambda url: asyncio.run(stream_awaited(url)),
    ]
    with served(*Intermediary(forge).handlers()) as url:
        for work in works:
            if forge is honest:
                work(url)
                continue
            with pytest.raises(ReceiptRefused):
                work(url)


def test_a_key_that_was_used_before_may_have_been_recorded_then() -> None:
    request = questions(1)[-1]
    with served(*Intermediary(of_yesterday).handlers()) as url:
        assert blocking(url, lambda it: it.record_evidence(request, idempotency_key="kept")).ingestion.accepted
        with pytest.raises(ReceiptRefused, match="earlier"):
            blocking(url, lambda it: it.record_evidence(request))


def test_the_caller_is_whom_who_am_i_named_unless_the_program_says_it() -> None:
    request = questions(1)[0]
    named = Options(log_keys=[SIGNER.log_key])
    with (
        served(*Intermediary(of_its_own).handlers()) as url,
        PlatformClient(url, options=named) as client,
    ):
        # An answer is believed as long as nothing contradicts it.
        assert client.plan_protection(request).status == "ready"
        client.who_am_i()
        with pytest.raises(ReceiptRefused, match="principal_id"):
            client.plan_protection(request)


# The enforcement library.


class ForgingPlatform(RecordingPlatform):
    """Forges the answer to one call of its caller, counted from 0."""

    def __init__(self, forge: Callable[[Any], Any], at: int) -> None:
        super().__init__(Log(SIGNER))
        self.forge, self.at, self.count = forge, at, -1

    def record(self, request: Any, outcome: Any) -> v1.Receipt:
        self.asked = request
        return super().record(request, outcome)

    def sent(self, answer: Any) -> Any:
        self.count += 1
        return self.forge(self.asked) if self.count == self.at else answer


def enforcer(platform: RecordingPlatform, folder: Path, **options: Any) -> Enforcer:
    keys = [LocalKey("local", bytes(32))]
    return Enforcer(
        platform, application="payroll", keys=keys, spool_directory=folder, log_keys=[SIGNER.log_key], **options
    )


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda it: it.__name__)
def test_the_enforcement_library_protects_and_opens_nothing_for_another_answer(
    forge: Callable[[Any], Any], tmp_path: Path
) -> None:
    sealed = io.BytesIO()
    asked: Any = {"labels": ["confidential"], "purpose": "audit"}
    enforcer(RecordingPlatform(Log(SIGNER)), tmp_path / "spool").protect(
        io.BytesIO(b"text"), sealed, resource={"kind": "invoice"}, **asked
    )
    # Plan, key, registration, event; plan, key, and two events of what goes to a stream.
    for operation, number in [("protect", at) for at in range(4)] + [("open", at) for at in range(3)]:
        spool = tmp_path / f"{operation}-{number}"
        subject, released = enforcer(ForgingPlatform(forge, number), spool), tmp_path / "released"
        with pytest.raises(EnforcementError) as caught:
            if operation == "protect":
                subject.protect(io.BytesIO(b"text"), released, resource={"kind": "invoice"}, **asked)
            else:
                subject.open(io.BytesIO(sealed.getvalue()), released, **asked)
        assert caught.value.failure == "unavailable", (operation, number)
        assert not released.exists()


def test_the_enforcement_library_believes_its_program_about_the_caller(tmp_path: Path) -> None:
    intermediary, own = RecordingPlatform(Log(SIGNER), "intermediary"), RecordingPlatform(Log(SIGNER)).caller
    for caller in (None, own):
        subject = enforcer(intermediary, tmp_path / f"spool-{caller is None}", caller=caller)
        if caller is None:
            subject.protect(io.BytesIO(b"text"), io.BytesIO(), resource={"kind": "invoice"})
            continue
        with pytest.raises(EnforcementError, match="principal_id"):
            subject.protect(io.BytesIO(b"text"), io.BytesIO(), resource={"kind": "invoice"})


def test_an_event_of_which_the_log_shows_another_stays_until_it_is_shown(tmp_path: Path) -> None:
    platform = ForgingPlatform(of_another_question, 3)
    subject = enforcer(platform, tmp_path / "spool", evidence_tolerance=3600.0)
    sealed = subject.protect(io.BytesIO(b"text"), tmp_path / "sealed", resource={"kind": "invoice"})
    assert sealed.is_evidence_pending
    [kept] = (tmp_path / "spool").glob("*.json")
    *_, last = kept.read_text().splitlines()
    assert json.loads(last)["event"]["outcome"] == "completed"
    kept.write_text(f"{kept.read_text()}\n{last[:20]}")
    platform.at = platform.count + 1
    assert subject.flush() == (0, 1)
    assert subject.flush() == (1, 0)
    assert list((tmp_path / "spool").glob("*.json")) == []
