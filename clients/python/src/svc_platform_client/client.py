"""The client that blocks. Its calls can be made from any number of threads at once."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from . import _methods as methods
from . import bulk_v1, v1
from ._bulk import ask_all, record_all
from ._calls import Calls
from ._certificates import Certificates, Connections
from ._replies import run
from ._runtime import BlockingRuntime
from ._setup import Dialer
from ._shipping import EVENTS, REGISTRATIONS, Shipping
from ._window import DEFAULT_MAX_BYTES, DEFAULT_MAX_ITEMS, Bounds
from .decisions import Decision, permitted, require_allow
from .options import Options, Tls, Tokens
from .streams import EventStream, ItemStream, RegistrationStream


class PlatformClient:
    """
    A client of one service. Its connection, tokens and caches live until it is closed.

    Every call raises PlatformError, and ReceiptRefused where log keys are known and a receipt does not verify.
    `deadline` is in seconds and covers all attempts; it defaults to the client's.
    """

    def __init__(
        self,
        base_url: str,
        *,
        tls: Tls | None = None,
        tokens: Tokens | None = None,
        options: Options | None = None,
    ) -> None:
        """`base_url`: scheme, host and port; http on loopback alone. Raises ValueError, OSError for files of `tls`."""
        tls, options = tls or Tls(), options or Options()
        dialer = Dialer(base_url, options)
        self._runtime = BlockingRuntime(Connections(Certificates(tls), dialer.blocking))
        self._calls = Calls(self._runtime, base_url, tls, tokens, options)
        self.options = options

    def __enter__(self) -> PlatformClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends calls that are under way."""
        self._runtime.close()

    def who_am_i(self, *, deadline: float | None = None) -> v1.WhoAmIResponse:
        """Who calls."""
        return run(self._calls.call(methods.WHO_AM_I, v1.WhoAmIRequest(), deadline))

    def get_capabilities(self, *, deadline: float | None = None) -> v1.GetCapabilitiesResponse:
        """Routes and the scopes that they require, fetched again on each call."""
        return run(self._calls.call(methods.GET_CAPABILITIES, v1.GetCapabilitiesRequest(), deadline))

    def get_bootstrap(self, *, deadline: float | None = None) -> v1.GetBootstrapResponse:
        """How this deployment is set up, fetched again on each call."""
        return run(self._calls.call(methods.GET_BOOTSTRAP, v1.GetBootstrapRequest(), deadline))

    def plan_protection(
        self, request: v1.PlanProtectionRequest, *, deadline: float | None = None
    ) -> v1.PlanProtectionResponse:
        """May this be protected, opened or rewrapped, and how."""
        return run(self._calls.ask(methods.PLAN_PROTECTION, request, deadline))

    def resolve_policy(
        self, request: v1.ResolvePolicyRequest, *, deadline: float | None = None
    ) -> v1.ResolvePolicyResponse:
        """What policy says of it."""
        return run(self._calls.ask(methods.RESOLVE_POLICY, request, deadline))

    def plan_key_access(
        self, request: v1.PlanKeyAccessRequest, *, deadline: float | None = None
    ) -> v1.PlanKeyAccessResponse:
        """May this key be used, and how."""
        return run(self._calls.ask(methods.PLAN_KEY_ACCESS, request, deadline))

    def register_artifact(
        self,
        request: v1.RegisterArtifactRequest,
        *,
        idempotency_key: str | None = None,
        deadline: float | None = None,
    ) -> v1.RegisterArtifactResponse:
        """Records what was protected. All attempts carry one idempotency key: the given one, or one that is made."""
        return run(self._calls.call(methods.REGISTER_ARTIFACT, request, deadline, idempotency_key))

    def record_evidence(
        self,
        request: v1.RecordEvidenceRequest,
        *,
        idempotency_key: str | None = None,
        deadline: float | None = None,
    ) -> v1.RecordEvidenceResponse:
        """Records what happened; with an idempotency key as `register_artifact`."""
        return run(self._calls.call(methods.RECORD_EVIDENCE, request, deadline, idempotency_key))

    def plan_protections(
        self, request: bulk_v1.PlanProtectionsRequest, *, deadline: float | None = None
    ) -> bulk_v1.PlanProtectionsResponse:
        """`plan_protection`, up to 1,000 times in one call; each item is answered, or refused, alone."""
        return run(ask_all(self._calls, methods.PLAN_PROTECTIONS, request, deadline))

    def resolve_policies(
        self, request: bulk_v1.ResolvePoliciesRequest, *, deadline: float | None = None
    ) -> bulk_v1.ResolvePoliciesResponse:
        """`resolve_policy`, likewise."""
        return run(ask_all(self._calls, methods.RESOLVE_POLICIES, request, deadline))

    def plan_key_accesses(
        self, request: bulk_v1.PlanKeyAccessesRequest, *, deadline: float | None = None
    ) -> bulk_v1.PlanKeyAccessesResponse:
        """`plan_key_access`, likewise."""
        return run(ask_all(self._calls, methods.PLAN_KEY_ACCESSES, request, deadline))

    def register_artifacts(
        self, request: bulk_v1.RegisterArtifactsRequest, *, deadline: float | None = None
    ) -> bulk_v1.RegisterArtifactsResponse:
        """`register_artifact`, likewise. An item without an idempotency key is given one, which all attempts keep."""
        return run(record_all(self._calls, methods.REGISTER_ARTIFACTS, request, deadline))

    def record_events(
        self, request: bulk_v1.RecordEventsRequest, *, deadline: float | None = None
    ) -> bulk_v1.RecordEventsResponse:
        """`record_evidence`, likewise; with idempotency keys as `register_artifacts`."""
        return run(record_all(self._calls, methods.RECORD_EVENTS, request, deadline))

    def open_event_stream(
        self,
        *,
        max_unacknowledged_items: int = DEFAULT_MAX_ITEMS,
        max_unacknowledged_bytes: int = DEFAULT_MAX_BYTES,
    ) -> EventStream:
        """Events, shipped continuously; see `ItemStream`. Bounded is what is not acknowledged."""
        bounds = Bounds(max_unacknowledged_items, max_unacknowledged_bytes)
        return ItemStream(Shipping(self._runtime, self._calls, EVENTS, bounds))

    def open_registration_stream(
        self,
        *,
        max_unacknowledged_items: int = DEFAULT_MAX_ITEMS,
        max_unacknowledged_bytes: int = DEFAULT_MAX_BYTES,
    ) -> RegistrationStream:
        """Registrations, likewise."""
        bounds = Bounds(max_unacknowledged_items, max_unacknowledged_bytes)
        return ItemStream(Shipping(self._runtime, self._calls, REGISTRATIONS, bounds))

    def capabilities(self, *, deadline: float | None = None) -> v1.GetCapabilitiesResponse:
        """As `get_capabilities`, kept for `discovery_max_age`; asked for once however many want them."""
        return run(self._calls.capabilities(deadline))

    def bootstrap(self, *, deadline: float | None = None) -> v1.GetBootstrapResponse:
        """As `get_bootstrap`, kept like `capabilities`."""
        return run(self._calls.bootstrap(deadline))

    def permitted(self, decision: Decision, understood: Sequence[str] | None = None) -> bool:
        """
        Whether it allows, and every obligation is understood: those of the client, or `understood`, for a request that
        listed its own.
        """
        own = self.options.understood_obligations if understood is None else understood
        return permitted(decision, own, self.options.understood_parameters)

    def require_allow(self, decision: Decision, understood: Sequence[str] | None = None) -> None:
        """Raises NotPermitted unless `permitted`."""
        own = self.options.understood_obligations if understood is None else understood
        require_allow(decision, own, self.options.understood_parameters)
