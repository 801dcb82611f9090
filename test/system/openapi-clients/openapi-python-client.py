"""Makes all eight calls with the client that was generated from the OpenAPI document. Prints one JSON object."""

import json
import os

from generated import AuthenticatedClient
from generated.api.discovery import get_bootstrap, get_capabilities, who_am_i
from generated.api.evidence import record_evidence
from generated.api.protection import plan_key_access, plan_protection, resolve_policy
from generated.api.registration import register_artifact
from generated.models import (
    PlanKeyAccessRequest,
    PlanProtectionRequest,
    RecordEvidenceRequest,
    RegisterArtifactRequest,
    ResolvePolicyRequest,
)

samples = json.loads(os.environ["SAMPLES"])
client = AuthenticatedClient(
    base_url=os.environ["PLATFORM_URL"], token=os.environ["PLATFORM_TOKEN"], raise_on_unexpected_status=True
)


def call(operation, **arguments):
    """The parsed answer of a call that must succeed."""
    answer = operation.sync_detailed(client=client, **arguments)
    assert answer.status_code == 200, (answer.status_code, answer.content)
    return answer.parsed


capabilities = call(get_capabilities)
whoami = call(who_am_i)
bootstrap = call(get_bootstrap)
plan = call(plan_protection, body=PlanProtectionRequest.from_dict(samples["plan"]))
policy = call(resolve_policy, body=ResolvePolicyRequest.from_dict(samples["policy"]))
key = call(plan_key_access, body=PlanKeyAccessRequest.from_dict(samples["key"]))
artifact = RegisterArtifactRequest.from_dict(samples["artifact"])
artifact.decision_id = str(plan.decision.decision_id)
registration = call(register_artifact, body=artifact)
event = RecordEvidenceRequest.from_dict(samples["event"])
event.decision_id = str(plan.decision.decision_id)
evidence = call(record_evidence, body=event)
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
