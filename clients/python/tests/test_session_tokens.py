"""Tokens of the service's own session route: what is asked for, and what its refusals become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest

from svc_platform_client import Options, PlatformClient, PlatformError, Retry, SessionTokens

SECRET = SessionTokens("tenant-a", "payroll", "s3cret", ["policy.read"])


class Service(BaseHTTPRequestHandler):
    """The session route alone."""

    answer: tuple[int, Any] = (500, None)
    asked: list[tuple[str, Any]]

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.asked.append((self.path, json.loads(self.rfile.read(length))))
        status, members = self.answer
        body = json.dumps(members).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[tuple[type[Service], str]]:
    handler = type("Handler", (Service,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def envelope(code: str, reason: str, **more: Any) -> dict[str, Any]:
    error = {"code": code, "reason": reason, "message": "no", "request_id": "r-1", **more}
    return {"service": "svc", "error": error}


@pytest.mark.parametrize(
    ("status", "answer", "code", "reason", "retry_after"),
    [
        (401, envelope("unauthenticated", "invalid_client"), "UNAUTHENTICATED", "invalid_client", None),
        (
            429,
            envelope("resource_exhausted", "rate_limited", retry_after_seconds=7),
            "RESOURCE_EXHAUSTED",
            "rate_limited",
            7.0,
        ),
        (404, envelope("not_found", "unknown_route"), "NOT_FOUND", "unknown_route", None),
        (404, {}, "UNIMPLEMENTED", "", None),
        (502, "proxy", "UNAVAILABLE", "", None),
        (418, {"error": {"code": "none"}}, "UNKNOWN", "", None),
        (200, {}, "UNKNOWN", "", None),
        (200, {"access_token": "a b"}, "UNAUTHENTICATED", "", None),
    ],
)
def test_refusals(
    service: tuple[type[Service], str],
    status: int,
    answer: Any,
    code: str,
    reason: str,
    retry_after: float | None,
) -> None:
    handler, url = service
    handler.answer = (status, answer)
    options = Options(retry=Retry(max_attempts=1))
    with PlatformClient(url, tokens=SECRET, options=options) as client, pytest.raises(PlatformError) as raised:
        client.who_am_i()
    error = raised.value
    assert (error.code, error.reason, error.retry_after) == (grpc.StatusCode[code], reason, retry_after)
    asked = {"tenant_id": "tenant-a", "client_id": "payroll", "client_secret": "s3cret"}
    assert handler.asked == [("/v1/sdk/session", {**asked, "requested_scopes": ["policy.read"]})]
    assert "s3cret" not in str(error) + repr(SECRET)


def test_no_key_is_bound() -> None:
    with pytest.raises(ValueError, match="DPoP"):
        PlatformClient("http://localhost:1", tokens=SECRET, options=Options(dpop=True))
