"""What both clients are made of: the target, its credentials, and options of the channel."""

from __future__ import annotations

from urllib.parse import urlsplit

import grpc

from ._certificates import Identity
from .options import Options, require_safe_url

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
        # As patient with connections as with calls: else a further attempt would only hear of the last failure.
        ("grpc.initial_reconnect_backoff_ms", max(100, round(retry.initial_backoff * 1000))),
        ("grpc.min_reconnect_backoff_ms", 2_000),
        ("grpc.max_reconnect_backoff_ms", max(100, round(retry.max_backoff * 1000))),
    ]


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(identity.ca, identity.key, identity.cert)
