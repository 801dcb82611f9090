"""A platform in memory that allows everything; as a program, one operation for other languages' tests."""

from __future__ import annotations

import json
import sys
import uuid

from svc_platform_client import v1
from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey


class PermissivePlatform:
    """The calls that enforcement makes; what tests change is an attribute."""

    def __init__(self) -> None:
        self.events: dict[str, v1.RecordEvidenceRequest] = {}
        self.registrations: list[v1.RegisterArtifactRequest] = []
        self.allow = True
        self.is_offline = False
        self.obligations: list[v1.Obligation] = []

    def capabilities(self) -> v1.GetCapabilitiesResponse:
        return v1.GetCapabilitiesResponse()

    def bootstrap(self) -> v1.GetBootstrapResponse:
        return v1.GetBootstrapResponse(
            supported_operations=[
                v1.PROTECTION_OPERATION_PROTECT,
                v1.PROTECTION_OPERATION_ACCESS,
                v1.PROTECTION_OPERATION_REWRAP,
            ],
            supported_artifact_profiles=[v1.ARTIFACT_PROFILE_ENVELOPE],
        )

    def plan_protection(self, request: v1.PlanProtectionRequest, /) -> v1.PlanProtectionResponse:
        decision = v1.ProtectionDecision(
            allow=self.allow,
            decision_id=str(uuid.uuid4()),
            policy_revision="revision",
            handling_mode="local_embedded_enforcement",
            obligations=self.obligations,
        )
        execution = v1.ProtectionExecution(
            protect_locally=True,
            local_enforcement_library="sdk_embedded_library",
            artifact_profile=request.preferred_artifact_profile,
        )
        return v1.PlanProtectionResponse(decision=decision, execution=execution)

    def plan_key_access(self, request: v1.PlanKeyAccessRequest, /) -> v1.PlanKeyAccessResponse:
        decision = v1.KeyAccessDecision(allow=True, decision_id=str(uuid.uuid4()), policy_revision="revision")
        execution = v1.KeyAccessExecution(local_cryptographic_operation=True, artifact_profile=request.artifact_profile)
        return v1.PlanKeyAccessResponse(decision=decision, execution=execution)

    def register_artifact(
        self, request: v1.RegisterArtifactRequest, /, *, idempotency_key: str
    ) -> v1.RegisterArtifactResponse:
        self.registrations.append(request)
        return v1.RegisterArtifactResponse(registration=v1.Registration(accepted=True))

    def record_evidence(
        self, request: v1.RecordEvidenceRequest, /, *, idempotency_key: str
    ) -> v1.RecordEvidenceResponse:
        if self.is_offline:
            raise ConnectionError("offline")
        self.events[idempotency_key] = request
        return v1.RecordEvidenceResponse(ingestion=v1.Ingestion(accepted=True))


def main() -> None:
    """Reads one request: operation, source, target, spool, keys (hex by reference), new_key_reference?, aead?"""
    request = json.load(sys.stdin)
    enforcer = Enforcer(
        PermissivePlatform(),
        application="test",
        keys=[LocalKey(reference, bytes.fromhex(key)) for reference, key in request["keys"].items()],
        spool_directory=request["spool"],
    )
    source, target = request["source"], request["target"]
    try:
        if request["operation"] == "protect":
            outcome = enforcer.protect(
                source,
                target,
                resource={"kind": "test", "id": "Ünï\u2028 \U0001f512"},
                labels=["b", "a"],
                aead=request["aead"],
            )
        elif request["operation"] == "open":
            outcome = enforcer.open(source, target)
        else:
            outcome = enforcer.rewrap(source, target, new_key_reference=request["new_key_reference"])
        json.dump({"artifact_digest": outcome.artifact_digest, "artifact_cid": outcome.artifact_cid}, sys.stdout)
    except EnforcementError as error:
        json.dump({"failure": error.failure}, sys.stdout)


if __name__ == "__main__":
    main()
