"""Detached signatures: the vectors that all languages share, and that only what was signed is released."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import stat
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from permissive_platform import PermissivePlatform
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer._key import Key, SSlibKey

from svc_platform_client import v1
from svc_platform_client.enforce import (
    EnforcementError,
    Enforcer,
    KeyProvider,
    LocalKey,
    LocalSigningKey,
    SigningKey,
    TdfKey,
    create_key_file,
    create_public_key_file,
    create_signing_key_file,
    key_file,
)
from svc_platform_client.enforce._signature import (
    pre_authentication_encoding,
    read_signature,
    require_content,
    require_signature,
)

_FOLDER = Path(__file__).parents[2] / "conformance/vectors"
VECTORS = json.loads((_FOLDER / "detached-signature.json").read_text())
STATEMENTS = json.loads((_FOLDER / "signed-statement.json").read_text())
KEY: dict[str, Any] = VECTORS["key"]
GOOD = base64.b64decode(VECTORS["vectors"][1]["signature"])
RESOURCE = {"kind": "test"}


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.fixture
def platform() -> PermissivePlatform:
    return PermissivePlatform()


def enforcer(platform: PermissivePlatform, folder: Path, *keys: KeyProvider | SigningKey | TdfKey) -> Enforcer:
    own = keys or tuple(LocalSigningKey(jwk["kid"], jwk) for jwk in STATEMENTS["keys"])
    return Enforcer(platform, application="test", keys=own, spool_directory=folder / "spool")


def failure(work: Any) -> str:
    with pytest.raises(EnforcementError) as caught:
        work()
    return caught.value.failure


def opens(subject: Enforcer, folder: Path, signature: bytes, data: bytes) -> str | None:
    """Opens to a file and to a stream; what failed, where nothing at all was released."""
    (folder / "signature").write_bytes(signature)
    (folder / "data").write_bytes(data)
    failures: list[str | None] = []
    stream = io.BytesIO()
    for target in (folder / "opened", stream):
        try:
            subject.open(folder / "data", target, signature=folder / "signature", replace=True)
            failures.append(None)
        except EnforcementError as error:
            failures.append(error.failure)
    assert failures[0] == failures[1]
    if failures[0] is None:
        assert (folder / "opened").read_bytes() == data == stream.getvalue()
        (folder / "opened").unlink()
        (folder / "opened.receipts.json").unlink()
    else:
        assert stream.getvalue() == b""
    assert [path.name for path in folder.iterdir() if "opened" in path.name] == []
    assert [path.name for path in (folder / "spool").glob("*") if path.name != "passing"] == []
    return failures[0]


def test_what_is_signed_is_the_encoding_of_dsse() -> None:
    """The protocol's own example (github.com/secure-systems-lab/dsse, protocol.md, "Test Vectors")."""
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@pytest.mark.parametrize(
    "vector",
    VECTORS["vectors"] + STATEMENTS["vectors"],
    ids=lambda it: it.get("refused", f"size {it.get('data_size')}"),
)
def test_vectors(vector: dict[str, Any], platform: PermissivePlatform, tmp_path: Path) -> None:
    data = pattern(vector.get("data_size", 100))
    expected = "not_authentic" if "refused" in vector else None
    subject = enforcer(platform, tmp_path)
    assert opens(subject, tmp_path, base64.b64decode(vector["signature"]), data) == expected


@pytest.mark.parametrize("good", [GOOD, *(base64.b64decode(STATEMENTS["vectors"][n]["signature"]) for n in (3, 5))])
def test_every_byte_counts(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "signature"
    path.write_bytes(good)
    reference = read_signature(path).key["reference"]
    [jwk] = [jwk for jwk in STATEMENTS["keys"] if jwk["kid"] == reference]
    key = LocalSigningKey(reference, jwk)
    for at in range(len(good)):
        changed = bytearray(good)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert failure(lambda: require_signature(read_signature(path), key)) == "not_authentic", at
    path.write_bytes(good)
    binding = read_signature(path).binding
    for at in range(100):
        other = bytearray(pattern(100))
        other[at] ^= 1
        assert failure(lambda other=other: list(require_content([bytes(other)], binding))) == "not_authentic", at


@pytest.mark.parametrize("algorithm", ["EdDSA", "ES256"])
def test_verified_by_securesystemslib(algorithm: Any, platform: PermissivePlatform, tmp_path: Path) -> None:
    create_signing_key_file(tmp_path / "signer.key", "signer", algorithm)
    create_public_key_file(tmp_path / "signer.key", tmp_path / "signer.pem", "pem")
    public = load_pem_public_key((tmp_path / "signer.pem").read_bytes())
    key: Key = SSlibKey.from_crypto(cast(Any, public))
    key.keyid = ""
    trusted = [key]
    (tmp_path / "data").write_bytes(pattern(100))
    subject = enforcer(platform, tmp_path, key_file(tmp_path / "signer.key"))
    request: dict[str, Any] = {"profile": "detached_signature", "resource": RESOURCE}
    for name, bundle in (("data.sig", False), ("data.bundle", True)):
        subject.protect(tmp_path / "data", tmp_path / name, bundle=bundle, **request)
        file = json.loads((tmp_path / name).read_text())
        envelope = Envelope.from_dict(file["dsseEnvelope"] if bundle else file)
        envelope.verify(trusted, 1)
        statement = json.loads(envelope.payload)
        assert statement["subject"][0]["digest"]["sha256"] == hashlib.sha256(pattern(100)).hexdigest()
        envelope.payload = envelope.payload.replace(b"decision_id", b"decision-id")
        with pytest.raises(VerificationError):
            envelope.verify(trusted, 1)
        subject.open(tmp_path / "data", tmp_path / "copy", signature=tmp_path / name, replace=True)


@pytest.mark.parametrize("size", [0, 1, 99, 101, 5_000_000])
def test_data_of_another_size(size: int, platform: PermissivePlatform, tmp_path: Path) -> None:
    assert opens(enforcer(platform, tmp_path), tmp_path, GOOD, pattern(size)) == "not_authentic"


def test_signed_opened_signed_anew_and_opened_with_the_new_key(platform: PermissivePlatform, tmp_path: Path) -> None:
    for name in ("one", "two"):
        create_signing_key_file(tmp_path / f"{name}.key", name)
    create_signing_key_file(tmp_path / "false.key", "one")
    create_public_key_file(tmp_path / "one.key", tmp_path / "one.pub")
    assert "d" not in json.loads((tmp_path / "one.pub").read_text())
    (tmp_path / "one.pub").chmod(0o644)
    one, two, impostor, verifier = (
        enforcer(platform, tmp_path, LocalKey("local", bytes(32)), *keys)
        for keys in (
            (key_file(tmp_path / "one.key"),),
            (key_file(tmp_path / "two.key"),),
            (key_file(tmp_path / "false.key"), key_file(tmp_path / "two.key")),
            (key_file(tmp_path / "one.pub"), key_file(tmp_path / "two.key")),
        )
    )
    data, signature, anew = pattern(3_000_000), tmp_path / "data.sig", tmp_path / "anew.sig"
    (tmp_path / "data").write_bytes(data)
    outcome = one.protect(
        tmp_path / "data", signature, profile="detached_signature", resource=RESOURCE, labels=["b", "a"]
    )
    assert outcome.artifact_digest == f"sha256:{hashlib.sha256(signature.read_bytes()).hexdigest()}"
    assert stat.S_IMODE(signature.stat().st_mode) == 0o600
    assert platform.registrations[0].artifact_profile == v1.ARTIFACT_PROFILE_DETACHED_SIGNATURE
    assert platform.questions[0].content_digest == f"sha256:{hashlib.sha256(data).hexdigest()}"

    def open_with(subject: Enforcer, by: Path) -> None:
        subject.open(tmp_path / "data", tmp_path / "copy", signature=by, replace=True)
        assert (tmp_path / "copy").read_bytes() == data

    assert failure(lambda: open_with(two, signature)) == "invalid"
    assert failure(lambda: open_with(impostor, signature)) == "not_authentic"
    open_with(verifier, signature)
    # With the public half it cannot be signed, and with it and another key it can be signed again.
    public = enforcer(platform, tmp_path, key_file(tmp_path / "one.pub"))
    assert failure(lambda: public.protect(b"", "", profile="detached_signature", resource=RESOURCE)) == "invalid"  # type: ignore[arg-type]

    def sign_anew(subject: Enforcer) -> object:
        return subject.rewrap(signature, anew, profile="detached_signature", new_key_reference="two")

    assert failure(lambda: sign_anew(impostor)) == "not_authentic"
    assert not anew.exists()
    sign_anew(verifier)
    open_with(two, anew)
    events = [event for event in platform.events.values() if event.outcome == "completed"]
    assert {event.artifact_profile for event in events} == {v1.ARTIFACT_PROFILE_DETACHED_SIGNATURE}
    assert list(tmp_path.glob(".*.partial")) == []


class Wrong(LocalSigningKey):
    """A key service that signs something else."""

    can_sign = True

    def sign(self, message: bytes) -> bytes:
        return bytes(64)


def test_a_key_service_that_signs_something_else(platform: PermissivePlatform, tmp_path: Path) -> None:
    subject = enforcer(platform, tmp_path, Wrong(KEY["kid"], KEY))

    def work() -> object:
        return subject.protect(io.BytesIO(b"data"), tmp_path / "made", profile="detached_signature", resource=RESOURCE)

    assert failure(work) == "unavailable"
    assert not (tmp_path / "made").exists()


def test_neither_data_nor_signature_is_replaced_by_what_is_made_of_it(
    platform: PermissivePlatform, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(pattern(100))
    (tmp_path / "signature").write_bytes(GOOD)
    (tmp_path / "link").symlink_to("data")
    create_signing_key_file(tmp_path / "key", "own")
    subject = enforcer(platform, tmp_path, key_file(tmp_path / "key"), LocalSigningKey(KEY["kid"], KEY))
    for target in ("data", "link"):
        assert (
            failure(
                lambda target=target: subject.protect(
                    tmp_path / "data",
                    tmp_path / target,
                    profile="detached_signature",
                    resource=RESOURCE,
                    replace=True,
                )
            )
            == "invalid"
        )
    signature = tmp_path / "signature"
    assert failure(lambda: subject.open(tmp_path / "data", signature, signature=signature, replace=True)) == "invalid"
    assert (tmp_path / "data").read_bytes() == pattern(100)
    assert signature.read_bytes() == GOOD


def test_streams_are_signed_and_verified(platform: PermissivePlatform, tmp_path: Path) -> None:
    create_signing_key_file(tmp_path / "key")
    subject = enforcer(platform, tmp_path, key_file(tmp_path / "key"))
    made, opened, data = io.BytesIO(), io.BytesIO(), pattern(140_000)
    subject.protect(io.BytesIO(data), made, profile="detached_signature", resource=RESOURCE)
    (tmp_path / "sig").write_bytes(made.getvalue())
    assert failure(lambda: subject.open(io.BytesIO(data[:-1]), opened, signature=tmp_path / "sig")) == "not_authentic"
    assert opened.getvalue() == b""
    subject.open(io.BytesIO(data), opened, signature=tmp_path / "sig")
    assert opened.getvalue() == data
    outcomes = [event.outcome for event in platform.events.values()]
    assert outcomes == ["completed", "failed", "releasing", "completed"]


@pytest.mark.parametrize(
    "jwk",
    [
        {"kty": "OKP", "crv": "X25519", "x": KEY["x"]},
        {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"},
        {"kty": "OKP", "crv": "Ed25519", "x": f"{KEY['x']}="},
        {**KEY, "d": "TM0Imyj_ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U-4pvs"},
        {**KEY, "d": None},
        {},
    ],
)
def test_what_is_no_signing_key(jwk: dict[str, Any]) -> None:
    assert failure(lambda: LocalSigningKey("local", jwk)) == "invalid"


def test_a_wrapping_key_signs_nothing_and_a_signing_key_wraps_nothing(
    platform: PermissivePlatform, tmp_path: Path
) -> None:
    create_key_file(tmp_path / "wraps")
    create_signing_key_file(tmp_path / "signs")
    assert failure(lambda: create_public_key_file(tmp_path / "wraps", tmp_path / "public")) == "invalid"
    for key, profile in (("wraps", "detached_signature"), ("signs", "envelope"), ("signs", "tdf")):
        subject = enforcer(platform, tmp_path, key_file(tmp_path / key))
        request: Any = {"profile": profile, "resource": RESOURCE}
        work = lambda subject=subject, request=request: subject.protect(io.BytesIO(b""), io.BytesIO(), **request)  # noqa: E731
        assert failure(work) == "invalid"
    (tmp_path / "signs").chmod(0o644)
    assert failure(lambda: key_file(tmp_path / "signs")) == "invalid"
