"""The eight calls on the wire."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import Message

from . import v1

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)
Answer_co = TypeVar("Answer_co", bound=Message, covariant=True)


@dataclass(frozen=True)
class Method(Generic[Request, Answer]):
    path: str
    parse: Callable[[bytes], Answer]
    recorded: bool = False
    """Whether it records something, and so carries an idempotency key."""


class Holder(Protocol):
    """A decision, registration or ingestion."""

    @property
    def receipt(self) -> v1.Receipt: ...
    def HasField(self, field_name: str, /) -> bool: ...


WHO_AM_I: Method[v1.WhoAmIRequest, v1.WhoAmIResponse]
WHO_AM_I = Method("/platform.sdk.v1.DiscoveryService/WhoAmI", v1.WhoAmIResponse.FromString)
GET_CAPABILITIES: Method[v1.GetCapabilitiesRequest, v1.GetCapabilitiesResponse]
GET_CAPABILITIES = Method("/platform.sdk.v1.DiscoveryService/GetCapabilities", v1.GetCapabilitiesResponse.FromString)
GET_BOOTSTRAP: Method[v1.GetBootstrapRequest, v1.GetBootstrapResponse]
GET_BOOTSTRAP = Method("/platform.sdk.v1.DiscoveryService/GetBootstrap", v1.GetBootstrapResponse.FromString)
PLAN_PROTECTION: Method[v1.PlanProtectionRequest, v1.PlanProtectionResponse]
PLAN_PROTECTION = Method("/platform.sdk.v1.ProtectionService/PlanProtection", v1.PlanProtectionResponse.FromString)
RESOLVE_POLICY: Method[v1.ResolvePolicyRequest, v1.ResolvePolicyResponse]
RESOLVE_POLICY = Method("/platform.sdk.v1.ProtectionService/ResolvePolicy", v1.ResolvePolicyResponse.FromString)
PLAN_KEY_ACCESS: Method[v1.PlanKeyAccessRequest, v1.PlanKeyAccessResponse]
PLAN_KEY_ACCESS = Method("/platform.sdk.v1.ProtectionService/PlanKeyAccess", v1.PlanKeyAccessResponse.FromString)
REGISTER_ARTIFACT: Method[v1.RegisterArtifactRequest, v1.RegisterArtifactResponse]
REGISTER_ARTIFACT = Method(
    "/platform.sdk.v1.RegistrationService/RegisterArtifact", v1.RegisterArtifactResponse.FromString, recorded=True
)
RECORD_EVIDENCE: Method[v1.RecordEvidenceRequest, v1.RecordEvidenceResponse]
RECORD_EVIDENCE = Method(
    "/platform.sdk.v1.EvidenceService/RecordEvidence", v1.RecordEvidenceResponse.FromString, recorded=True
)


def receipt_of(answer: Message) -> v1.Receipt | None:
    holder: Holder
    if isinstance(answer, v1.PlanProtectionResponse | v1.ResolvePolicyResponse | v1.PlanKeyAccessResponse):
        holder = answer.decision
    elif isinstance(answer, v1.RegisterArtifactResponse):
        holder = answer.registration
    elif isinstance(answer, v1.RecordEvidenceResponse):
        holder = answer.ingestion
    else:
        return None
    return holder.receipt if holder.HasField("receipt") else None
