"""Makes all eight calls with the client that was generated from the OpenAPI document. Prints one JSON object."""

import json
import os

from generated import AuthenticatedClient
from generated.api.discovery import get_bootstrap, get_capabilities, who_am_i
from generated.api.evidence import record_evidence
from generated.api.protection import plan_key_access, plan_protection, resolve_policy
from generated.api.registration import register_artifact
from generated.models import (
    ArtifactProfile,
    EvidenceEventType,
    KeyAccessOperation,
    PlanKeyAccessRequest,
    PlanProtectionRequest,
    ProtectionOperation,
    RecordEvidenceRequest,
    RegisterArtifactRequest,
    ResolvePolicyRequest,
    ResourceDescriptor,
    WorkloadDescriptor,
)

client = AuthenticatedClient(
    base_url=os.environ["SVC_URL"], token=os.environ["SVC_TOKEN"], raise_on_unexpected_status=True
)
workload = WorkloadDescriptor(application="payroll-export")
resource = ResourceDescriptor(kind="customer-record", id="cust-8841")
digest = "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0"


def call(operation, **arguments):
    """The parsed answer of a call that must succeed."""
    answer = operation.sync_detailed(client=client, **arguments)
    assert answer.status_code == 200, (answer.status_code, answer.content)
    return answer.parsed


capabilities = call(get_capabilities)
whoami = call(who_am_i)
bootstrap = call(get_bootstrap)
plan = call(
    plan_protection,
    body=PlanProtectionRequest(operation=ProtectionOperation.PROTECT, workload=workload, resource=resource),
)
policy = call(
    resolve_policy,
    body=ResolvePolicyRequest(operation=ProtectionOperation.PROTECT, workload=workload, resource=resource),
)
key = call(
    plan_key_access,
    body=PlanKeyAccessRequest(operation=KeyAccessOperation.WRAP, workload=workload, resource=resource),
)
registration = call(
    register_artifact,
    body=RegisterArtifactRequest(
        operation=ProtectionOperation.PROTECT,
        workload=workload,
        resource=resource,
        artifact_profile=ArtifactProfile.ENVELOPE,
        artifact_digest=digest,
        decision_id=str(plan.decision.decision_id),
    ),
)
evidence = call(
    record_evidence,
    body=RecordEvidenceRequest(
        event_type=EvidenceEventType.PROTECT,
        workload=workload,
        resource=resource,
        artifact_digest=digest,
        decision_id=str(plan.decision.decision_id),
    ),
)
print(
    json.dumps(
        {
            "routes": len(capabilities.routes),
            "tenant": whoami.caller.tenant_id,
            "plaintext_to_platform": bootstrap.plaintext_to_platform,
            "allow": [plan.decision.allow, policy.decision.allow, key.decision.allow],
            "registered": registration.registration.accepted,
            "ingested": evidence.ingestion.accepted,
        }
    )
)
