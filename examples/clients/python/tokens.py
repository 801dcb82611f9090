"""Access tokens by the client-credentials grant, kept until shortly before they expire."""

import threading
import time

import grpc
import requests

from settings import Settings

REFRESH_MARGIN_SECONDS = 30
TIMEOUT_SECONDS = 10


class Tokens(grpc.AuthMetadataPlugin):
    """Puts a token on every call. gRPC asks from threads of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # The issuer sees the client certificate, and binds the token to it (RFC 8705 section 3).
        self._http = requests.Session()
        self._http.cert = (settings.cert, settings.key)
        self._endpoint = self._discover()
        self._lock = threading.Lock()
        self._token = ""
        self._stale_at = 0.0
        # At once, so that credentials that the issuer refuses are known before any call.
        self._fetch()

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        try:
            callback((("authorization", f"Bearer {self.token()}"),), None)
        except Exception as error:  # gRPC wants every failure handed over
            callback((), error)

    def token(self) -> str:
        with self._lock:
            if time.monotonic() >= self._stale_at:
                self._fetch()
            return self._token

    def _discover(self) -> str:
        """Reads the issuer's discovery document (OpenID Connect Discovery 1.0 section 4)."""
        url = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        response = self._http.get(url, timeout=TIMEOUT_SECONDS, verify=self._settings.ca)
        response.raise_for_status()
        document = response.json()
        if document["issuer"] != self._settings.issuer:
            raise ValueError(f"the discovery document is of another issuer, {document['issuer']!r}")
        return document["token_endpoint"]

    def _fetch(self) -> None:
        form = {"grant_type": "client_credentials"}
        if self._settings.scope:
            form["scope"] = self._settings.scope
        credentials = (self._settings.client_id, self._settings.client_secret)
        asked_at = time.monotonic()
        response = self._http.post(
            self._endpoint, data=form, auth=credentials, timeout=TIMEOUT_SECONDS, verify=self._settings.ca
        )
        answer = response.json()
        if not response.ok:
            raise PermissionError(f"the issuer gave no token: {answer.get('error')}")
        lifetime = answer["expires_in"]
        self._token = answer["access_token"]
        self._stale_at = asked_at + lifetime - min(REFRESH_MARGIN_SECONDS, lifetime / 5)
