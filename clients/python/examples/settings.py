"""Where the platform is and who calls it: from the environment. Secrets never come from arguments."""

import math
import os
import sys

from svc_platform_client import ClientCredentials, Options, PlatformClient, PlatformError, Retry, Tls

# Of every call; it covers all attempts.
DEADLINE_SECONDS = 30.0


def open_client(understood_obligations: list[str]) -> PlatformClient:
    # None of them where there is no TLS, or where the libraries' authorities and no certificate of one's own will do.
    ca, cert, key = (os.environ.get(f"PLATFORM_{name}") or None for name in ("CA", "CERT", "KEY"))
    tls = Tls(ca=ca, cert=cert, key=key)
    tokens = ClientCredentials(
        issuer=required("ISSUER"),
        client_id=required("CLIENT_ID"),
        client_secret=required("CLIENT_SECRET"),
        scopes=os.environ.get("PLATFORM_SCOPE", "").split(),
    )
    log_key = os.environ.get("PLATFORM_LOG_KEY")
    options = Options(
        deadline=DEADLINE_SECONDS,
        retry=Retry(max_attempts=math.inf, on_retry=tell_retry),
        log_keys=[log_key] if log_key else [],
        understood_obligations=understood_obligations,
    )
    return PlatformClient(required("URL"), tls=tls, tokens=tokens, options=options)


def tell_retry(error: PlatformError, pause_seconds: float) -> None:
    print(f"{error.message}; trying again in {pause_seconds:.2f} s", file=sys.stderr)


def required(name: str) -> str:
    value = os.environ.get(f"PLATFORM_{name}", "")
    if not value:
        sys.exit(f"PLATFORM_{name} is not set")
    return value
