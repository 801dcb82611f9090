"""Replaced certificate files take effect while calls go on: none fails, and tokens fit certificates."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import os
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from svc_platform_client import AsyncPlatformClient, ClientCredentials, Options, PlatformClient, Retry, Tls, v1
from svc_platform_client._certificates import Certificates, Connections, Identity

WHO_AM_I = "/platform.sdk.v1.DiscoveryService/WhoAmI"
# A call that fails is seen to fail.
ONCE = Options(retry=Retry(max_attempts=1))


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.pem = self._sign("authority", self._key, is_authority=True)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Certificate and key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._sign(name, key, is_authority=False), pem

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, is_authority: bool) -> bytes:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(
            issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]),
            subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(hours=1),
            not_valid_after=now + datetime.timedelta(hours=1),
        )
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        builder = builder.add_extension(x509.BasicConstraints(is_authority, None), True)
        builder = builder.add_extension(own, False).add_extension(signer, False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


@dataclass
class Deployment:
    """An issuer that binds tokens to the certificate, and a service that looks whether they are."""

    folder: Path
    authority: Authority
    url: str = ""
    issuer: str = ""
    granted: list[str] = field(default_factory=list)
    """What each token was bound to."""

    @property
    def tls(self) -> Tls:
        return Tls(self.folder / "ca.pem", self.folder / "client.pem", self.folder / "client.key")

    @property
    def tokens(self) -> ClientCredentials:
        return ClientCredentials(self.issuer, "payroll")

    def write(self, name: str, data: bytes) -> None:
        """As those do who renew certificates: beside it, and then in its place."""
        beside = self.folder / f"{name}.new"
        beside.write_bytes(data)
        os.replace(beside, self.folder / name)

    def rotate(self) -> None:
        cert, key = self.authority.issue("payroll")
        self.write("client.pem", cert)
        self.write("client.key", key)


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path, Authority())
    cert, key = deployment.authority.issue("server")
    for name, data in (("ca.pem", deployment.authority.pem), ("server.pem", cert), ("server.key", key)):
        deployment.write(name, data)
    deployment.rotate()
    issuer = start_issuer(deployment)
    server = start_service(deployment, cert, key)
    try:
        yield deployment
    finally:
        server.stop(None).wait()
        issuer.shutdown()
        issuer.server_close()


def start_issuer(deployment: Deployment) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({"issuer": deployment.issuer, "token_endpoint": f"{deployment.issuer}/token"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            assert isinstance(self.connection, ssl.SSLSocket)
            shown = hashlib.sha256(self.connection.getpeercert(binary_form=True) or b"").hexdigest()
            deployment.granted.append(shown)
            self.answer({"access_token": shown, "token_type": "Bearer", "expires_in": 3600})

        def answer(self, members: dict[str, object]) -> None:
            body = json.dumps(members).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=deployment.folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(deployment.folder / "server.pem", deployment.folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    deployment.issuer = f"https://localhost:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def start_service(deployment: Deployment, cert: bytes, key: bytes) -> grpc.Server:
    def who_am_i(_: bytes, context: grpc.ServicerContext) -> bytes:
        pem = bytes(context.auth_context()["x509_pem_cert"][0]).decode()
        shown = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {shown}":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "the token is bound to another certificate")
        return v1.WhoAmIResponse(service=shown).SerializeToString()

    server = grpc.server(ThreadPoolExecutor(8))
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(who_am_i)
    service, method = WHO_AM_I.strip("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    credentials = grpc.ssl_server_credentials([(key, cert)], deployment.authority.pem, require_client_auth=True)
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    deployment.url = f"https://localhost:{port}"
    return server


def test_a_certificate_is_replaced_while_calls_go_on(deployed: Deployment) -> None:
    with (
        PlatformClient(deployed.url, tls=deployed.tls, tokens=deployed.tokens, options=ONCE) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        seen = {client.who_am_i().service}
        for _ in range(3):
            stop = threading.Event()

            def call_on(stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    client.who_am_i()

            calls = [pool.submit(call_on) for _ in range(4)]
            deployed.rotate()
            shown = client.who_am_i().service
            stop.set()
            for call in calls:
                call.result()
            assert shown not in seen
            seen.add(shown)
    assert len(deployed.granted) == len(seen) == 4


def test_the_same_awaited(deployed: Deployment) -> None:
    async def work() -> None:
        async with AsyncPlatformClient(deployed.url, tls=deployed.tls, tokens=deployed.tokens, options=ONCE) as client:
            seen = {(await client.who_am_i()).service}
            for _ in range(3):
                under_way = [asyncio.create_task(client.who_am_i()) for _ in range(4)]
                await asyncio.sleep(0)
                deployed.rotate()
                answers = await asyncio.gather(*under_way, *(client.who_am_i() for _ in range(4)))
                seen |= {answer.service for answer in answers}
            assert len(seen) == 4

    asyncio.run(work())
    assert len(deployed.granted) == 4


def test_half_a_replacement_and_files_that_are_empty_for_a_moment_change_nothing(deployed: Deployment) -> None:
    with PlatformClient(deployed.url, tls=deployed.tls, tokens=deployed.tokens, options=ONCE) as client:
        before = client.who_am_i().service
        cert, key = deployed.authority.issue("payroll")
        for name, data in (("client.pem", cert), ("client.key", b""), ("client.pem", b""), ("ca.pem", b"")):
            deployed.write(name, data)
            assert client.who_am_i().service == before, name
        (deployed.folder / "client.key").unlink()
        assert client.who_am_i().service == before
        for name, data in (("ca.pem", deployed.authority.pem), ("client.key", key), ("client.pem", cert)):
            deployed.write(name, data)
        assert client.who_am_i().service != before
        for name in ("client.key", "ca.pem"):
            deployed.write(name, b"")
            with pytest.raises(OSError):
                PlatformClient(deployed.url, tls=deployed.tls)


def test_a_connection_goes_on_until_its_last_call_is_done(deployed: Deployment) -> None:
    dialed: list[Identity] = []

    def dial(identity: Identity) -> int:
        dialed.append(identity)
        return len(dialed)

    connections = Connections(Certificates(deployed.tls), dial)
    first, again = connections.acquire(), connections.acquire()
    assert first is again
    # Written again with the same content: no other connection.
    deployed.write("ca.pem", deployed.authority.pem)
    assert connections.acquire() is first
    assert connections.release(first) == []
    deployed.rotate()
    second = connections.acquire()
    assert (first.channel, second.channel) == (1, 2)
    assert connections.release(first) == []
    assert connections.release(again) == [1]
    assert connections.release(second) == []
    assert connections.acquire() is second
    deployed.rotate()
    third = connections.acquire()
    assert sorted(connections.close()) == [2, 3]
    deployed.rotate()
    assert connections.acquire() is third
