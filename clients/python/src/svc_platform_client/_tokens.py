"""Tokens: fetched when needed, by one caller for all, and kept until shortly before they expire."""

from __future__ import annotations

import base64
import inspect
import re
import ssl
import threading
import time
from typing import Any, Protocol
from urllib.parse import quote_plus

import grpc
import httpx

from ._certificates import Identity
from ._dpop import Prover
from ._runtime import Body, Runtime, SingleFlight
from .errors import PlatformError, rest_refusal
from .options import ClientCredentials, SessionTokens, TokenFunction, require_safe_url

FETCH_TIMEOUT_SECONDS = 10.0
REFRESH_MARGIN_SECONDS = 30.0
# Of an answer without expires_in.
DEFAULT_LIFETIME_SECONDS = 60.0


class TokenSource(Protocol):
    async def token(self, identity: Identity, timeout: float) -> str:
        """A token for calls of this identity. Raises TimeoutError, PlatformError."""

    def refused(self, token: str) -> None:
        """The service does not take it: it is not handed out again."""


class GivenTokens:
    """From a function of the program's own."""

    def __init__(self, give: TokenFunction) -> None:
        self._give = give

    async def token(self, identity: Identity, timeout: float) -> str:
        given = self._give()
        return checked(await given if inspect.isawaitable(given) else given)

    def refused(self, token: str) -> None: ...


class KeptTokens:
    """Each kept until shortly before it expires; for the identity that it was fetched with, and may be bound to."""

    def __init__(self, runtime: Runtime[Any]) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        # Of the certificate in force, and of the one before, with which calls may be on their way.
        self._tokens: list[tuple[Identity, SingleFlight[str]]] = []

    async def token(self, identity: Identity, timeout: float) -> str:
        return await self._tokens_of(identity).get(timeout, patience=3 * FETCH_TIMEOUT_SECONDS)

    def refused(self, token: str) -> None:
        with self._lock:
            held = [tokens for _, tokens in self._tokens]
        for tokens in held:
            tokens.drop(token)

    def _tokens_of(self, identity: Identity) -> SingleFlight[str]:
        with self._lock:
            for held, tokens in self._tokens:
                if held is identity:
                    return tokens
            made = SingleFlight(self._runtime, lambda: self._fetch(identity.context))
            self._tokens = [(identity, made), *self._tokens[:1]]
            return made

    async def _fetch(self, tls: ssl.SSLContext) -> tuple[str, float]:
        """A token, and the moment (`time.monotonic`) from which on another one is fetched."""
        raise NotImplementedError

    async def _http(
        self, tls: ssl.SSLContext, method: str, url: str, headers: dict[str, str], body: Body | None = None
    ) -> httpx.Response:
        try:
            return await self._runtime.http(tls, method, url, headers, body or Body(), FETCH_TIMEOUT_SECONDS)
        except httpx.HTTPError as error:
            message = f"the issuer cannot be reached: {error or type(error).__name__}"
            raise PlatformError(grpc.StatusCode.UNAVAILABLE, message) from error


class IssuedTokens(KeptTokens):
    """By the client-credentials grant."""

    def __init__(
        self, credentials: ClientCredentials, runtime: Runtime[Any], prover: Prover | None, with_certificate: bool
    ) -> None:
        if credentials.client_secret is None and not with_certificate:
            raise ValueError("a client without a secret needs a certificate")
        super().__init__(runtime)
        self._credentials = credentials
        self._prover = prover
        self._with_certificate = with_certificate
        self._endpoint: str | None = None

    async def _fetch(self, tls: ssl.SSLContext) -> tuple[str, float]:
        if self._endpoint is None:
            self._endpoint = await self._discover(tls)
        asked_at = time.monotonic()
        response = await self._request(tls, self._endpoint)
        answer = members(response)
        if response.status_code != 200 or "access_token" not in answer:
            raise refusal(response, answer)
        expected = "bearer" if self._prover is None else "dpop"
        # RFC 6749 section 7.1, RFC 9449 section 5: a token of a type that was not asked for is not used.
        if str(answer.get("token_type")).lower() != expected:
            raise no_token(f"its token is of type {answer.get('token_type')!r}, not {expected}")
        return granted(answer, asked_at)

    async def _discover(self, tls: ssl.SSLContext) -> str:
        """The token endpoint, from OpenID Connect Discovery 1.0 section 4."""
        issuer = self._credentials.issuer
        response = await self._http(tls, "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration", {})
        document = members(response)
        if response.status_code != 200:
            raise refusal(response, document)
        # Section 4.3: a document that names another issuer is not this issuer's.
        if document.get("issuer") != issuer:
            raise no_token("its discovery document is of another issuer")
        aliases = document.get("mtls_endpoint_aliases")
        endpoint = document.get("token_endpoint")
        if self._with_certificate and isinstance(aliases, dict):  # RFC 8705 section 5
            endpoint = aliases.get("token_endpoint", endpoint)
        try:
            require_safe_url(endpoint if isinstance(endpoint, str) else "")
        except ValueError:
            raise no_token("its discovery document names no token endpoint that is safe to use") from None
        return str(endpoint)

    async def _request(self, tls: ssl.SSLContext, endpoint: str) -> httpx.Response:
        form = {"grant_type": "client_credentials", **self._credentials.parameters}
        headers = {"accept": "application/json"}
        client_id, secret = self._credentials.client_id, self._credentials.client_secret
        if self._credentials.scopes:
            form["scope"] = " ".join(self._credentials.scopes)
        if secret is None:
            form["client_id"] = client_id
        elif self._credentials.auth_method == "client_secret_post":
            form |= {"client_id": client_id, "client_secret": secret}
        else:
            # RFC 6749 section 2.3.1: both halves are form-encoded before they are joined.
            both = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(both.encode('ascii')).decode('ascii')}"
        if self._prover is None:
            return await self._http(tls, "POST", endpoint, headers, Body(form))
        for _ in range(2):
            response = await self._http(
                tls, "POST", endpoint, headers | {"dpop": self._prover.proof("POST", endpoint)}, Body(form)
            )
            # RFC 9449 section 8: asked for a nonce, the request is repeated with it.
            learnt = self._prover.learn(endpoint, response.headers.get("dpop-nonce"))
            if not learnt or members(response).get("error") != "use_dpop_nonce":
                break
        return response


class OwnTokens(KeptTokens):
    """Of the service's session route."""

    def __init__(self, tokens: SessionTokens, runtime: Runtime[Any], origin: str) -> None:
        super().__init__(runtime)
        self._url = f"{origin}/v1/sdk/session"
        self._request = {
            "tenant_id": tokens.tenant_id,
            "client_id": tokens.client_id,
            "client_secret": tokens.client_secret,
            "requested_scopes": list(tokens.scopes),
        }

    async def _fetch(self, tls: ssl.SSLContext) -> tuple[str, float]:
        asked_at = time.monotonic()
        body = Body(json=self._request)
        response = await self._http(tls, "POST", self._url, {"accept": "application/json"}, body)
        answer = members(response)
        if response.status_code != 200 or "access_token" not in answer:
            raise rest_refusal(response.status_code, answer)
        return granted(answer, asked_at)


def granted(answer: dict[str, Any], asked_at: float) -> tuple[str, float]:
    """RFC 6749 section 5.1: the token, and the moment from which on another one is fetched."""
    lifetime = answer.get("expires_in", DEFAULT_LIFETIME_SECONDS)
    if isinstance(lifetime, bool) or not isinstance(lifetime, int | float):
        lifetime = DEFAULT_LIFETIME_SECONDS
    token = checked(answer["access_token"])
    return token, asked_at + lifetime - min(REFRESH_MARGIN_SECONDS, lifetime / 5)


def members(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def refusal(response: httpx.Response, answer: dict[str, Any]) -> PlatformError:
    """RFC 6749 section 5.2: what is refused will be refused again; what cannot be done now, may be later."""
    why = answer.get("error", f"HTTP {response.status_code}")
    if response.status_code < 500 and response.status_code != 429:
        return no_token(str(why))
    return PlatformError(grpc.StatusCode.UNAVAILABLE, f"the issuer gave no token: {why}")


def no_token(why: str) -> PlatformError:
    return PlatformError(grpc.StatusCode.UNAUTHENTICATED, f"the issuer gave no token: {why}")


def checked(token: object) -> str:
    """RFC 6750 section 2.1: nothing else may stand in the header."""
    if not isinstance(token, str) or not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", token):
        raise no_token("what it gave is no token")
    return token
