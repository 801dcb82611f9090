"""A workload's day with the platform: who am I, what is there, may I, how, and what I did."""

import sys
from collections.abc import Mapping
from typing import TypedDict

from settings import open_client

from svc_platform_client import NotPermitted, PlatformClient, PlatformError, ReceiptRefused, v1, verify_receipt

CONTENT_DIGEST = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
ARTIFACT_DIGEST = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"


class Common(TypedDict):
    workload: v1.WorkloadDescriptor
    resource: v1.ResourceDescriptor
    purpose: str
    labels: list[str]
    attributes: dict[str, str]


# What every request of this workload says of itself.
COMMON: Common = {
    "workload": v1.WorkloadDescriptor(
        application="payroll-export", environment="production", component="nightly-writer"
    ),
    "resource": v1.ResourceDescriptor(kind="customer-record", id="cust-8841", mime_type="application/pdf"),
    "purpose": "quarterly-audit",
    "labels": ["confidential"],
    "attributes": {"region": "eu"},
}


def log_use(parameters: Mapping[str, str]) -> bool:
    if set(parameters) != {"audience"}:
        return False
    print("obligation log-use: told", parameters["audience"])
    return True


# What this workload does where a decision demands it, by the ids that the operator hands out; false for parameters that
# it does not know. Where policy demands another one, the answer is a denial.
OBLIGATIONS = {"log-use": log_use}


def discover(client: PlatformClient) -> None:
    caller = client.who_am_i().caller
    print("whoami", caller.principal_id, "of", caller.tenant_id)
    print("capabilities", len(client.capabilities().routes), "routes")
    print("bootstrap", client.bootstrap().enforcement_model)


def decide(client: PlatformClient) -> v1.ProtectionDecision:
    """Asks for the three decisions; returns the one that the artifact is protected under."""
    plan = client.plan_protection(
        v1.PlanProtectionRequest(
            operation=v1.PROTECTION_OPERATION_PROTECT,
            preferred_artifact_profile=v1.ARTIFACT_PROFILE_TDF,
            content_digest=CONTENT_DIGEST,
            content_size_bytes=48213,
            **COMMON,
        )
    ).decision
    print("protection-plan", "allow", str(plan.allow).lower(), plan.decision_id)
    policy = client.resolve_policy(
        v1.ResolvePolicyRequest(operation=v1.PROTECTION_OPERATION_ACCESS, content_digest=CONTENT_DIGEST, **COMMON)
    ).decision
    print("policy-resolve", "allow", str(policy.allow).lower(), policy.decision_id)
    key = client.plan_key_access(
        v1.PlanKeyAccessRequest(
            operation=v1.KEY_ACCESS_OPERATION_WRAP,
            artifact_profile=v1.ARTIFACT_PROFILE_TDF,
            key_reference="kms://tenant-a/keys/42",
            **COMMON,
        )
    ).decision
    print("key-access-plan", "allow", str(key.allow).lower(), key.decision_id)
    client.require_allow(plan)
    # Met before the decision is acted on.
    for obligation in plan.obligations:
        if not OBLIGATIONS[obligation.id](obligation.parameters):
            sys.exit(f"the platform demands {obligation.id}: it cannot be met")
    return plan


def record(client: PlatformClient, decision_id: str) -> None:
    """Tells the platform of the artifact that was made locally, and of what happened."""
    registration = client.register_artifact(
        v1.RegisterArtifactRequest(
            operation=v1.PROTECTION_OPERATION_PROTECT,
            artifact_kind=v1.ARTIFACT_KIND_DATA_OBJECT,
            artifact_profile=v1.ARTIFACT_PROFILE_TDF,
            artifact_digest=ARTIFACT_DIGEST,
            artifact_locator="s3://archive/2026/cust-8841.tdf",
            decision_id=decision_id,
            **COMMON,
        )
    ).registration
    print("artifact-register", "accepted", str(registration.accepted).lower(), registration.receipt.record_id)
    ingestion = client.record_evidence(
        v1.RecordEvidenceRequest(
            event_type=v1.EVIDENCE_EVENT_TYPE_PROTECT,
            artifact_kind=v1.ARTIFACT_KIND_DATA_OBJECT,
            artifact_profile=v1.ARTIFACT_PROFILE_TDF,
            artifact_digest=ARTIFACT_DIGEST,
            decision_id=decision_id,
            outcome="completed",
            occurred_at="2026-03-01T12:00:00Z",
            **COMMON,
        )
    ).ingestion
    print("evidence", "accepted", str(ingestion.accepted).lower(), ingestion.receipt.record_id)


ADVICE = {
    "missing_scope": "ask the issuer for these scopes too: {scopes}",
    "proof_of_possession_failed": "the token is bound to another client certificate than the one presented, "
    "or the service does not trust it",
    "invalid_token": "the service does not take tokens of this issuer, or for this audience",
}


def describe(error: PlatformError) -> str:
    """What is wrong, for a person, with the id to name when asking the operator."""
    lines = [f"{error.code.name}: {error.message}"]
    if error.reason:
        lines.append(f"reason: {error.reason}")
    if error.reason in ADVICE:
        lines.append(ADVICE[error.reason].format(scopes=" ".join(error.missing_scopes)))
    if error.request_id:
        lines.append(f"request id: {error.request_id}")
    lines += [f"{violation.field}: {violation.message}" for violation in error.violations]
    return "\n  ".join(lines)


def main() -> None:
    try:
        with open_client(list(OBLIGATIONS)) as client:
            discover(client)
            plan = decide(client)
            record(client, plan.decision_id)
            log_keys = client.options.log_keys
            if log_keys:
                shown = verify_receipt(plan.receipt, log_keys)
                print("receipt", "leaf", shown.leaf_index, "of", shown.log_origin)
    except PlatformError as error:
        sys.exit(describe(error))
    except NotPermitted as denied:
        sys.exit(f"the platform does not permit the operation: {denied}")
    except ReceiptRefused as refused:
        sys.exit(f"the receipt does not verify: {refused}")


if __name__ == "__main__":
    main()
