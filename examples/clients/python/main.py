"""A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did."""

import sys
from collections.abc import Mapping
from pathlib import Path

import grpc
import requests

sys.path.insert(0, str(Path(__file__).parent / "gen"))

from platform_sdk.v1 import common_pb2 as common  # noqa: E402
from platform_sdk.v1 import discovery_pb2, discovery_pb2_grpc  # noqa: E402
from platform_sdk.v1 import evidence_pb2, evidence_pb2_grpc  # noqa: E402
from platform_sdk.v1 import protection_pb2, protection_pb2_grpc  # noqa: E402
from platform_sdk.v1 import registration_pb2, registration_pb2_grpc  # noqa: E402

from calls import call, describe  # noqa: E402
from settings import Settings, read_settings  # noqa: E402
from tokens import Tokens  # noqa: E402

CONTENT_DIGEST = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
ARTIFACT_DIGEST = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

# What every request of this workload says of itself.
COMMON = {
    "workload": common.WorkloadDescriptor(
        application="payroll-export", environment="production", component="nightly-writer"
    ),
    "resource": common.ResourceDescriptor(kind="customer-record", id="cust-8841", mime_type="application/pdf"),
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
# it does not know. Requests list all of them: where policy demands another one, the answer is a denial.
OBLIGATIONS = {"log-use": log_use}


def open_channel(settings: Settings) -> grpc.Channel:
    tls = grpc.ssl_channel_credentials(
        root_certificates=Path(settings.ca).read_bytes(),
        private_key=Path(settings.key).read_bytes(),
        certificate_chain=Path(settings.cert).read_bytes(),
    )
    tokens = grpc.metadata_call_credentials(Tokens(settings))
    return grpc.secure_channel(settings.target, grpc.composite_channel_credentials(tls, tokens))


def discover(channel: grpc.Channel) -> None:
    discovery = discovery_pb2_grpc.DiscoveryServiceStub(channel)
    caller = call(discovery.WhoAmI, discovery_pb2.WhoAmIRequest()).caller
    print("whoami", caller.principal_id, "of", caller.tenant_id)
    capabilities = call(discovery.GetCapabilities, discovery_pb2.GetCapabilitiesRequest())
    print("capabilities", len(capabilities.routes), "routes")
    bootstrap = call(discovery.GetBootstrap, discovery_pb2.GetBootstrapRequest())
    print("bootstrap", bootstrap.enforcement_model)


def decide(channel: grpc.Channel) -> str:
    """Asks for the three decisions; returns the id of the one that the artifact is protected under."""
    protection = protection_pb2_grpc.ProtectionServiceStub(channel)
    plan = call(
        protection.PlanProtection,
        protection_pb2.PlanProtectionRequest(
            operation=common.PROTECTION_OPERATION_PROTECT,
            preferred_artifact_profile=common.ARTIFACT_PROFILE_TDF,
            content_digest=CONTENT_DIGEST,
            content_size_bytes=48213,
            understood_obligations=list(OBLIGATIONS),
            **COMMON,
        ),
    ).decision
    print("protection-plan", "allow", str(plan.allow).lower(), plan.decision_id)
    policy = call(
        protection.ResolvePolicy,
        protection_pb2.ResolvePolicyRequest(
            operation=common.PROTECTION_OPERATION_ACCESS,
            content_digest=CONTENT_DIGEST,
            understood_obligations=list(OBLIGATIONS),
            **COMMON,
        ),
    ).decision
    print("policy-resolve", "allow", str(policy.allow).lower(), policy.decision_id)
    key = call(
        protection.PlanKeyAccess,
        protection_pb2.PlanKeyAccessRequest(
            operation=common.KEY_ACCESS_OPERATION_WRAP,
            artifact_profile=common.ARTIFACT_PROFILE_TDF,
            key_reference="kms://tenant-a/keys/42",
            understood_obligations=list(OBLIGATIONS),
            **COMMON,
        ),
    ).decision
    print("key-access-plan", "allow", str(key.allow).lower(), key.decision_id)
    if not plan.allow:
        sys.exit(f"the platform denied the operation: {', '.join(plan.reasons)}")
    # Met before the decision is acted on.
    for obligation in plan.obligations:
        meet = OBLIGATIONS.get(obligation.id)
        if meet is None or not meet(obligation.parameters):
            sys.exit(f"the platform demands {obligation.id}: it cannot be met")
    return plan.decision_id


def record(channel: grpc.Channel, decision_id: str) -> None:
    """Tells the platform of the artifact that was made locally, and of what happened."""
    artifact = {
        "artifact_kind": common.ARTIFACT_KIND_DATA_OBJECT,
        "artifact_profile": common.ARTIFACT_PROFILE_TDF,
        "artifact_digest": ARTIFACT_DIGEST,
        "decision_id": decision_id,
    }
    registration = call(
        registration_pb2_grpc.RegistrationServiceStub(channel).RegisterArtifact,
        registration_pb2.RegisterArtifactRequest(
            operation=common.PROTECTION_OPERATION_PROTECT,
            artifact_locator="s3://archive/2026/cust-8841.tdf",
            **artifact,
            **COMMON,
        ),
        once=True,
    ).registration
    print("artifact-register", "accepted", str(registration.accepted).lower(), registration.receipt.record_id)
    ingestion = call(
        evidence_pb2_grpc.EvidenceServiceStub(channel).RecordEvidence,
        evidence_pb2.RecordEvidenceRequest(
            event_type=common.EVIDENCE_EVENT_TYPE_PROTECT,
            outcome="completed",
            occurred_at="2026-03-01T12:00:00Z",
            **artifact,
            **COMMON,
        ),
        once=True,
    ).ingestion
    print("evidence", "accepted", str(ingestion.accepted).lower(), ingestion.receipt.record_id)


def main() -> None:
    try:
        with open_channel(read_settings()) as channel:
            discover(channel)
            record(channel, decide(channel))
    except grpc.RpcError as error:
        sys.exit(describe(error))
    except PermissionError as error:
        sys.exit(str(error))
    except requests.RequestException as error:
        sys.exit(f"the issuer cannot be reached: {error}")


if __name__ == "__main__":
    main()
