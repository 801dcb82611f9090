"""How a client is set up. Times are in seconds."""

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Literal
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from . import v1
from .errors import PlatformError
from .receipts import parse_log_key

File = str | PathLike[str]
TokenFunction = Callable[[], str | Awaitable[str]]
"""Gives a token that is good for some time yet; asked before every attempt."""


@dataclass(frozen=True)
class Tls:
    """
    PEM files. The certificate is presented to the service, and to the issuer, who binds tokens to it (RFC 8705).

    Files are looked at on every attempt and read again when they change; calls from then on use a new connection and
    a new token. Where what was changed cannot be read, or certificate and key do not fit, the earlier ones stay.
    """

    ca: File | None = None
    """Authorities of the servers. Default: those that the libraries bring."""
    cert: File | None = None
    key: File | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("a client certificate needs its key, and a key its certificate")


@dataclass(frozen=True)
class ClientCredentials:
    """Tokens by the client-credentials grant (RFC 6749 section 4.4), kept until shortly before they expire."""

    issuer: str
    """Identifier of the issuer; its discovery document names the token endpoint."""
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    """Without one the client is known by its certificate (RFC 8705 section 2)."""
    scopes: Sequence[str] = ()
    """What to ask for. Default: what the issuer grants unasked."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Further members of the token request, for issuers that want the audience named."""
    auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    """How the secret is sent."""

    def __post_init__(self) -> None:
        require_safe_url(self.issuer)
        _require_lists(scopes=self.scopes)


@dataclass(frozen=True)
class SessionTokens:
    """
    Tokens of the service's own session route, for deployments whose workloads reach no issuer; kept as those of an
    issuer are. The route is there only where the operator configured clients.
    """

    tenant_id: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: Sequence[str] = ()
    """What to ask for. Default: all that the client was granted."""

    def __post_init__(self) -> None:
        _require_lists(scopes=self.scopes)


Tokens = ClientCredentials | SessionTokens | TokenFunction
"""Where calls get their token from."""


@dataclass(frozen=True)
class Retry:
    """Waits at random below a bound that doubles, and never shorter than the service says."""

    max_attempts: float = 4
    """The first one included; infinity where the deadline alone bounds them."""
    initial_backoff: float = 0.1
    max_backoff: float = 5.0
    on_retry: Callable[[PlatformError, float], None] | None = None
    """Called before each wait."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts must be at least 1")
        if not 0 <= self.initial_backoff <= self.max_backoff:
            raise ValueError("backoff must be 0 <= initial_backoff <= max_backoff")


@dataclass(frozen=True)
class Options:
    deadline: float = 10.0
    """Covers all attempts of a call, and the token that it needs."""
    retry: Retry = field(default_factory=Retry)
    receipts: Literal["whole", "brief", "none"] | None = None
    """
    A brief receipt proves a position only, and is a tenth as long. Default: what the service gives unasked, which is
    whole ones, and brief ones in bulk calls.
    """
    log_keys: Sequence[str] = ()
    """
    Verifier keys of the tenant's log, from the operator. With any, every answer must have a receipt of the question
    that was asked.
    """
    caller: v1.Caller | None = None
    """
    Who the program is: its tenant, principal, subject and source. With log keys, records of any other caller are
    refused. Default: whom the latest `who_am_i` named, which is only as trustworthy as the service's address.
    """
    understood_obligations: Sequence[str] = ()
    """Ids of the obligations that the program meets. Named in every question that names none itself."""
    understood_parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the parameters that it knows, by obligation; of one that is not here it knows all."""
    discovery_max_age: float = 60.0
    """How long capabilities and bootstrap are kept."""
    dpop: bool | EllipticCurvePrivateKey = False
    """Bind tokens to a key (RFC 9449): one made for this client, or the given one on P-256."""

    def __post_init__(self) -> None:
        if not self.deadline > 0:
            raise ValueError("the deadline must be above 0")
        _require_lists(log_keys=self.log_keys, understood_obligations=self.understood_obligations)
        for key in self.log_keys:
            parse_log_key(key)


def _require_lists(**given: Sequence[str]) -> None:
    """A text is a list too, of its letters."""
    for name, texts in given.items():
        if isinstance(texts, (str, bytes)):
            raise ValueError(f"{name} are a list of texts")


def require_safe_url(url: str) -> None:
    """Credentials never travel in plaintext, but for this machine's own addresses."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise ValueError(f"{url!r} is no https URL")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
