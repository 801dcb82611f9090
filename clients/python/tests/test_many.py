"""Many small objects through bulk calls: which answers count for which item."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from logs import Signer
from recorded import Log, RecordingPlatform

from svc_platform_client import PlatformError, bulk_v1, v1
from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey, Outcome, verify_artifact

SIGNER, OTHER = Signer(bytes(32)), Signer(b"other tenant".ljust(32))
ANSWERED = bulk_v1.ITEM_OUTCOME_ANSWERED
Items = list[Any]
METHODS = ("plan_protections", "plan_key_accesses", "register_artifacts", "record_events")


class BulkService:
    """The bulk calls of a recording platform. `change` is what becomes of the items of an answer on their way."""

    def __init__(self, platform: RecordingPlatform) -> None:
        self.platform = platform
        self.changes: dict[str, Callable[[Items, Sequence[Any]], Items]] = {}
        self.calls = 0
        self._guard = threading.Lock()

    def _answers(self, method: str, asked: Sequence[Any], answer: Callable[[int], Any]) -> Items:
        # Calls of different kinds are made at once, and the log is of one thread.
        with self._guard:
            self.calls += 1
            answers = [answer(number) for number in range(len(asked))]
            return self.changes[method](answers, asked) if method in self.changes else answers

    def plan_protections(self, request: bulk_v1.PlanProtectionsRequest, /) -> bulk_v1.PlanProtectionsResponse:
        items = self._answers("plan_protections", request.items, lambda at: self.planned(request.items[at]))
        return bulk_v1.PlanProtectionsResponse(items=items)

    def plan_key_accesses(self, request: bulk_v1.PlanKeyAccessesRequest, /) -> bulk_v1.PlanKeyAccessesResponse:
        items = self._answers("plan_key_accesses", request.items, lambda at: self.planned(request.items[at]))
        return bulk_v1.PlanKeyAccessesResponse(items=items)

    def register_artifacts(self, request: bulk_v1.RegisterArtifactsRequest, /) -> bulk_v1.RegisterArtifactsResponse:
        keys, asked = [it.idempotency_key for it in request.items], [it.registration for it in request.items]
        items = self._answers("register_artifacts", asked, lambda at: self.recorded(asked[at], keys[at]))
        return bulk_v1.RegisterArtifactsResponse(items=items)

    def record_events(self, request: bulk_v1.RecordEventsRequest, /) -> bulk_v1.RecordEventsResponse:
        keys, asked = [it.idempotency_key for it in request.items], [it.event for it in request.items]
        items = self._answers("record_events", asked, lambda at: self.recorded(asked[at], keys[at]))
        return bulk_v1.RecordEventsResponse(items=items)

    def planned(self, question: Any) -> Any:
        if isinstance(question, v1.PlanProtectionRequest):
            plan = self.platform.plan_protection(question)
            return bulk_v1.ProtectionPlanItem(outcome=ANSWERED, decision=plan.decision, execution=plan.execution)
        access = self.platform.plan_key_access(question)
        return bulk_v1.KeyAccessPlanItem(outcome=ANSWERED, decision=access.decision, execution=access.execution)

    def recorded(self, request: Any, key: str) -> Any:
        if isinstance(request, v1.RecordEvidenceRequest):
            ingestion = self.platform.record_evidence(request, idempotency_key=key).ingestion
            return bulk_v1.EventResult(outcome=ANSWERED, idempotency_key=key, ingestion=ingestion)
        registration = self.platform.register_artifact(request, idempotency_key=key).registration
        return bulk_v1.RegistrationResult(outcome=ANSWERED, idempotency_key=key, registration=registration)

    def answer_to(self, request: Any, item: Any) -> Any:
        """The answer to another request in the item's place."""
        return (
            self.recorded(request, item.idempotency_key) if hasattr(item, "idempotency_key") else self.planned(request)
        )


@pytest.fixture
def service() -> BulkService:
    return BulkService(RecordingPlatform(Log(SIGNER)))


def enforcer(service: BulkService, folder: Path, **options: Any) -> Enforcer:
    own: dict[str, Any] = {"bulk": service, "log_keys": [SIGNER.log_key], "caller": service.platform.caller} | options
    key = LocalKey("local", bytes(32))
    return Enforcer(service.platform, application="test", keys=[key], spool_directory=folder / "spool", **own)


def items(folder: Path, count: int) -> list[dict[str, Any]]:
    resources = [{"kind": "record", "id": f"cust-{number}"} for number in range(count)]
    return [
        {"source": io.BytesIO(b"data"), "target": folder / f"sealed-{number}", "resource": resource}
        for number, resource in enumerate(resources)
    ]


def failures(results: Sequence[Outcome | EnforcementError]) -> list[str | None]:
    return [result.failure if isinstance(result, EnforcementError) else None for result in results]


def test_objects_are_protected_and_opened_each_with_its_own_records(service: BulkService, tmp_path: Path) -> None:
    subject = enforcer(service, tmp_path)
    sealed = subject.protect_many(items(tmp_path, 20))
    targets = [io.BytesIO() for _ in range(20)]
    opened = subject.open_many(
        {"source": tmp_path / f"sealed-{number}", "target": target} for number, target in enumerate(targets)
    )
    assert failures(sealed) == failures(opened) == [None] * 20
    assert service.calls < 20 * 8
    for number, outcome in enumerate(sealed):
        assert isinstance(outcome, Outcome)
        found = verify_artifact(tmp_path / f"sealed-{number}", log_keys=[SIGNER.log_key])
        assert (found.decision_id, found.resource["id"]) == (outcome.decision_id, f"cust-{number}")
        assert targets[number].getvalue() == b"data"
    assert list((tmp_path / "spool").glob("*.json")) == []


def test_an_item_that_fails_does_so_alone(service: BulkService, tmp_path: Path) -> None:
    def refuse(answers: Items, asked: Sequence[Any]) -> Items:
        error = bulk_v1.ItemError(code="invalid_argument", reason="invalid_request", message="no")
        refused = bulk_v1.ProtectionPlanItem(outcome=bulk_v1.ITEM_OUTCOME_REFUSED, error=error)
        return [refused if it.resource.id == "cust-2" else item for item, it in zip(answers, asked, strict=True)]

    service.changes["plan_protections"] = refuse
    (tmp_path / "sealed-1").write_text("here before")
    given = items(tmp_path, 5)
    given[3]["source"] = tmp_path / "missing"
    given[4]["unknown"] = True
    results = enforcer(service, tmp_path).protect_many(given)
    assert failures(results) == [None, "exists", "unavailable", "invalid", "invalid"]
    refused = results[2]
    assert isinstance(refused, EnforcementError) and isinstance(refused.__cause__, PlatformError)
    assert (refused.is_retryable, refused.http_status) == (False, 503)
    assert refused.__cause__.code == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("method", METHODS)
def test_items_whose_call_the_service_finds_too_large_are_sent_in_smaller_ones(
    method: str, service: BulkService, tmp_path: Path
) -> None:
    def refuse(answers: Items, asked: Sequence[Any]) -> Items:
        if len(asked) > 3:
            raise PlatformError(grpc.StatusCode.RESOURCE_EXHAUSTED, "no", reason="body_too_large")
        return answers

    service.changes[method] = refuse
    assert failures(enforcer(service, tmp_path).protect_many(items(tmp_path, 20))) == [None] * 20


def test_bulk_calls_need_log_keys(service: BulkService, tmp_path: Path) -> None:
    with pytest.raises(EnforcementError):
        enforcer(service, tmp_path, log_keys=None)


def changed(request: Any, **members: Any) -> Any:
    other = type(request)()
    other.CopyFrom(request)
    for name, value in members.items():
        if name == "resource":
            other.resource.id = value
        else:
            setattr(other, name, value)
    return other


Change = Callable[[BulkService, Any, Any], Any]


def without_receipt(_: BulkService, item: Any, __: Any) -> Any:
    for name in ("decision", "registration", "ingestion"):
        if name in item.DESCRIPTOR.fields_by_name:
            getattr(item, name).ClearField("receipt")
    return item


def of_tenant(service: BulkService, item: Any, request: Any) -> Any:
    return BulkService(RecordingPlatform(Log(OTHER), tenant="tenant-b")).answer_to(request, item)


def of_other_caller(service: BulkService, item: Any, request: Any) -> Any:
    return BulkService(RecordingPlatform(service.platform.log, "reports")).answer_to(request, item)


CHANGES: dict[str, Change] = {
    "another item's": lambda service, item, it: service.answer_to(changed(it, resource="cust-1"), item),
    "for another digest": lambda service, item, it: service.answer_to(
        changed(it, artifact_digest=f"sha256:{'0' * 64}"), item
    ),
    "not evaluated": lambda _, item, __: type(item)(outcome=bulk_v1.ITEM_OUTCOME_NOT_EVALUATED),
    "empty": lambda _, item, __: type(item)(outcome=ANSWERED),
    "without receipt": without_receipt,
    "another tenant's": of_tenant,
    "another caller's": of_other_caller,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CHANGES)
def test_an_item_is_refused_alone_if_its_answer_is(
    name: str, method: str, service: BulkService, tmp_path: Path
) -> None:
    def change(answers: Items, asked: Sequence[Any]) -> Items:
        return [
            CHANGES[name](service, item, it) if it.resource.id == "cust-0" else item
            for item, it in zip(answers, asked, strict=True)
        ]

    service.changes[method] = change
    results = enforcer(service, tmp_path).protect_many(items(tmp_path, 3))
    assert failures(results) == ["unavailable", None, None]
    assert not (tmp_path / "sealed-0").exists()


@pytest.mark.parametrize("method", METHODS)
def test_two_answers_that_are_swapped_are_both_refused(method: str, service: BulkService, tmp_path: Path) -> None:
    others = {"cust-0": "cust-1", "cust-1": "cust-0"}

    def change(answers: Items, asked: Sequence[Any]) -> Items:
        return [
            service.answer_to(changed(it, resource=others[it.resource.id]), item) if it.resource.id in others else item
            for item, it in zip(answers, asked, strict=True)
        ]

    service.changes[method] = change
    results = enforcer(service, tmp_path).protect_many(items(tmp_path, 3))
    assert failures(results) == ["unavailable", "unavailable", None]


@pytest.mark.parametrize("method", METHODS)
def test_an_item_without_an_answer_and_a_surplus_of_answers_are_refused(
    method: str, service: BulkService, tmp_path: Path
) -> None:
    def cut(answers: Items, asked: Sequence[Any]) -> Items:
        found = [it.resource.id for it in asked]
        return answers[: found.index("cust-1")] if "cust-1" in found else answers

    service.changes[method] = cut
    assert failures(enforcer(service, tmp_path).protect_many(items(tmp_path, 3)))[1] == "unavailable"
    service.changes[method] = lambda answers, _: [*answers, answers[0]]
    given = [item | {"replace": True} for item in items(tmp_path, 2)]
    assert failures(enforcer(service, tmp_path / "2").protect_many(given)) == ["unavailable"] * 2


@pytest.mark.parametrize("method", METHODS[:2])
def test_one_decision_is_not_used_for_two_items_that_ask_the_same(
    method: str, service: BulkService, tmp_path: Path
) -> None:
    first: Items = []

    def change(answers: Items, asked: Sequence[Any]) -> Items:
        first.extend(item for item, it in zip(answers, asked, strict=True) if it.resource.id == "cust-0")
        return [first[0] if it.resource.id == "cust-0" else item for item, it in zip(answers, asked, strict=True)]

    service.changes[method] = change
    given = items(tmp_path, 3)
    given[1]["resource"] = given[0]["resource"]
    found = failures(enforcer(service, tmp_path).protect_many(given))
    assert "unavailable" in found[:2] and found[2] is None


@pytest.mark.parametrize("method", METHODS[2:])
def test_an_answer_under_another_key_is_refused(method: str, service: BulkService, tmp_path: Path) -> None:
    def change(answers: Items, asked: Sequence[Any]) -> Items:
        for item, it in zip(answers, asked, strict=True):
            if it.resource.id == "cust-0":
                item.idempotency_key = "another"
        return answers

    service.changes[method] = change
    assert failures(enforcer(service, tmp_path).protect_many(items(tmp_path, 2))) == ["unavailable", None]
