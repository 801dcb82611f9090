"""A platform in memory that allows everything; as a program, one operation for other languages' tests."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from svc_platform_client import ClientCredentials, PlatformClient, v1
from svc_platform_client.enforce import (
    EnforcementError,
    Enforcer,
    KeyProvider,
    LocalKey,
    LocalSigningKey,
    LocalTdfKey,
    Platform,
    Profile,
    SigningKey,
    TdfKey,
    TransitKey,
)


class PermissivePlatform:
    """The calls that enforcement makes; what tests change is an attribute."""

    def __init__(self) -> None:
        self.events: dict[str, v1.RecordEvidenceRequest] = {}
        self.questions: list[v1.PlanProtectionRequest | v1.PlanKeyAccessRequest] = []
        self.registrations: list[v1.RegisterArtifactRequest] = []
        self.allow = True
        self.is_offline = False
        self.is_managed = False
        self.tdf_key: v1.TdfKey | None = None
        self.receipt: v1.Receipt | None = None
        """Of every decision."""
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
            supported_artifact_profiles=[
                v1.ARTIFACT_PROFILE_ENVELOPE,
                v1.ARTIFACT_PROFILE_DETACHED_SIGNATURE,
                v1.ARTIFACT_PROFILE_TDF,
            ],
        )

    def plan_protection(self, request: v1.PlanProtectionRequest, /) -> v1.PlanProtectionResponse:
        self.questions.append(request)
        decision = v1.ProtectionDecision(
            allow=self.allow,
            decision_id=str(uuid.uuid4()),
            policy_revision="revision",
            handling_mode="local_embedded_enforcement",
            obligations=self.obligations,
            receipt=self.receipt,
        )
        execution = v1.ProtectionExecution(
            protect_locally=True,
            local_enforcement_library="sdk_embedded_library",
            artifact_profile=request.preferred_artifact_profile,
        )
        return v1.PlanProtectionResponse(decision=decision, execution=execution)

    def plan_key_access(self, request: v1.PlanKeyAccessRequest, /) -> v1.PlanKeyAccessResponse:
        self.questions.append(request)
        decision = v1.KeyAccessDecision(allow=True, decision_id=str(uuid.uuid4()), policy_revision="revision")
        execution = v1.KeyAccessExecution(local_cryptographic_operation=True, artifact_profile=request.artifact_profile)
        if self.tdf_key is not None:
            execution.key_transport.mode = "local_provided"
            execution.key_transport.tdf_key.CopyFrom(self.tdf_key)
        if self.is_managed:
            execution.key_transport.mode = "wrapped_key_reference"
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


def keys_of(given: dict[str, Any]) -> list[KeyProvider | SigningKey | TdfKey]:
    """Keys as tests in other languages write them: local (hex by reference), signers and tdf (JWKs), transit."""
    return [
        *(LocalKey(reference, bytes.fromhex(key)) for reference, key in given.get("local", {}).items()),
        *(LocalSigningKey(jwk["kid"], jwk) for jwk in given.get("signers", [])),
        *(LocalTdfKey(jwk["kid"], jwk, url=jwk["kas_url"]) for jwk in given.get("tdf", [])),
        *(
            TransitKey(it["address"], token=partial(str, it["token"]), key=it["key"], reference=it["reference"])
            for it in given.get("transit", [])
        ),
    ]


@contextmanager
def platform_of(request: dict[str, Any]) -> Iterator[Platform]:
    """A real service where the request names one, else one that allows everything."""
    if "service" not in request:
        platform = PermissivePlatform()
        platform.is_managed = request.get("is_managed", False)
        yield platform
        return
    service = request["service"]
    tokens = ClientCredentials(service["issuer"], service["client_id"], service["client_secret"], service["scopes"])
    with PlatformClient(service["url"], tokens=tokens) as client:
        yield client


def carried_out(request: dict[str, Any], platform: Platform) -> dict[str, str]:
    enforcer = Enforcer(
        platform,
        application="test",
        keys=keys_of(request["keys"]),
        attribute_namespace="example.com",
        spool_directory=request["spool"],
        log_keys=request.get("log_keys"),
    )
    source, target = request["source"], request["target"]
    profile: Profile = request.get("profile", "envelope")
    try:
        if request["operation"] == "protect":
            outcome = enforcer.protect(
                source,
                target,
                profile=profile,
                resource={"kind": "test", "id": "Ünï\u2028 \U0001f512"},
                purpose="audit",
                labels=["b", "a"],
                aead=request.get("aead", "AES256_GCM_HKDF_1MB"),
                tdf_keys=request.get("tdf_keys"),
                segment_hash=request.get("segment_hash", "HS256"),
            )
        elif request["operation"] == "open":
            outcome = enforcer.open(
                source,
                target,
                signature=request.get("signature"),
                profile=profile,
                allow_foreign=request.get("allow_foreign", False),
                resource={"kind": "test"} if request.get("allow_foreign") else None,
                purpose="audit",
            )
        else:
            outcome = enforcer.rewrap(
                source, target, profile=profile, new_key_reference=request["new_key_reference"], purpose="audit"
            )
        return {"artifact_digest": outcome.artifact_digest}
    except EnforcementError as error:
        print(error, file=sys.stderr)
        return {"failure": error.failure}


def main() -> None:
    """Reads one request, the interface `Work` of `test/system/enforcement-languages.ts`."""
    request = json.load(sys.stdin)
    with platform_of(request) as platform:
        json.dump(carried_out(request, platform), sys.stdout)


if __name__ == "__main__":
    main()
