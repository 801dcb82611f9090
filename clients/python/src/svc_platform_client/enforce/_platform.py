"""What enforcement asks of the client, and the spelling of the JSON routes for what is kept on disk."""

from __future__ import annotations

from typing import Any, Protocol

from .. import bulk_v1, v1

Json = dict[str, Any]

EVENTS = {
    "protect": v1.EVIDENCE_EVENT_TYPE_PROTECT,
    "access": v1.EVIDENCE_EVENT_TYPE_ACCESS,
    "rewrap": v1.EVIDENCE_EVENT_TYPE_REWRAP,
    "deny": v1.EVIDENCE_EVENT_TYPE_DENY,
}
OPERATIONS = {
    "protect": v1.PROTECTION_OPERATION_PROTECT,
    "access": v1.PROTECTION_OPERATION_ACCESS,
    "rewrap": v1.PROTECTION_OPERATION_REWRAP,
}
KEY_OPERATIONS = {
    "wrap": v1.KEY_ACCESS_OPERATION_WRAP,
    "unwrap": v1.KEY_ACCESS_OPERATION_UNWRAP,
    "rewrap": v1.KEY_ACCESS_OPERATION_REWRAP,
}
PROFILES = {
    "envelope": v1.ARTIFACT_PROFILE_ENVELOPE,
    "detached_signature": v1.ARTIFACT_PROFILE_DETACHED_SIGNATURE,
    "tdf": v1.ARTIFACT_PROFILE_TDF,
}
ARTIFACT_KINDS = {"data_object": v1.ARTIFACT_KIND_DATA_OBJECT, "tdf_manifest": v1.ARTIFACT_KIND_TDF_MANIFEST}


Planned = v1.PlanProtectionResponse | bulk_v1.ProtectionPlanItem
KeyPlanned = v1.PlanKeyAccessResponse | bulk_v1.KeyAccessPlanItem
Registered = v1.RegisterArtifactResponse | bulk_v1.RegistrationResult
Recorded = v1.RecordEvidenceResponse | bulk_v1.EventResult


class Platform(Protocol):
    """
    The calls of a `PlatformClient` that enforcement makes. Each raises where there is no answer. An item of a bulk call
    has the same members as the answer of its single call, as far as they are read.
    """

    def capabilities(self) -> v1.GetCapabilitiesResponse: ...

    def bootstrap(self) -> v1.GetBootstrapResponse: ...

    def plan_protection(self, request: v1.PlanProtectionRequest, /) -> Planned: ...

    def plan_key_access(self, request: v1.PlanKeyAccessRequest, /) -> KeyPlanned: ...

    def register_artifact(self, request: v1.RegisterArtifactRequest, /, *, idempotency_key: str) -> Registered: ...

    def record_evidence(self, request: v1.RecordEvidenceRequest, /, *, idempotency_key: str) -> Recorded: ...


def evidence_request(event: Json) -> v1.RecordEvidenceRequest:
    """The message of an event as it is kept."""
    request = v1.RecordEvidenceRequest(
        event_type=EVENTS[event["event_type"]],
        workload=v1.WorkloadDescriptor(**event["workload"]),
        resource=v1.ResourceDescriptor(**event["resource"]),
        labels=event["labels"],
        attributes=event["attributes"],
        outcome=event["outcome"],
        occurred_at=event["occurred_at"],
    )
    for name in ("purpose", "artifact_digest", "artifact_cid", "decision_id"):
        if name in event:
            setattr(request, name, event[name])
    if "artifact_kind" in event:
        request.artifact_kind = ARTIFACT_KINDS[event["artifact_kind"]]
    if "artifact_profile" in event:
        request.artifact_profile = PROFILES[event["artifact_profile"]]
    return request


def receipt_json(receipt: v1.Receipt) -> Json:
    """The spelling of the JSON routes, which offline verifiers read."""
    names = ("record_id", "log_origin", "leaf_index", "tree_size", "leaf_hash", "proof")
    found: Json = {name: getattr(receipt, name) for name in names}
    return found | {name: getattr(receipt, name) for name in ("leaf", "opening", "record") if receipt.HasField(name)}
