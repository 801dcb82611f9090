"""
One operation of local enforcement in a process that can be killed at any moment: it tells its parent of each, a JSON
object a line, and asks it instead of a platform. The request, its argument, and the lines are those of
`test/harness/enforcement-child.ts`.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

from google.protobuf.json_format import MessageToDict
from permissive_platform import PermissivePlatform, keys_of

from svc_platform_client import v1
from svc_platform_client.enforce import Enforcer, KeyProvider, SigningKey

ids = itertools.count()


def tell(moment: dict[str, Any]) -> None:
    print(json.dumps(moment), flush=True)


def ask(moment: dict[str, Any]) -> Any:
    number = next(ids)
    tell({"id": number, **moment})
    # Calls are made one after another, and so are their answers.
    answer = json.loads(sys.stdin.readline())
    assert answer["id"] == number
    return answer["answer"]


def call(name: str, *given: object) -> Any:
    return ask({"moment": "call", "call": name, "given": given})


def spelt(request: v1.RegisterArtifactRequest | v1.RecordEvidenceRequest) -> dict[str, Any]:
    """Enumerations in the words of the JSON routes."""
    given: dict[str, Any] = MessageToDict(request, preserving_proto_field_name=True)
    for member, prefix in (("event_type", "EVIDENCE_EVENT_TYPE_"), ("operation", "PROTECTION_OPERATION_")):
        if member in given:
            given[member] = given[member].removeprefix(prefix).lower()
    return given


class ParentPlatform(PermissivePlatform):
    """Answers as the permissive one does, once the parent has answered too."""

    def bootstrap(self) -> v1.GetBootstrapResponse:
        call("deployment")
        return super().bootstrap()

    def plan_protection(self, request: v1.PlanProtectionRequest, /) -> v1.PlanProtectionResponse:
        call("planProtection", {"preferred_artifact_profile": ""})
        return super().plan_protection(request)

    def plan_key_access(self, request: v1.PlanKeyAccessRequest, /) -> v1.PlanKeyAccessResponse:
        call("planKeyAccess", {"artifact_profile": ""})
        return super().plan_key_access(request)

    def register_artifact(
        self, request: v1.RegisterArtifactRequest, /, *, idempotency_key: str
    ) -> v1.RegisterArtifactResponse:
        call("registerArtifact", spelt(request), idempotency_key)
        return super().register_artifact(request, idempotency_key=idempotency_key)

    def record_evidence(
        self, request: v1.RecordEvidenceRequest, /, *, idempotency_key: str
    ) -> v1.RecordEvidenceResponse:
        call("recordEvidence", spelt(request), idempotency_key)
        return super().record_evidence(request, idempotency_key=idempotency_key)


class Watched:
    """The parent knows each content key before anything is done with it."""

    def __init__(self, key: KeyProvider) -> None:
        self._key = key
        self.provider, self.reference, self.transport = key.provider, key.reference, key.transport

    def wrap(self, content_key: bytes, associated_data: bytes) -> str:
        ask({"moment": "content-key", "key": content_key.hex()})
        return self._key.wrap(content_key, associated_data)

    def unwrap(self, wrapped: str, associated_data: bytes) -> bytes:
        content_key = self._key.unwrap(wrapped, associated_data)
        ask({"moment": "content-key", "key": content_key.hex()})
        return content_key


def watched(key: Any) -> KeyProvider | SigningKey:
    return Watched(key) if hasattr(key, "wrap") else key


def on_progress(_: int, __: int | None) -> None:
    tell({"moment": "progress"})


def main() -> None:
    request = json.loads(sys.argv[1])
    enforcer = Enforcer(
        ParentPlatform(),
        application="test",
        keys=[watched(key) for key in keys_of(request["keys"])],
        spool_directory=request["spool"],
    )
    source, target, profile = request["source"], request["target"], request["profile"]
    if request["operation"] == "protect":
        enforcer.protect(source, target, profile=profile, resource={"kind": "test"}, on_progress=on_progress)
    elif request["operation"] == "open":
        enforcer.open(source, target, signature=request.get("signature"), on_progress=on_progress)
    else:
        enforcer.rewrap(
            source,
            target,
            profile=profile,
            new_key_reference=request["new_key_reference"],
            on_progress=on_progress,
        )


if __name__ == "__main__":
    main()
