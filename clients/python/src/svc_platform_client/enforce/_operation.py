"""What protect, open and rewrap have in common: what comes before the cryptography, and the event around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from .. import v1
from ._data import Input, OnProgress, Output
from ._permission import (
    EVIDENCE_WITHIN,
    Decision,
    ObligationHandler,
    evidence_tolerance,
    meet_obligations,
    require_permission,
)
from ._platform import KEY_OPERATIONS, OPERATIONS, PROFILES, Json, KeyPlanned, Planned, Platform
from ._spool import Pending, Spool
from ._trust import TrustedLog
from .errors import EnforcementError, failure_of_system
from .keys import Key, KeyProvider, SigningKey, TdfKey

_USED_ROUTES = ("protection-plan", "key-access-plan", "artifact-register", "evidence")
_MAX_ATTRIBUTES = 64
_T = TypeVar("_T")
_K = TypeVar("_K", bound=Key)
_Q = TypeVar("_Q", v1.PlanProtectionRequest, v1.PlanKeyAccessRequest)
_A = TypeVar("_A", Planned, KeyPlanned)


@dataclass(frozen=True)
class Request:
    """What every operation is given."""

    source: Input
    target: Output
    resource: Mapping[str, str] | None
    """Of what is protected. Otherwise the one that is expected; any other is refused."""
    purpose: str | None = None
    labels: Sequence[str] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    replace: bool = False
    on_progress: OnProgress | None = None
    locator: str | None = None
    """Where the artifact will be, for its registration."""


@dataclass(frozen=True)
class Asked:
    """What an operation asks for."""

    operation: str
    profile: str
    resource: Mapping[str, str]
    labels: Sequence[str]
    keys: Sequence[tuple[str, Key]]
    """Keys to be used, and for what."""
    about: Json
    """artifact_digest, artifact_cid, content_digest, content_size_bytes: those that are known."""
    previous: Json | None = None
    """Receipts of the artifact that is rewrapped, which go along."""

    @property
    def named_key(self) -> int:
        """Index of the key that an artifact then names: the first that wraps. 0 if nothing is made."""
        return next((index for index, (operation, _) in enumerate(self.keys) if operation == "wrap"), 0)


@dataclass(frozen=True)
class Permitted:
    """An operation that may be carried out."""

    plan: v1.ProtectionDecision
    keys: Sequence[v1.KeyAccessDecision]
    tolerance: float
    attribute_fqns: Sequence[str]
    """Attribute values that a TDF must name, by the plans of keys that wrap."""


@dataclass(frozen=True)
class Context:
    platform: Platform
    workload: Json
    keys: Sequence[KeyProvider | SigningKey | TdfKey]
    attribute_namespace: str | None
    spool: Spool
    directory: Path
    """For what is only passing through."""
    log: TrustedLog
    obligations: Mapping[str, ObligationHandler]
    handling_modes: Sequence[str]
    limit: float | None
    """How long evidence may be on its way where no decision says it, in seconds."""
    now: Callable[[], float]

    def describe(self, request: Request, asked: Asked) -> Json:
        """What requests and events of this work say of it."""
        described: Json = {"workload": self.workload, "resource": dict(asked.resource), "labels": list(asked.labels)}
        described["attributes"] = dict(request.attributes)
        return described if request.purpose is None else described | {"purpose": request.purpose}

    def wrapping_key(self, reference: str | None) -> KeyProvider:
        """The key that a header or a caller names, of those that wrap. Raises `invalid`."""
        return _key_of([cast(KeyProvider, key) for key in self.keys if hasattr(key, "wrap")], reference)

    def signing_key(self, reference: str | None) -> SigningKey:
        """The same, of those that sign."""
        return _key_of([cast(SigningKey, key) for key in self.keys if hasattr(key, "verify")], reference)

    def tdf_key(self, reference: str | None) -> TdfKey:
        """The same, of those that wrap shares of a TDF's payload key."""
        return _key_of(self.tdf_keys(), reference)

    def tdf_keys(self) -> list[TdfKey]:
        return [cast(TdfKey, key) for key in self.keys if hasattr(key, "wrap_share")]

    def permission(self, request: Request, asked: Asked) -> Permitted:
        """Everything that must say yes before anything is done; a refusal is itself evidence."""
        self.spool.flush()
        self._require_deployment(asked)
        decisions: list[Decision] = []
        try:
            attribute_fqns = self._decide(request, asked, decisions)
            tolerance = evidence_tolerance(decisions, self.limit)
            meet_obligations(decisions, self.obligations)
        except EnforcementError as error:
            if error.failure == "not_permitted":
                self._record_refusal(request, asked, decisions, error)
            raise
        plan, *others = decisions
        keys = cast(list[v1.KeyAccessDecision], others)
        return Permitted(cast(v1.ProtectionDecision, plan), keys, tolerance, attribute_fqns)

    def _decide(self, request: Request, asked: Asked, decisions: list[Decision]) -> list[str]:
        """
        Asks for the plan and for the use of each key; all answers go into `decisions`, up to one that refuses.
        Returns the attribute values that a TDF must name.
        """
        attribute_fqns: list[str] = []
        common = self.describe(request, asked)
        common["workload"] = v1.WorkloadDescriptor(**self.workload)
        common["resource"] = v1.ResourceDescriptor(**asked.resource)
        common["understood_obligations"] = [*self.obligations, EVIDENCE_WITHIN]

        def decide(ask: Callable[[_Q], _A], question: _Q, keys: Sequence[tuple[str, Key]]) -> None:
            sent_at = time.time()
            answer = answered(lambda: ask(question))
            decisions.append(answer.decision)
            self.log.require(question, answer, sent_at)
            own: list[str] = ["local_provided"] if isinstance(question, v1.PlanProtectionRequest) else []
            transports = [*own, *(key.transport for _, key in keys)]
            wrapping = [key for operation, key in keys if operation == "wrap"]
            terms = (asked.profile, transports, wrapping, self.obligations, self.handling_modes)
            require_permission(answer.decision, answer.execution, *terms)
            if wrapping:
                attribute_fqns.extend(answer.execution.key_transport.tdf_key.attribute_fqns)

        question = v1.PlanProtectionRequest(
            operation=OPERATIONS[asked.operation],
            preferred_artifact_profile=PROFILES[asked.profile],
            **common,
            **asked.about,
        )
        decide(self.platform.plan_protection, question, asked.keys)
        about = {name: text for name, text in asked.about.items() if name != "content_size_bytes"}
        for operation, key in asked.keys:
            access = v1.PlanKeyAccessRequest(
                operation=KEY_OPERATIONS[operation],
                artifact_profile=PROFILES[asked.profile],
                key_reference=key.reference,
                **common,
                **about,
            )
            decide(self.platform.plan_key_access, access, [(operation, key)])
        return attribute_fqns

    def _require_deployment(self, asked: Asked) -> None:
        capabilities = answered(self.platform.capabilities)
        bootstrap = answered(self.platform.bootstrap)
        used = [route for route in capabilities.routes if route.route.rpartition("/")[2] in _USED_ROUTES]
        needed = {*capabilities.default_required_scopes, *(scope for route in used for scope in route.required_scopes)}
        missing = sorted(needed - set(capabilities.caller.scopes))
        operation, profile = asked.operation, asked.profile
        for holds, why in (
            (not bootstrap.plaintext_to_platform, "the deployment would take plaintext"),
            (OPERATIONS[operation] in bootstrap.supported_operations, f"the deployment does not support {operation}"),
            (
                PROFILES[profile] in bootstrap.supported_artifact_profiles,
                f"the deployment does not support profile {profile}",
            ),
            (not missing, f"the credentials lack scopes: {', '.join(missing)}"),
        ):
            if not holds:
                raise EnforcementError("not_permitted", why)

    def _record_refusal(
        self, request: Request, asked: Asked, decisions: Sequence[Decision], error: EnforcementError
    ) -> None:
        event = self.describe(request, asked) | {"artifact_profile": asked.profile, "event_type": "deny"}
        event |= {name: text for name, text in asked.about.items() if name.startswith("artifact_")}
        if decisions and decisions[-1].decision_id:
            event["decision_id"] = decisions[-1].decision_id
        # Nothing was released, so that this event may wait as long as the next operation.
        evidence = self.spool.begin(event, self.limit or 0)
        evidence.conclude(_failed("refused", error, event))

    @contextmanager
    def evidence(self, event: Json, tolerance: float) -> Iterator[Pending]:
        """Work with its event on disk before, during and after."""
        evidence = self.spool.begin(event, tolerance)
        try:
            yield evidence
        except BaseException as error:
            evidence.conclude(_failed("failed", error, event))
            raise


def answered(call: Callable[[], _T]) -> _T:
    """A call that fails is no answer, and no answer is no permission."""
    try:
        return call()
    except EnforcementError:
        raise
    except Exception as error:
        raise EnforcementError("unavailable", f"the platform gave no answer: {error}") from error


def no_delay() -> EnforcementError:
    return EnforcementError("unavailable", "the evidence could not be recorded, and policy tolerates no delay")


def _failed(outcome: str, error: BaseException, event: Json) -> Json:
    """The ledger's word for what did not happen; why is an attribute, where there is room for one."""
    if len(event["attributes"]) >= _MAX_ATTRIBUTES:
        return {"outcome": outcome}
    failure = error.failure if isinstance(error, EnforcementError) else failure_of_system(error)
    return {"outcome": outcome, "attributes": event["attributes"] | {"enforcement_failure": failure}}


def _key_of(keys: Sequence[_K], reference: str | None) -> _K:
    for key in keys:
        if reference is None or key.reference == reference:
            return key
    named = "" if reference is None else f" {reference}"
    raise EnforcementError("invalid", f"no key{named} was given for this profile")
