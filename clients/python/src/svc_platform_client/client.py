"""The client that blocks. Its calls can be made from any number of threads at once."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import grpc

from . import _methods as methods
from . import v1
from ._calls import Calls
from ._certificates import Certificates, Connections, Identity
from ._runtime import BlockingRuntime, run
from ._setup import channel_credentials, channel_options, read_target
from .decisions import Decision, permitted, require_allow
from .options import Options, Tls, Tokens


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
        target, secure = read_target(base_url)

        def dial(identity: Identity) -> grpc.Channel:
            if secure:
                return grpc.secure_channel(target, channel_credentials(identity), channel_options(options))
            return grpc.insecure_channel(target, channel_options(options))

        self._runtime = BlockingRuntime(Connections(Certificates(tls), dial))
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
        """Routes and the scopes that they require, asked for anew."""
        return run(self._calls.call(methods.GET_CAPABILITIES, v1.GetCapabilitiesRequest(), deadline))

    def get_bootstrap(self, *, deadline: float | None = None) -> v1.GetBootstrapResponse:
        """How this deployment is set up, asked for anew."""
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
