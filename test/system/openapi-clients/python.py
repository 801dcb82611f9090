"""Makes all eight calls with the client that OpenAPI Generator makes for Python. Prints one JSON object."""

import json
import os

from openapi_client import ApiClient, Configuration
from openapi_client.api import DiscoveryApi, EvidenceApi, ProtectionApi, RegistrationApi
from openapi_client.models import (
    PlanKeyAccessRequest,
    PlanProtectionRequest,
    RecordEvidenceRequest,
    RegisterArtifactRequest,
    ResolvePolicyRequest,
)

samples = json.loads(os.environ["SAMPLES"])
configuration = Configuration(host=os.environ["PLATFORM_URL"], access_token=os.environ["PLATFORM_TOKEN"])
with ApiClient(configuration) as client:
    discovery = DiscoveryApi(client)
    protection = ProtectionApi(client)
    capabilities = discovery.get_capabilities()
    whoami = discovery.who_am_i()
    bootstrap = discovery.get_bootstrap()
    plan = protection.plan_protection(PlanProtectionRequest.from_dict(samples["plan"]))
    policy = protection.resolve_policy(ResolvePolicyRequest.from_dict(samples["policy"]))
    key = protection.plan_key_access(PlanKeyAccessRequest.from_dict(samples["key"]))
    artifact = RegisterArtifactRequest.from_dict(samples["artifact"])
    artifact.decision_id = str(plan.decision.decision_id)
    registration = RegistrationApi(client).register_artifact(artifact)
    event = RecordEvidenceRequest.from_dict(samples["event"])
    event.decision_id = str(plan.decision.decision_id)
    evidence = EvidenceApi(client).record_evidence(event)

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
