"""Content keys under a key that OpenBao or Vault keeps, by the documented API of its transit engine."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from urllib.parse import quote

import httpx

from .._certificates import ssl_context
from ..options import Tls, require_safe_url
from .errors import EnforcementError
from .keys import Transport, require_content_key

File = str | os.PathLike[str]


class TransitKey:
    """The key-encryption key never comes here: the engine wraps and unwraps, bound to the associated data."""

    provider = "transit"
    transport: Transport = "wrapped_key_reference"

    def __init__(
        self,
        address: str,
        *,
        token: Callable[[], str],
        key: str,
        reference: str,
        mount: str = "transit",
        namespace: str | None = None,
        ca: File | None = None,
        timeout: float = 10.0,
    ) -> None:
        """
        `address`: such as `https://bao.example.com:8200`; http on loopback alone.
        `token`: gives the token of this workload; asked each time, so that it may be renewed.
        `key`: name of the key, of type `aes256-gcm96` or another with associated data.
        `reference`: what decisions are asked about: one that the deployment manages (`SVC_KEY_REFERENCES`), such as
        `kms://bao/payroll`.
        `ca`: PEM file of the authorities that its certificate may come from; by default those that Python trusts.
        `timeout`: seconds for one call.
        """
        try:
            require_safe_url(address)
        except ValueError:
            raise EnforcementError("invalid", "keys travel over https alone, save on loopback") from None
        self.reference = reference
        self._base, self._mount, self._key = f"{address.rstrip('/')}/v1", mount, key
        self._token, self._namespace, self._timeout = token, namespace, timeout
        self._tls = ssl_context(Tls(ca=ca))

    def wrap(self, content_key: bytes, associated_data: bytes) -> str:
        return self._call("encrypt", {"plaintext": _base64(content_key)}, associated_data, "ciphertext")

    def unwrap(self, wrapped: str, associated_data: bytes) -> bytes:
        plaintext = self._call("decrypt", {"ciphertext": wrapped}, associated_data, "plaintext")
        try:
            content_key = base64.b64decode(plaintext, validate=True)
        except ValueError:
            content_key = b""
        return require_content_key(content_key)

    def _call(self, operation: str, given: Mapping[str, str], associated_data: bytes, member: str) -> str:
        path = "/".join(quote(part, safe="") for part in (*self._mount.split("/"), operation, self._key))
        headers = {"x-vault-request": "true"}
        if self._namespace is not None:
            headers["x-vault-namespace"] = self._namespace
        body = {**given, "associated_data": _base64(associated_data)}
        try:
            headers["x-vault-token"] = self._token()
            # A redirect is not followed: the key would go to the host that it names.
            with httpx.Client(verify=self._tls, timeout=self._timeout, follow_redirects=False) as client:
                response = client.post(f"{self._base}/{path}", headers=headers, json=body)
        except Exception as error:
            raise _unavailable(str(error) or type(error).__name__) from error
        # What it cannot decrypt with this associated data is 400; everything else says nothing of the ciphertext.
        if operation == "decrypt" and response.status_code == 400:
            raise EnforcementError("not_authentic", "the content key does not open with this key and header")
        text = _member(response, member) if response.status_code == 200 else None
        if text is None:
            raise _unavailable(f"HTTP {response.status_code}")
        return text


def _member(response: httpx.Response, member: str) -> str | None:
    try:
        value = response.json()["data"][member]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unavailable(why: str) -> EnforcementError:
    return EnforcementError("unavailable", f"the key service gave no answer: {why}")
