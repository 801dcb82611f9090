"""What both clients are made of: the target, its credentials, and options of the channel."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

import grpc
import grpc.aio

from ._certificates import Identity
from ._runtime import AsyncChannels
from .options import Options, require_safe_url

MAX_ANSWER_BYTES = 64 * 2**20
PING_AFTER_MS = 20_000
"""How long nothing may come before the service is asked whether it is there."""
PING_TIMEOUT_MS = 10_000

ChannelOptions = list[tuple[str, int | str]]


def read_target(base_url: str) -> tuple[str, bool]:
    """Host and port, and whether TLS is spoken. Raises ValueError."""
    require_safe_url(base_url)
    parts = urlsplit(base_url)
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise ValueError("the base URL is scheme, host and port alone")
    secure = parts.scheme == "https"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"dns:///{host}:{parts.port or (443 if secure else 80)}", secure


def channel_options(options: Options) -> ChannelOptions:
    retry = options.retry
    return [
        # Attempts are counted in one place.
        ("grpc.enable_retries", 0),
        # A thousand answers with whole receipts are more than gRPC takes by default.
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        # As patient with connections as with calls: else a further attempt would only hear of the last failure.
        ("grpc.initial_reconnect_backoff_ms", max(100, round(retry.initial_backoff * 1000))),
        ("grpc.min_reconnect_backoff_ms", 2_000),
        ("grpc.max_reconnect_backoff_ms", max(100, round(retry.max_backoff * 1000))),
        # A peer that is gone without a word is noticed while anything waits for it: no deadline bounds a stream.
        ("grpc.keepalive_time_ms", PING_AFTER_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        # The same, where gRPC counts from the ping rather than from what came last.
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(identity.ca, identity.key, identity.cert)


class Dialer:
    """Opens channels to one service."""

    def __init__(self, base_url: str, options: Options) -> None:
        """Raises ValueError."""
        self._target, self._is_secure = read_target(base_url)
        self._options = channel_options(options)

    def blocking(self, identity: Identity) -> grpc.Channel:
        if self._is_secure:
            return grpc.secure_channel(self._target, channel_credentials(identity), self._options)
        return grpc.insecure_channel(self._target, self._options)

    def awaited(self, identity: Identity) -> AsyncChannels:
        streams = partial(self.blocking, identity)
        if self._is_secure:
            calls = grpc.aio.secure_channel(self._target, channel_credentials(identity), self._options)
        else:
            calls = grpc.aio.insecure_channel(self._target, self._options)
        return AsyncChannels(calls, streams)
