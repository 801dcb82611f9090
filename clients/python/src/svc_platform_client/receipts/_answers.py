"""Whether a record is the one of an answer: what the answer says is what was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from .. import v1
from ._texts import Json, require


@dataclass(frozen=True)
class Kind:
    """What the records of one route are, and where answers tell of them."""

    record: str
    holder: str
    """The member of the answer, or of an item of it, that has the receipt."""
    route: str
    operations: str
    """Prefix of the words that say what was done."""


PROTECTION_PLAN = Kind("decision", "decision", "protection-plan", "PROTECTION_OPERATION_")
POLICY_RESOLVE = Kind("decision", "decision", "policy-resolve", "PROTECTION_OPERATION_")
KEY_ACCESS_PLAN = Kind("decision", "decision", "key-access-plan", "KEY_ACCESS_OPERATION_")
ARTIFACT_REGISTER = Kind("registration", "registration", "artifact-register", "PROTECTION_OPERATION_")
EVIDENCE = Kind("evidence", "ingestion", "evidence", "EVIDENCE_EVENT_TYPE_")

KINDS: dict[type[Message], Kind] = {
    v1.PlanProtectionResponse: PROTECTION_PLAN,
    v1.ResolvePolicyResponse: POLICY_RESOLVE,
    v1.PlanKeyAccessResponse: KEY_ACCESS_PLAN,
    v1.RegisterArtifactResponse: ARTIFACT_REGISTER,
    v1.RecordEvidenceResponse: EVIDENCE,
    v1.PlanProtectionRequest: PROTECTION_PLAN,
    v1.ResolvePolicyRequest: POLICY_RESOLVE,
    v1.PlanKeyAccessRequest: KEY_ACCESS_PLAN,
    v1.RegisterArtifactRequest: ARTIFACT_REGISTER,
    v1.RecordEvidenceRequest: EVIDENCE,
}


@dataclass(frozen=True)
class Told:
    """What is told of a call, member by member as in its record; None where nothing tells."""

    kind: Kind
    caller: Json
    operation: Json
    described: dict[str, Json]
    """Workload, resource, artifact."""
    outcome: Json


def require_answers(answer: Message, record_id: str, record: dict[str, Json] | None) -> None:
    """
    Raises ReceiptRefused where the record is not the answer's. `record` is None of a brief receipt, which names a
    decision and nothing else of it.
    """
    kind, said = KINDS[type(answer)], as_json(answer)
    summary = at(said, "request_summary")
    described = {member: at(summary, member) for member in ("workload_application", "resource_kind", "resource_id")}
    if kind.record != "decision":
        described["artifact_cid"] = at(summary, "artifact_cid")
    if kind is ARTIFACT_REGISTER:
        described["artifact_digest"] = at(summary, "artifact_digest")
    operation = at(summary, "event_type" if kind is EVIDENCE else "operation")
    told = Told(kind, at(said, "caller"), operation, described, at(said, kind.holder))
    require_recorded(told, record_id, record)


def require_item(
    request: Message, item: Message, caller: v1.Caller | None, record_id: str, record: dict[str, Json] | None
) -> None:
    """
    The same of an item of a bulk call or stream, which says nothing of its request: the request itself does. Digests
    and CIDs are not compared, which the service may spell in another way than it was asked.
    """
    kind, asked = KINDS[type(request)], as_json(request)
    described = {
        "workload_application": at(asked, "workload", "application"),
        "resource_kind": at(asked, "resource", "kind"),
        "resource_id": at(asked, "resource", "id") or None,
    }
    operation = at(asked, "event_type" if kind is EVIDENCE else "operation")
    who = None if caller is None else as_json(caller)
    told = Told(kind, who, operation, described, at(as_json(item), kind.holder))
    require_recorded(told, record_id, record)


def require_recorded(told: Told, record_id: str, record: dict[str, Json] | None) -> None:
    kind = told.kind
    is_decision = kind.record == "decision"
    if is_decision:
        decision_id = at(told.outcome, "decision_id")
        require(decision_id == record_id, "the receipt is of another decision than the answer")
    if record is None:
        return
    done = at(record, "request", "event_type" if kind is EVIDENCE else "operation")
    rows: list[tuple[str, Json, Json]] = [
        ("kind", kind.record, record["kind"]),
        ("route", f"/v1/sdk/{kind.route}", record["route"]),
        ("operation", str(told.operation).removeprefix(kind.operations).lower(), done),
    ]
    if told.caller is not None:
        rows += [
            ("tenant_id", at(told.caller, "tenant_id"), record["tenant_id"]),
            ("principal_id", at(told.caller, "principal_id"), at(record, "caller", "principal_id")),
        ]
    recorded = {
        "workload_application": at(record, "request", "workload", "application"),
        "resource_kind": at(record, "request", "resource", "kind"),
        "resource_id": at(record, "request", "resource", "id"),
        # Of an object that came with the call it was derived.
        "artifact_cid": at(record, "outcome", "artifact_cid") or at(record, "request", "artifact_cid"),
        "artifact_digest": at(record, "request", "artifact_digest"),
    }
    rows += [(member, value, recorded[member]) for member, value in told.described.items()]
    if is_decision:
        members = ["allow", "policy_revision"]
        # A deployment may keep them to itself.
        if at(told.outcome, "reasons") != []:
            members.append("reasons")
        rows.append(("obligations", at(told.outcome, "obligations"), at(record, "outcome", "obligations") or []))
    else:
        members = ["accepted"]
    rows += [(member, at(told.outcome, member), at(record, "outcome", member)) for member in members]
    for member, of_answer, of_record in rows:
        require(of_answer == of_record, f"the receipt is of another {member} than the answer")


def as_json(message: Message) -> Json:
    said: Json = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return said


def at(value: Json, *path: str) -> Json:
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value
