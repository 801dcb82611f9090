"""A token that the service calls invalid ends the call, and is not used for the next one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from svc_platform_client import ClientCredentials, PlatformClient, PlatformError, v1

PATH = "/platform.sdk.v1.DiscoveryService/WhoAmI"


class Issuer(BaseHTTPRequestHandler):
    granted = 0

    def do_GET(self) -> None:
        issuer = f"http://{self.headers['host']}"
        self.answer({"issuer": issuer, "token_endpoint": f"{issuer}/token"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Issuer.granted += 1
        self.answer({"access_token": f"token-{Issuer.granted}", "token_type": "Bearer", "expires_in": 300})

    def answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def issuer() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_invalid_token_is_forgotten(issuer: str) -> None:
    seen: list[str] = []

    def who_am_i(request: bytes, context: grpc.ServicerContext) -> bytes:
        seen.append(str(dict(context.invocation_metadata())["authorization"]))
        if len(seen) == 1:
            detail = Any()
            detail.Pack(ErrorInfo(reason="invalid_token", metadata={"request_id": "r-1"}))
            status = Status(code=16, message="withdrawn", details=[detail]).SerializeToString()
            context.set_trailing_metadata((("grpc-status-details-bin", status),))
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "withdrawn")
        return v1.WhoAmIResponse(service="svc").SerializeToString()

    server = grpc.server(ThreadPoolExecutor(2))
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(who_am_i)
    service, method = PATH.strip("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        tokens = ClientCredentials(issuer, "payroll", "secret")
        with PlatformClient(f"http://127.0.0.1:{port}", tokens=tokens) as client:
            with pytest.raises(PlatformError) as raised:
                client.who_am_i()
            assert (raised.value.reason, raised.value.request_id) == ("invalid_token", "r-1")
            assert client.who_am_i().service == "svc"
    finally:
        server.stop(None).wait()
    assert seen == ["Bearer token-1", "Bearer token-2"]
