"""A platform in memory that records what it answers in a log of its own, as the service does."""

from __future__ import annotations

import hashlib
import hmac
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar, cast

from logs import Signer, b64, canonical, inclusion, root_of
from permissive_platform import PermissivePlatform

from svc_platform_client import v1
from svc_platform_client.receipts import ItemRequest
from svc_platform_client.receipts._answers import ROUTES
from svc_platform_client.receipts._relations import TABLE
from svc_platform_client.receipts._spelling import recorded_form

Json = dict[str, Any]
_A = TypeVar("_A")


class Log:
    """Grows by a record at a time, and gives out receipts of what it is then."""

    def __init__(self, signer: Signer, now: Callable[[], float] = time.time) -> None:
        self.signer, self.now = signer, now
        self.leaves: list[bytes] = [b"the first leaf, so that no path is empty"]

    def append(self, members: Json) -> v1.Receipt:
        moment = datetime.fromtimestamp(self.now(), timezone.utc)
        told = {
            "kind": members["kind"],
            "record_id": members["record_id"],
            "recorded_at": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
        }
        digest = "sha256:" + hashlib.sha256(canonical(members["request"])).hexdigest()
        of_log = {"log": self.signer.origin, "request_digest": digest, "request_id": "request-1"}
        record = canonical(members | told | of_log)
        opening = hashlib.sha256(record).digest()
        pseudorandom = hmac.new(bytes(32), opening, "sha256").digest()
        key = hmac.new(pseudorandom, b"platform-ledger/v1/commitment\1", "sha256").digest()
        commitment = "hmac-sha256:" + hmac.new(key, record, "sha256").hexdigest()
        revision = {name: text for name, text in members["outcome"].items() if name == "policy_revision"}
        leaf = canonical(told | {"commitment": commitment, "v": 1} | revision)
        index = len(self.leaves)
        self.leaves.append(leaf)
        path = "".join(f"{b64(value)}\n" for value in inclusion(self.leaves, index))
        checkpoint = self.signer.checkpoint(len(self.leaves), root_of(self.leaves))
        return v1.Receipt(
            record_id=members["record_id"],
            log_origin=self.signer.origin,
            leaf_index=index,
            tree_size=len(self.leaves),
            leaf_hash=b64(root_of([leaf])),
            proof=f"c2sp.org/tlog-proof@v1\nindex {index}\n{path}\n{checkpoint}",
            leaf=b64(leaf),
            opening=b64(opening),
            record=b64(record),
        )


class RecordingPlatform(PermissivePlatform):
    def __init__(self, log: Log, principal: str = "payroll", tenant: str = "tenant-a") -> None:
        super().__init__()
        self.log = log
        self.caller = v1.Caller(
            tenant_id=tenant,
            principal_id=principal,
            subject=principal,
            auth_source="bearer_token",
            scopes=["keys.use"],
        )
        self.changed: Callable[[Any], Any] = lambda answer: answer
        """What becomes of an answer on its way."""
        self.revision = "sha256:00"

    def capabilities(self) -> v1.GetCapabilitiesResponse:
        return v1.GetCapabilitiesResponse(caller=self.caller)

    def record(self, request: ItemRequest, outcome: Json) -> v1.Receipt:
        caller, route = self.caller, ROUTES[type(request)]
        return self.log.append(
            {
                "kind": TABLE["routes"][route]["kind"],
                "record_id": str(uuid.uuid4()),
                "tenant_id": caller.tenant_id,
                "caller": {
                    "auth_source": caller.auth_source,
                    "principal_id": caller.principal_id,
                    "subject": caller.subject,
                },
                "route": f"/v1/sdk/{route}",
                "request": recorded_form(request),
                "outcome": outcome,
            }
        )

    def decide(
        self, request: v1.PlanProtectionRequest | v1.ResolvePolicyRequest | v1.PlanKeyAccessRequest, profile: int
    ) -> Json:
        """What all decisions have."""
        outcome: Json = {
            "allow": self.allow,
            "policy_revision": self.revision,
            "reasons": ["platform/allow"],
            "caller_scopes": list(self.caller.scopes),
            "guidance": {
                "artifact_profile": v1.ArtifactProfile.Name(profile).removeprefix("ARTIFACT_PROFILE_").lower(),
                "authorization_strategy": "policy",
                "bind_policy_to": ["resource"],
                "enforcement_mode": "local",
                "evidence_expected": ["access"],
                "handling_mode": "local_embedded_enforcement",
                "key_strategy": "local",
                "local_enforcement_library": "sdk_embedded_library",
                "policy_resolution": "platform",
                "required_actions": ["log"],
                "send_only": ["labels"],
            },
        }
        if self.obligations:
            outcome["obligations"] = [{"id": it.id, "parameters": dict(it.parameters)} for it in self.obligations]
        receipt = self.record(request, outcome)
        return {
            "allow": self.allow,
            "decision_id": receipt.record_id,
            "policy_revision": self.revision,
            "reasons": ["platform/allow"],
            "obligations": self.obligations,
            "receipt": receipt,
        }

    def plan_protection(self, request: v1.PlanProtectionRequest, /) -> v1.PlanProtectionResponse:
        self.questions.append(request)
        profile = request.preferred_artifact_profile
        decision = v1.ProtectionDecision(
            handling_mode="local_embedded_enforcement",
            plaintext_transport="forbidden_by_default",
            **self.decide(request, profile),
        )
        execution = v1.ProtectionExecution(
            protect_locally=self.allow,
            local_enforcement_library="sdk_embedded_library",
            send_only=["labels"],
            artifact_profile=profile,
            key_strategy="local",
            policy_resolution="platform",
        )
        summary = v1.ProtectionSummary(
            operation=request.operation,
            preferred_artifact_profile=profile,
            content_digest_present=request.HasField("content_digest"),
            **self.summary(request),
        )
        if request.HasField("content_size_bytes"):
            summary.content_size_bytes = request.content_size_bytes
        answer = v1.PlanProtectionResponse(
            status="ready", caller=self.caller, request_summary=summary, decision=decision, execution=execution
        )
        return self.sent(answer)

    def resolve_policy(self, request: v1.ResolvePolicyRequest, /) -> v1.ResolvePolicyResponse:
        summary = v1.PolicySummary(
            operation=request.operation,
            content_digest_present=request.HasField("content_digest"),
            **self.summary(request),
        )
        if request.HasField("content_size_bytes"):
            summary.content_size_bytes = request.content_size_bytes
        answer = v1.ResolvePolicyResponse(
            status="ready",
            caller=self.caller,
            request_summary=summary,
            decision=v1.PolicyDecision(
                enforcement_mode="local", required_actions=["log"], **self.decide(request, v1.ARTIFACT_PROFILE_TDF)
            ),
            handling=v1.PolicyHandling(
                protect_locally=self.allow,
                plaintext_transport="forbidden_by_default",
                bind_policy_to=["resource"],
                evidence_expected=["access"],
            ),
        )
        return self.sent(answer)

    def plan_key_access(self, request: v1.PlanKeyAccessRequest, /) -> v1.PlanKeyAccessResponse:
        self.questions.append(request)
        profile = request.artifact_profile
        has_key = request.HasField("key_reference")
        decision = v1.KeyAccessDecision(
            operation=request.operation, key_reference_present=has_key, **self.decide(request, profile)
        )
        execution = v1.KeyAccessExecution(
            local_cryptographic_operation=self.allow,
            platform_role="authorize_only",
            send_only=["labels"],
            artifact_profile=profile,
            authorization_strategy="policy",
        )
        summary = v1.KeyAccessSummary(
            operation=request.operation,
            artifact_profile=profile,
            key_reference_present=has_key,
            content_digest_present=request.HasField("content_digest"),
            **self.summary(request),
        )
        answer = v1.PlanKeyAccessResponse(
            status="ready", caller=self.caller, request_summary=summary, decision=decision, execution=execution
        )
        return self.sent(answer)

    def register_artifact(
        self, request: v1.RegisterArtifactRequest, /, *, idempotency_key: str
    ) -> v1.RegisterArtifactResponse:
        self.registrations.append(request)
        outcome = {"accepted": True, "citation": "matched", "artifact_cid": request.artifact_cid}
        registration = v1.Registration(
            accepted=True,
            artifact_transport="metadata_only",
            catalog_actions=["record_artifact_metadata", "link_decision"],
            receipt=self.record(request, outcome),
        )
        summary = v1.RegistrationSummary(
            operation=request.operation,
            artifact_kind=request.artifact_kind,
            artifact_profile=request.artifact_profile,
            artifact_digest=request.artifact_digest,
            artifact_cid=request.artifact_cid,
            decision_id_present=True,
            key_reference_present=True,
            **self.summary(request),
        )
        answer = v1.RegisterArtifactResponse(
            status="ready", caller=self.caller, request_summary=summary, registration=registration
        )
        return self.sent(answer)

    def record_evidence(
        self, request: v1.RecordEvidenceRequest, /, *, idempotency_key: str
    ) -> v1.RecordEvidenceResponse:
        super().record_evidence(request, idempotency_key=idempotency_key)
        is_cited = request.HasField("decision_id")
        outcome = {"accepted": True, "citation": "matched" if is_cited else "none"}
        names = ("artifact_digest", "artifact_cid")
        ingestion = v1.Ingestion(
            accepted=True,
            plaintext_transport="forbidden_by_default",
            correlate_by=[
                *(["decision_id"] if is_cited else []),
                *(name for name in names if request.HasField(name)),
                *(["resource.id"] if request.resource.HasField("id") else []),
            ],
            receipt=self.record(request, outcome),
        )
        summary = v1.EvidenceSummary(
            event_type=request.event_type,
            artifact_digest_present=request.HasField("artifact_digest"),
            decision_id_present=is_cited,
            outcome=request.outcome,
            occurred_at=request.occurred_at,
            **self.summary(request),
        )
        for name in ("artifact_kind", "artifact_profile", "artifact_cid"):
            if request.HasField(name):
                setattr(summary, name, getattr(request, name))
        answer = v1.RecordEvidenceResponse(
            status="ready", caller=self.caller, request_summary=summary, ingestion=ingestion
        )
        return self.sent(answer)

    def summary(self, request: Any) -> Json:
        """What all summaries have."""
        optional = {
            "workload_environment": (request.workload, "environment"),
            "workload_component": (request.workload, "component"),
            "resource_id": (request.resource, "id"),
            "mime_type": (request.resource, "mime_type"),
            "purpose": (request, "purpose"),
        }
        return {
            "workload_application": request.workload.application,
            "resource_kind": request.resource.kind,
            "label_count": len(request.labels),
            "attribute_count": len(request.attributes),
            **{name: getattr(of, member) for name, (of, member) in optional.items() if of.HasField(member)},
        }

    def sent(self, answer: _A) -> _A:
        return cast(_A, self.changed(answer))
