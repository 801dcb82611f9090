"""Local enforcement: the vectors that all languages share, and what is refused, kept and left behind."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from logs import Signer, receipt_of
from permissive_platform import PermissivePlatform

from svc_platform_client import v1
from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey, create_key_file, key_file
from svc_platform_client.enforce._streams import SEGMENT_SIZES, decrypt, encrypt

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
STREAMS = json.loads((VECTORS / "streaming-aead.json").read_text())["vectors"]
OLD_ENVELOPES, ENVELOPES = (
    json.loads((VECTORS / name).read_text()) for name in ("envelope.json", "committed-envelope.json")
)
RESOURCE = {"kind": "test"}


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.mark.parametrize("vector", STREAMS, ids=lambda it: f"{it['aead']}-{it['plaintext_size']}")
def test_streams_are_byte_for_byte_what_tink_made(vector: dict[str, Any]) -> None:
    randoms = [bytes.fromhex(vector["salt"]), bytes.fromhex(vector["nonce_prefix"])]
    key, bound = bytes.fromhex(vector["key"]), bytes.fromhex(vector["associated_data"])
    plaintext = pattern(vector["plaintext_size"])
    made = b"".join(encrypt(io.BytesIO(plaintext), vector["aead"], key, bound, lambda _: randoms.pop(0)))
    assert hashlib.sha256(made).hexdigest() == vector["ciphertext_sha256"]
    assert b"".join(decrypt(io.BytesIO(made), vector["aead"], key, bound)) == plaintext


@pytest.fixture
def platform() -> PermissivePlatform:
    return PermissivePlatform()


def enforcer(platform: PermissivePlatform, folder: Path, file: dict[str, Any] = ENVELOPES, **options: Any) -> Enforcer:
    key = base64.urlsafe_b64decode(file["key"]["k"] + "=")
    keys = [LocalKey(file["key"]["kid"], key), LocalKey("local-other", bytes(32))]
    return Enforcer(platform, application="test", keys=keys, spool_directory=folder / "spool", **options)


def failure(work: Any) -> str:
    with pytest.raises(EnforcementError) as caught:
        work()
    return caught.value.failure


@pytest.mark.parametrize("file", [OLD_ENVELOPES, ENVELOPES], ids=["old form", "committed"])
def test_envelopes(file: dict[str, Any], platform: PermissivePlatform, tmp_path: Path) -> None:
    sealed, opened, rewrapped = (tmp_path / name for name in ("sealed", "opened", "rewrapped"))
    subject = enforcer(platform, tmp_path, file)
    for vector in file["vectors"]:
        sealed.write_bytes(base64.b64decode(vector["envelope"]))
        if "refused" in vector:
            assert failure(lambda: subject.open(sealed, opened)) == "not_authentic", vector["refused"]
            assert not opened.exists()
            continue
        is_committed = file is ENVELOPES
        for source in (sealed, rewrapped):
            if source == rewrapped:
                again = subject.rewrap(sealed, rewrapped, new_key_reference="local-other", replace=True)
                assert again.is_key_committed == is_committed
            assert subject.open(source, opened).is_key_committed == is_committed
            assert opened.read_bytes() == pattern(vector["plaintext_size"])
            opened.unlink()


def test_another_content_key_than_the_header_commits_to_is_not_rewrapped(
    platform: PermissivePlatform, tmp_path: Path
) -> None:
    [vector] = [it for it in ENVELOPES["vectors"] if it.get("refused") == "a commitment to another content key"]
    source = io.BytesIO(base64.b64decode(vector["envelope"]))
    subject, target = enforcer(platform, tmp_path), tmp_path / "chosen"
    assert failure(lambda: subject.rewrap(source, target, new_key_reference="local-other")) == "not_authentic"
    assert not target.exists()
    assert subject.protect(io.BytesIO(b"text"), target, resource=RESOURCE).is_key_committed


def test_every_byte_of_an_envelope_counts(platform: PermissivePlatform, tmp_path: Path) -> None:
    envelope = base64.b64decode(ENVELOPES["vectors"][0]["envelope"])
    subject = enforcer(platform, tmp_path)
    for at in range(len(envelope)):
        changed = bytearray(envelope)
        changed[at] ^= 1
        released = io.BytesIO()
        source = io.BytesIO(bytes(changed))
        assert failure(lambda source=source, released=released: subject.open(source, released)) in (
            "not_authentic",
            "invalid",
        )
        assert released.getvalue() == b"", at


def test_a_file_there_and_back(platform: PermissivePlatform, tmp_path: Path) -> None:
    plaintext = os.urandom(2_500_000)
    (tmp_path / "plain").write_bytes(plaintext)
    subject = enforcer(platform, tmp_path)
    sealed = subject.protect(tmp_path / "plain", tmp_path / "sealed", resource=RESOURCE, labels=["b", "a"])
    digest = hashlib.sha256((tmp_path / "sealed").read_bytes()).hexdigest()
    assert sealed.artifact_digest == f"sha256:{digest}" == platform.registrations[0].artifact_digest
    subject.rewrap(tmp_path / "sealed", tmp_path / "rewrapped", new_key_reference="local-other")
    subject.open(tmp_path / "rewrapped", tmp_path / "opened")
    assert (tmp_path / "opened").read_bytes() == plaintext
    assert failure(lambda: subject.open(tmp_path / "sealed", tmp_path / "opened")) == "exists"
    assert [event.outcome for event in platform.events.values()] == [*["completed"] * 3, "failed"]
    assert list((tmp_path / "spool").glob("*.json")) == []
    assert list(tmp_path.glob(".*.partial")) == []


def test_streams(platform: PermissivePlatform, tmp_path: Path) -> None:
    sealed, opened = io.BytesIO(), io.BytesIO()
    enforcer(platform, tmp_path).protect(io.BytesIO(b"text"), sealed, resource=RESOURCE)
    enforcer(platform, tmp_path).open(io.BytesIO(sealed.getvalue()), opened)
    assert opened.getvalue() == b"text"
    assert [event.outcome for event in platform.events.values()] == ["completed", "releasing", "completed"]


def test_what_is_denied_leaves_nothing_and_evidence(platform: PermissivePlatform, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"text")

    def work(**options: Any) -> object:
        return enforcer(platform, tmp_path, **options).protect(
            tmp_path / "plain", tmp_path / "sealed", resource=RESOURCE
        )

    platform.allow = False
    assert failure(work) == "not_permitted"
    assert [event.event_type for event in platform.events.values()] == [v1.EVIDENCE_EVENT_TYPE_DENY]
    platform.allow = True
    platform.obligations = [v1.Obligation(id="tell")]
    assert failure(work) == "not_permitted"
    assert failure(lambda: work(obligations={"tell": lambda _: False})) == "not_permitted"
    assert not (tmp_path / "sealed").exists()
    work(obligations={"tell": lambda _: True})


def test_a_receipt_of_another_decision_is_no_answer(platform: PermissivePlatform, tmp_path: Path) -> None:
    signer = Signer(bytes(32))
    platform.receipt = receipt_of(signer, 5, 2)
    subject = enforcer(platform, tmp_path, log_keys=[signer.log_key])
    assert (
        failure(lambda: subject.protect(io.BytesIO(b"text"), tmp_path / "sealed", resource=RESOURCE)) == "unavailable"
    )
    # No key was asked for.
    assert len(platform.questions) == 1
    assert not (tmp_path / "sealed").exists()


def test_evidence_that_cannot_be_sent(platform: PermissivePlatform, tmp_path: Path) -> None:
    now = [1_000_000.0]
    (tmp_path / "plain").write_bytes(b"text")
    subject = enforcer(platform, tmp_path, now=lambda: now[0])

    def work(name: str) -> Any:
        return subject.protect(tmp_path / "plain", tmp_path / name, resource=RESOURCE)

    platform.is_offline = True
    assert failure(lambda: work("one")) == "unavailable"
    assert not (tmp_path / "one").exists()
    assert failure(lambda: work("one")) == "evidence_overdue"
    platform.is_offline = False
    subject.flush()
    platform.obligations = [v1.Obligation(id="evidence-within", parameters={"seconds": "60"})]
    platform.is_offline = True
    assert work("two").is_evidence_pending
    now[0] += 61
    assert failure(lambda: work("three")) == "evidence_overdue"
    platform.is_offline = False
    assert subject.flush() == (1, 0)


def test_the_digest_of_the_plaintext_is_named_where_that_is_wanted(
    platform: PermissivePlatform, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_bytes(b"text")
    seen: list[tuple[int, int | None]] = []
    enforcer(platform, tmp_path).protect(
        tmp_path / "plain",
        tmp_path / "sealed",
        resource=RESOURCE,
        with_content_digest=True,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    named = f"sha256:{hashlib.sha256(b'text').hexdigest()}"
    assert [question.content_digest for question in platform.questions] == [named, named]
    assert seen == [(4, 8), (8, 8)]

    def work() -> object:
        return enforcer(platform, tmp_path).protect(
            io.BytesIO(b"text"), io.BytesIO(), resource=RESOURCE, with_content_digest=True
        )

    assert failure(work) == "invalid"


def test_a_plaintext_that_changes_while_it_is_read(platform: PermissivePlatform, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"text")

    def change(done: int, _: int | None) -> None:
        if done == 4:
            (tmp_path / "plain").write_bytes(b"TEXT")

    def work() -> object:
        return enforcer(platform, tmp_path).protect(
            tmp_path / "plain", tmp_path / "sealed", resource=RESOURCE, with_content_digest=True, on_progress=change
        )

    assert failure(work) == "invalid"
    assert not (tmp_path / "sealed").exists()


def test_an_artifact_of_another_resource_than_expected(platform: PermissivePlatform, tmp_path: Path) -> None:
    sealed = io.BytesIO()
    subject = enforcer(platform, tmp_path)
    subject.protect(io.BytesIO(b"text"), sealed, resource={"kind": "test", "id": "1"})
    for resource in ({"kind": "other"}, {"kind": "test", "id": "2"}, {"mime_type": "text/plain"}):
        assert (
            failure(
                lambda resource=resource: subject.open(
                    io.BytesIO(sealed.getvalue()), tmp_path / "opened", resource=resource
                )
            )
            == "invalid"
        )
    subject.open(io.BytesIO(sealed.getvalue()), tmp_path / "opened", resource={"kind": "test", "id": "1"})


def test_what_progress_raises_ends_the_operation(platform: PermissivePlatform, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enforcer(platform, tmp_path).protect(
            io.BytesIO(b"text"), tmp_path / "sealed", resource=RESOURCE, on_progress=stop
        )
    assert [event.outcome for event in platform.events.values()] == ["failed"]
    assert [path.name for path in tmp_path.iterdir()] == ["spool"]


def test_two_keys_of_one_name(platform: PermissivePlatform, tmp_path: Path) -> None:
    keys = [LocalKey("local", bytes(32)), LocalKey("local", bytes(32))]
    assert failure(lambda: Enforcer(platform, application="test", keys=keys, spool_directory=tmp_path)) == "invalid"


class Trickle(io.RawIOBase):
    """Takes a byte at a time."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: Any, /) -> int:
        self.taken += bytes(data[:1])
        return 1


def test_a_stream_that_takes_a_part_only(platform: PermissivePlatform, tmp_path: Path) -> None:
    sealed, opened = Trickle(), Trickle()
    subject = enforcer(platform, tmp_path)
    subject.protect(io.BytesIO(b"text"), sealed, resource=RESOURCE)  # type: ignore[arg-type]
    subject.open(io.BytesIO(sealed.taken), opened)  # type: ignore[arg-type]
    assert opened.taken == b"text"


def test_key_files(tmp_path: Path) -> None:
    create_key_file(tmp_path / "key", "local-file")
    assert key_file(tmp_path / "key").reference == "local-file"
    assert failure(lambda: create_key_file(tmp_path / "key")) == "exists"
    (tmp_path / "key").chmod(0o640)
    assert failure(lambda: key_file(tmp_path / "key")) == "invalid"
    assert set(SEGMENT_SIZES) == {"AES256_GCM_HKDF_1MB", "AES256_GCM_HKDF_4KB"}
