"""Nonces that a service asks for (RFC 9449 section 9)."""

from __future__ import annotations

import time
from typing import Any, cast

import grpc
import jwt

from svc_platform_client._calls import Attempts, Calls
from svc_platform_client._replies import Reply, run
from svc_platform_client._runtime import Runtime
from svc_platform_client.errors import Metadata
from svc_platform_client.options import Options, Tls

PATH = "/platform.sdk.v1.DiscoveryService/WhoAmI"


class Connected:
    """A runtime whose connection is always there."""

    identity = channel = None

    def acquire(self) -> Connected:
        return self

    async def release(self, connection: Connected) -> None: ...


def test_each_of_two_calls_that_are_asked_for_the_same_nonce_at_once_is_sent_again_with_it() -> None:
    runtime = cast(Runtime[Any], Connected())
    calls = Calls(runtime, "https://localhost", Tls(), lambda: "token", Options(dpop=True))
    nonces: list[str | None] = []

    async def call() -> bool:
        return await calls.attempt(PATH, send, Attempts(time.monotonic() + 10, []))

    async def send(_: Any, metadata: Metadata) -> Reply[bool]:
        proof = dict(metadata)["dpop"]
        nonces.append(jwt.decode(proof, options={"verify_signature": False}).get("nonce"))
        if nonces[-1] is not None:
            return Reply([], True)
        if len(nonces) == 1:
            # The other one is sent and answered before this one's answer arrives.
            assert await call()
        return Reply([("dpop-nonce", "nonce-1")], code=grpc.StatusCode.UNAUTHENTICATED)

    assert run(call())
    assert nonces == [None, None, "nonce-1", "nonce-1"]
