"""The calls on the wire."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from . import bulk_v1, v1

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Answer]):
    path: str
    parse: Callable[[bytes], Answer]
    recorded: bool = False
    """Whether it records something, and so carries an idempotency key."""


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

PLAN_PROTECTIONS: Method[bulk_v1.PlanProtectionsRequest, bulk_v1.PlanProtectionsResponse]
PLAN_PROTECTIONS = Method(
    "/platform.bulk.v1.BulkDecisionService/PlanProtections", bulk_v1.PlanProtectionsResponse.FromString
)
RESOLVE_POLICIES: Method[bulk_v1.ResolvePoliciesRequest, bulk_v1.ResolvePoliciesResponse]
RESOLVE_POLICIES = Method(
    "/platform.bulk.v1.BulkDecisionService/ResolvePolicies", bulk_v1.ResolvePoliciesResponse.FromString
)
PLAN_KEY_ACCESSES: Method[bulk_v1.PlanKeyAccessesRequest, bulk_v1.PlanKeyAccessesResponse]
PLAN_KEY_ACCESSES = Method(
    "/platform.bulk.v1.BulkDecisionService/PlanKeyAccesses", bulk_v1.PlanKeyAccessesResponse.FromString
)
RECORD_EVENTS: Method[bulk_v1.RecordEventsRequest, bulk_v1.RecordEventsResponse]
RECORD_EVENTS = Method("/platform.bulk.v1.BulkRecordService/RecordEvents", bulk_v1.RecordEventsResponse.FromString)
REGISTER_ARTIFACTS: Method[bulk_v1.RegisterArtifactsRequest, bulk_v1.RegisterArtifactsResponse]
REGISTER_ARTIFACTS = Method(
    "/platform.bulk.v1.BulkRecordService/RegisterArtifacts", bulk_v1.RegisterArtifactsResponse.FromString
)
STREAM_EVENTS: Method[bulk_v1.StreamEventsRequest, bulk_v1.StreamEventsResponse]
STREAM_EVENTS = Method("/platform.bulk.v1.BulkStreamService/StreamEvents", bulk_v1.StreamEventsResponse.FromString)
STREAM_REGISTRATIONS: Method[bulk_v1.StreamRegistrationsRequest, bulk_v1.StreamRegistrationsResponse]
STREAM_REGISTRATIONS = Method(
    "/platform.bulk.v1.BulkStreamService/StreamRegistrations", bulk_v1.StreamRegistrationsResponse.FromString
)
