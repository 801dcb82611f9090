"""The client that is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from . import _methods as methods
from . import bulk_v1, v1
from ._bulk import ask_all, record_all
from ._calls import Calls
from ._certificates import Certificates, Connections
from ._runtime import AsyncRuntime
from ._setup import Dialer
from ._shipping import EVENTS, REGISTRATIONS, Shipping
from ._window import DEFAULT_MAX_BYTES, DEFAULT_MAX_ITEMS, Bounds
from .decisions import Decision, permitted, require_allow
from .options import Options, Tls, Tokens
from .streams import AsyncEventStream, AsyncItemStream, AsyncRegistrationStream


class AsyncPlatformClient:
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
        self._runtime = AsyncRuntime(Connections(Certificates(tls), dialer.awaited))
        self._calls = Calls(self._runtime, base_url, tls, tokens, options)
        self.options = options

    async def __aenter__(self) -> AsyncPlatformClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends calls that are under way."""
        await self._runtime.close()

    async def who_am_i(self, *, deadline: float | None = None) -> v1.WhoAmIResponse:
        """Who calls."""
        return await self._calls.call(methods.WHO_AM_I, v1.WhoAmIRequest(), deadline)

    async def get_capabilities(self, *, deadline: float | None = None) -> v1.GetCapabilitiesResponse:
        """Routes and the scopes that they require, fetched again on each call."""
        return await self._calls.call(methods.GET_CAPABILITIES, v1.GetCapabilitiesRequest(), deadline)

    async def get_bootstrap(self, *, deadline: float | None = None) -> v1.GetBootstrapResponse:
        """How this deployment is set up, fetched again on each call."""
        return await self._calls.call(methods.GET_BOOTSTRAP, v1.GetBootstrapRequest(), deadline)

    async def plan_protection(
        self, request: v1.PlanProtectionRequest, *, deadline: float | None = None
    ) -> v1.PlanProtectionResponse:
        """May this be protected, opened or rewrapped, and how."""
        return await self._calls.ask(methods.PLAN_PROTECTION, request, deadline)

    async def resolve_policy(
        self, request: v1.ResolvePolicyRequest, *, deadline: float | None = None
    ) -> v1.ResolvePolicyResponse:
        """What policy says of it."""
        return await self._calls.ask(methods.RESOLVE_POLICY, request, deadline)

    async def plan_key_access(
        self, request: v1.PlanKeyAccessRequest, *, deadline: float | None = None
    ) -> v1.PlanKeyAccessResponse:
        """May this key be used, and how."""
        return await self._calls.ask(methods.PLAN_KEY_ACCESS, request, deadline)

    async def register_artifact(
        self,
        request: v1.RegisterArtifactRequest,
        *,
        idempotency_key: str | None = None,
        deadline: float | None = None,
    ) -> v1.RegisterArtifactResponse:
        """Records what was protected. All attempts carry one idempotency key: the given one, or one that is made."""
        return await self._calls.call(methods.REGISTER_ARTIFACT, request, deadline, idempotency_key)

    async def record_evidence(
        self,
        request: v1.RecordEvidenceRequest,
        *,
        idempotency_key: str | None = None,
        deadline: float | None = None,
    ) -> v1.RecordEvidenceResponse:
        """Records what happened; with an idempotency key as `register_artifact`."""
        return await self._calls.call(methods.RECORD_EVIDENCE, request, deadline, idempotency_key)

    async def plan_protections(
        self, request: bulk_v1.PlanProtectionsRequest, *, deadline: float | None = None
    ) -> bulk_v1.PlanProtectionsResponse:
        """`plan_protection`, up to 1,000 times in one call; each item is answered, or refused, alone."""
        return await ask_all(self._calls, methods.PLAN_PROTECTIONS, request, deadline)

    async def resolve_policies(
        self, request: bulk_v1.ResolvePoliciesRequest, *, deadline: float | None = None
    ) -> bulk_v1.ResolvePoliciesResponse:
        """`resolve_policy`, likewise."""
        return await ask_all(self._calls, methods.RESOLVE_POLICIES, request, deadline)

    async def plan_key_accesses(
        self, request: bulk_v1.PlanKeyAccessesRequest, *, deadline: float | None = None
    ) -> bulk_v1.PlanKeyAccessesResponse:
        """`plan_key_access`, likewise."""
        return await ask_all(self._calls, methods.PLAN_KEY_ACCESSES, request, deadline)

    async def register_artifacts(
        self, request: bulk_v1.RegisterArtifactsRequest, *, deadline: float | None = None
    ) -> bulk_v1.RegisterArtifactsResponse:
        """`register_artifact`, likewise. An item without an idempotency key is given one, which all attempts keep."""
        return await record_all(self._calls, methods.REGISTER_ARTIFACTS, request, deadline)

    async def record_events(
        self, request: bulk_v1.RecordEventsRequest, *, deadline: float | None = None
    ) -> bulk_v1.RecordEventsResponse:
        """`record_evidence`, likewise; with idempotency keys as `register_artifacts`."""
        return await record_all(self._calls, methods.RECORD_EVENTS, request, deadline)

    def open_event_stream(
        self,
        *,
        max_unacknowledged_items: int = DEFAULT_MAX_ITEMS,
        max_unacknowledged_bytes: int = DEFAULT_MAX_BYTES,
    ) -> AsyncEventStream:
        """Events, shipped continuously; see `AsyncItemStream`. Bounded is what is not acknowledged."""
        bounds = Bounds(max_unacknowledged_items, max_unacknowledged_bytes)
        return AsyncItemStream(Shipping(self._runtime, self._calls, EVENTS, bounds))

    def open_registration_stream(
        self,
        *,
        max_unacknowledged_items: int = DEFAULT_MAX_ITEMS,
        max_unacknowledged_bytes: int = DEFAULT_MAX_BYTES,
    ) -> AsyncRegistrationStream:
        """Registrations, likewise."""
        bounds = Bounds(max_unacknowledged_items, max_unacknowledged_bytes)
        return AsyncItemStream(Shipping(self._runtime, self._calls, REGISTRATIONS, bounds))

    async def capabilities(self, *, deadline: float | None = None) -> v1.GetCapabilitiesResponse:
        """As `get_capabilities`, kept for `discovery_max_age`; asked for once however many want them."""
        return await self._calls.capabilities(deadline)

    async def bootstrap(self, *, deadline: float | None = None) -> v1.GetBootstrapResponse:
        """As `get_bootstrap`, kept like `capabilities`."""
        return await self._calls.bootstrap(deadline)

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
