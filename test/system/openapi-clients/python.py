"""Makes all eight calls with the client that OpenAPI Generator makes for Python. Prints one JSON object."""

import json
import os

from openapi_client import ApiClient, Configuration
from openapi_client.api import DiscoveryApi, EvidenceApi, ProtectionApi, RegistrationApi
from openapi_client.models import (
    ArtifactProfile,
    EvidenceEventType,
    KeyAccessOperation,
    OptionalArtifactProfile,
    PlanKeyAccessRequest,
    PlanProtectionRequest,
    ProtectionOperation,
    RecordEvidenceRequest,
    RegisterArtifactRequest,
    ResolvePolicyRequest,
    ResourceDescriptor,
    WorkloadDescriptor,
)

workload = WorkloadDescriptor(application="payroll-export")
resource = ResourceDescriptor(kind="customer-record", id="cust-8841")
digest = "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0"

with ApiClient(Configuration(host=os.environ["SVC_URL"], access_token=os.environ["SVC_TOKEN"])) as client:
    discovery = DiscoveryApi(client)
    protection = ProtectionApi(client)
    capabilities = discovery.get_capabilities()
    whoami = discovery.who_am_i()
    bootstrap = discovery.get_bootstrap()
    plan = protection.plan_protection(
        PlanProtectionRequest(
            operation=ProtectionOperation.PROTECT,
            workload=workload,
            resource=resource,
            preferred_artifact_profile=OptionalArtifactProfile.ENVELOPE,
            content_digest=digest,
        )
    )
    policy = protection.resolve_policy(
        ResolvePolicyRequest(operation=ProtectionOperation.PROTECT, workload=workload, resource=resource)
    )
    key = protection.plan_key_access(
        PlanKeyAccessRequest(operation=KeyAccessOperation.WRAP, workload=workload, resource=resource)
    )
    registration = RegistrationApi(client).register_artifact(
        RegisterArtifactRequest(
            operation=ProtectionOperation.PROTECT,
            workload=workload,
            resource=resource,
            artifact_profile=ArtifactProfile.ENVELOPE,
            artifact_digest=digest,
            decision_id=str(plan.decision.decision_id),
        )
    )
    evidence = EvidenceApi(client).record_evidence(
        RecordEvidenceRequest(
            event_type=EvidenceEventType.PROTECT,
            workload=workload,
            resource=resource,
            artifact_digest=digest,
            decision_id=str(plan.decision.decision_id),
            occurred_at="2026-03-01T12:00:00Z",
        )
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
