"""Whether a record is the one of an answer: what the answer says is what was recorded."""

from __future__ import annotations

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from .. import v1
from ._texts import Json, require

# Call by call: kind of the record, the answer's member that has the receipt, route, and prefix of the words that say
# what was done.
KINDS: dict[type[Message], tuple[str, str, str, str]] = {
    v1.PlanProtectionResponse: ("decision", "decision", "protection-plan", "PROTECTION_OPERATION_"),
    v1.ResolvePolicyResponse: ("decision", "decision", "policy-resolve", "PROTECTION_OPERATION_"),
    v1.PlanKeyAccessResponse: ("decision", "decision", "key-access-plan", "KEY_ACCESS_OPERATION_"),
    v1.RegisterArtifactResponse: ("registration", "registration", "artifact-register", "PROTECTION_OPERATION_"),
    v1.RecordEvidenceResponse: ("evidence", "ingestion", "evidence", "EVIDENCE_EVENT_TYPE_"),
}


def require_answers(answer: Message, record_id: str, record: dict[str, Json] | None) -> None:
    """
    Raises ReceiptRefused where the record is not the answer's. `record` is None of a brief receipt, which names a
    decision and nothing else of it.
    """
    kind, holder, route, prefix = KINDS[type(answer)]
    said: Json = MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    is_decision = kind == "decision"
    if is_decision:
        require(at(said, holder, "decision_id") == record_id, "the receipt is of another decision than the answer")
    if record is None:
        return
    done = at(said, "request_summary", "event_type" if kind == "evidence" else "operation")
    rows: list[tuple[str, Json, Json]] = [
        ("kind", kind, record["kind"]),
        ("route", f"/v1/sdk/{route}", record["route"]),
        ("tenant_id", at(said, "caller", "tenant_id"), record["tenant_id"]),
        ("principal_id", at(said, "caller", "principal_id"), at(record, "caller", "principal_id")),
        (
            "operation",
            str(done).removeprefix(prefix).lower(),
            at(record, "request", "event_type" if kind == "evidence" else "operation"),
        ),
    ]
    for member, path in (
        ("workload_application", ("workload", "application")),
        ("resource_kind", ("resource", "kind")),
        ("resource_id", ("resource", "id")),
    ):
        rows.append((member, at(said, "request_summary", member), at(record, "request", *path)))
    if is_decision:
        members = ["allow", "policy_revision"]
        # A deployment may keep them to itself.
        if at(said, holder, "reasons") != []:
            members.append("reasons")
        rows.append(("obligations", at(said, holder, "obligations"), at(record, "outcome", "obligations") or []))
    else:
        members = ["accepted"]
        # Of an object that came with the call it was derived.
        cid = at(record, "outcome", "artifact_cid") or at(record, "request", "artifact_cid")
        rows.append(("artifact_cid", at(said, "request_summary", "artifact_cid"), cid))
    if kind == "registration":
        digest = at(said, "request_summary", "artifact_digest")
        rows.append(("artifact_digest", digest, at(record, "request", "artifact_digest")))
    rows += [(member, at(said, holder, member), at(record, "outcome", member)) for member in members]
    for member, of_answer, of_record in rows:
        require(of_answer == of_record, f"the receipt is of another {member} than the answer")


def at(value: Json, *path: str) -> Json:
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value
