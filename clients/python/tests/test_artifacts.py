"""Artifacts that must open, evidence that must leave, and what a disk, a stream or another writer does meanwhile."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from permissive_platform import PermissivePlatform

from svc_platform_client import NotPermitted, Options, SessionTokens, permitted, v1
from svc_platform_client._text import visible_line
from svc_platform_client.enforce import (
    EnforcementError,
    Enforcer,
    LocalKey,
    LocalSigningKey,
    create_key_file,
    create_signing_key_file,
    key_file,
    receipts_path_of,
)

RESOURCE = {"kind": "test"}
KEYS = [LocalKey("local-one", bytes([1]) * 32), LocalKey("local-two", bytes([2]) * 32)]
UNSEEN = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x202A, 0x202E, 0x2066, 0x2069)]
SIGNER = LocalSigningKey(
    "local-signer",
    {
        "kty": "OKP",
        "crv": "Ed25519",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    },
)


@pytest.fixture
def platform() -> PermissivePlatform:
    return PermissivePlatform()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_bytes(b"text")
    return tmp_path / "plain"


def enforcer(platform: PermissivePlatform, folder: Path, **options: Any) -> Enforcer:
    given: dict[str, Any] = {"application": "test", "keys": [*KEYS, SIGNER], "spool_directory": folder / "spool"}
    return Enforcer(platform, **given | options)


def failure(work: Any) -> str:
    with pytest.raises(EnforcementError) as caught:
        work()
    return caught.value.failure


def header_of(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(data[29 : 29 + int.from_bytes(data[25:29], "big")])


TEXT = st.text(st.characters(), max_size=8)
ANYTHING = TEXT | TEXT | TEXT | st.none() | st.integers() | st.binary(max_size=4) | st.lists(TEXT, max_size=1)
RESOURCES = st.fixed_dictionaries(
    {"kind": ANYTHING}, optional={name: ANYTHING for name in ("id", "mime_type", "mimeType", "extra")}
)
LABELS = st.lists(ANYTHING, max_size=2) | st.lists(TEXT, max_size=2) | TEXT


@given(RESOURCES, LABELS, st.booleans())
def test_whatever_is_sealed_opens(resource: Any, labels: Any, is_signed: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plain").write_bytes(b"text")
        subject = enforcer(PermissivePlatform(), folder)
        profile: Any = "detached_signature" if is_signed else "envelope"
        try:
            made = subject.protect(
                folder / "plain", folder / "sealed", resource=resource, labels=labels, profile=profile
            )
        except EnforcementError as error:
            assert error.failure == "invalid"
            assert not (folder / "sealed").exists()
            return
        if is_signed:
            opened = subject.open(folder / "plain", folder / "opened", signature=folder / "sealed")
        else:
            opened = subject.open(folder / "sealed", folder / "opened")
            assert header_of(folder / "sealed")["binding"]["resource"].keys() <= {"kind", "id", "mime_type"}
            subject.rewrap(folder / "sealed", folder / "again", new_key_reference="local-two")
            subject.open(folder / "again", folder / "opened", replace=True)
        assert opened.artifact_digest == made.artifact_digest
        assert (folder / "opened").read_bytes() == b"text"


def test_a_resource_has_the_members_of_the_contract(platform: PermissivePlatform, plain: Path) -> None:
    subject, folder = enforcer(platform, plain.parent), plain.parent
    given: Any = {"kind": "k", "id": None, "mimeType": "text/plain", "more": 1}
    subject.protect(plain, folder / "sealed", resource=given)
    assert header_of(folder / "sealed")["binding"]["resource"] == {"kind": "k", "mime_type": "text/plain"}
    subject.open(folder / "sealed", folder / "opened", resource={"kind": "k", "mimeType": "text/plain"})
    platform.questions.clear()
    for other in ({"kind": "k", "id": 8841}, {"kind": "k", "id": b"8841"}, "k", None):
        resource: Any = other
        assert failure(lambda it=resource: subject.protect(plain, folder / "other", resource=it)) == "invalid"
    assert platform.questions == []


def test_a_text_is_not_taken_for_a_list_of_its_letters(platform: PermissivePlatform, plain: Path) -> None:
    folder, subject = plain.parent, enforcer(platform, plain.parent)
    sealed = folder / "sealed"
    for labels in ("restricted", b"restricted", [1]):
        bad: Any = labels
        assert failure(lambda it=bad: subject.protect(plain, sealed, resource=RESOURCE, labels=it)) == "invalid"
    assert platform.questions == []
    subject.protect(plain, sealed, resource=RESOURCE, labels=["restricted"])
    assert failure(lambda: subject.open(sealed, folder / "opened", labels="restricted")) == "invalid"
    other = folder / "other"
    assert (
        failure(lambda: subject.rewrap(sealed, other, new_key_reference="local-two", labels="restricted")) == "invalid"
    )
    for option in ("handling_modes", "log_keys"):
        bad_option: Any = {option: "local_embedded_enforcement"}
        assert failure(lambda it=bad_option: enforcer(platform, folder, **it)) == "invalid"
    with pytest.raises(ValueError, match="list"):
        SessionTokens("tenant-a", "client", "secret", "decisions.read")
    for option in ("understood_obligations", "log_keys"):
        bad_option = {option: "notify-owner"}
        with pytest.raises(ValueError, match="list"):
            Options(**bad_option)
    decision = v1.ProtectionDecision(allow=True, obligations=[v1.Obligation(id="notify")])
    with pytest.raises(TypeError, match="list"):
        permitted(decision, "notify-owner")


def test_of_writers_on_one_output_one_wins(platform: PermissivePlatform, plain: Path) -> None:
    for race in range(20):
        output, replace = plain.parent / f"sealed-{race}", race % 5 == 4
        won: list[object] = []

        def work(output: Path = output, replace: bool = replace, won: list[object] = won) -> None:
            subject = enforcer(platform, plain.parent)
            try:
                won.append(subject.protect(plain, output, resource=RESOURCE, replace=replace))
            except EnforcementError as error:
                assert error.failure == "exists"

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == (3 if replace else 1)
        digest = hashlib.sha256(output.read_bytes()).hexdigest()
        assert json.loads(receipts_path_of(output).read_bytes())["artifact_digest"] == f"sha256:{digest}"
    assert list(plain.parent.glob(".*")) == []


class FullDisk:
    """A disk that takes no new file below a folder of this name, while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name: str | None = None
        really = os.open

        def patched(path: Any, flags: int, *others: Any, **more: Any) -> int:
            if self.name is not None and flags & os.O_CREAT and self.name in str(path):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return really(path, flags, *others, **more)

        monkeypatch.setattr(os, "open", patched)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    full = FullDisk(monkeypatch)
    yield full
    full.name = None


class FillsUp(PermissivePlatform):
    """The spool's disk fills up when the work is about to end."""

    def __init__(self, disk: FullDisk, is_offline: bool) -> None:
        super().__init__()
        self._disk, self._was_offline = disk, is_offline

    def register_artifact(
        self, request: v1.RegisterArtifactRequest, /, *, idempotency_key: str
    ) -> v1.RegisterArtifactResponse:
        self._disk.name, self.is_offline = "/spool/", self._was_offline
        return super().register_artifact(request, idempotency_key=idempotency_key)


def test_evidence_whose_disk_is_full_when_the_work_ends(disk: FullDisk, plain: Path) -> None:
    spool = plain.parent / "spool"

    def settled(is_offline: bool) -> FillsUp:
        platform = FillsUp(disk, is_offline)
        subject = enforcer(platform, plain.parent)
        assert failure(lambda: subject.protect(plain, plain.parent / "sealed", resource=RESOURCE)) == "io_failed"
        disk.name = None
        return platform

    # It is sent at once where that is possible.
    assert [event.outcome for event in settled(False).events.values()] == ["aborted"]
    assert list(spool.iterdir()) == []
    # Else it stops what comes next, of any process, until it has been sent.
    platform = settled(True)
    assert failure(lambda: enforcer(platform, plain.parent).flush()) == "evidence_overdue"
    assert (
        failure(lambda: enforcer(platform, plain.parent).protect(plain, plain.parent / "next", resource=RESOURCE))
        == "evidence_overdue"
    )
    platform.is_offline = False
    assert enforcer(platform, plain.parent).flush() == (1, 0)
    assert list(spool.iterdir()) == []


class Receipting(PermissivePlatform):
    """Its events come with a receipt."""

    def record_evidence(
        self, request: v1.RecordEvidenceRequest, /, *, idempotency_key: str
    ) -> v1.RecordEvidenceResponse:
        answer = super().record_evidence(request, idempotency_key=idempotency_key)
        answer.ingestion.receipt.record_id = "receipt"
        return answer


def test_a_recorded_event_whose_receipt_cannot_be_written_waits_until_it_is_due_and_then_stops_nothing(
    disk: FullDisk, plain: Path
) -> None:
    now = [1_000_000.0]
    platform = Receipting()
    subject = enforcer(platform, plain.parent, evidence_tolerance=60.0, now=lambda: now[0])
    platform.is_offline = True
    assert subject.protect(plain, plain.parent / "sealed", resource=RESOURCE).is_evidence_pending
    platform.is_offline = False
    disk.name = "sealed.receipts.json"
    assert subject.flush() == (0, 1)
    now[0] += 61
    assert subject.flush() == (1, 0)
    assert list((plain.parent / "spool").iterdir()) == []
    assert len(platform.events) == 1


def test_a_full_disk_is_not_a_mistake_of_the_caller(disk: FullDisk, platform: PermissivePlatform, plain: Path) -> None:
    subject = enforcer(platform, plain.parent)
    for name in ("sealed", "spool"):
        disk.name = name
        assert failure(lambda: subject.protect(plain, plain.parent / "sealed", resource=RESOURCE)) == "io_failed"
    disk.name = None
    assert failure(lambda: subject.protect(plain, plain.parent / "no/such", resource=RESOURCE)) == "invalid"


class Broken(io.RawIOBase):
    def write(self, _: Any, /) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def read(self, _: int = -1, /) -> bytes:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


class BreaksAtTheEnd(io.BytesIO):
    def flush(self) -> None:
        raise ValueError("closed")


def test_a_stream_that_breaks_is_not_a_mistake_of_the_caller(platform: PermissivePlatform, plain: Path) -> None:
    subject, broken = enforcer(platform, plain.parent), Broken()
    target = plain.parent / "out"
    stream: Any = broken
    ends: Any = BreaksAtTheEnd()
    for work in (
        lambda: subject.protect(plain, stream, resource=RESOURCE),
        lambda: subject.protect(plain, ends, resource=RESOURCE),
        lambda: subject.protect(stream, target, resource=RESOURCE),
        lambda: subject.protect(stream, target, resource=RESOURCE, profile="detached_signature"),
        lambda: subject.open(stream, target),
        lambda: subject.rewrap(stream, target, new_key_reference="local-two"),
    ):
        assert failure(work) == "io_failed"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777], ids=oct)
def test_a_spool_that_others_may_write_to(mode: int, platform: PermissivePlatform, plain: Path) -> None:
    folder, spool = plain.parent, plain.parent / "spool"
    spool.mkdir()
    spool.chmod(mode)
    subject = enforcer(platform, folder)
    assert failure(lambda: subject.protect(plain, folder / "sealed", resource=RESOURCE)) == "invalid"
    assert failure(lambda: subject.open(io.BytesIO(b"x"), folder / "opened")) == "invalid"
    assert list(spool.iterdir()) == []
    # What others put there is not sent.
    event = {"event_type": "protect", "outcome": "completed", "occurred_at": "2026-01-01T00:00:00Z"}
    entry = {"version": 1, "id": "00000000-0000-4000-8000-000000000000", "due_at": "2026-01-01T00:00:00Z"}
    (spool / f"{entry['id']}.json").write_text(json.dumps(entry | {"event": event}))
    assert failure(subject.flush) == "invalid"
    assert platform.events == {}


def test_no_key_reference_holds_a_control_character(platform: PermissivePlatform, plain: Path) -> None:
    folder = plain.parent
    for character in UNSEEN:
        reference = f"local-{character}"
        assert failure(lambda it=reference: enforcer(platform, folder, keys=[LocalKey(it, bytes(32))])) == "invalid"
        assert failure(lambda it=reference: create_key_file(folder / "key", it)) == "invalid"
        assert failure(lambda it=reference: create_signing_key_file(folder / "key", it)) == "invalid"
        jwk = {"kty": "oct", "kid": reference, "k": "A" * 43}
        (folder / "given").write_text(json.dumps(jwk))
        (folder / "given").chmod(0o600)
        assert failure(lambda: key_file(folder / "given")) == "invalid"
        binding = {"aead": "AES256_GCM_HKDF_4KB", "decision_id": "d", "labels": [], "policy_revision": "r"}
        block = {"decision_id": "d", "provider": "local", "reference": reference, "wrapped": "w"}
        header = {"binding": binding | {"resource": RESOURCE}, "key": block}
        # As RFC 8785 escapes it.
        data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        (folder / "sealed").write_bytes(b"svc-platform-envelope/v1\n" + len(data).to_bytes(4, "big") + data)
        subject = enforcer(platform, folder)
        assert failure(lambda it=subject: it.open(folder / "sealed", folder / "opened")) == "not_authentic"


@given(st.text(st.characters()) | st.sampled_from(UNSEEN))
def test_the_message_of_an_error_steers_no_terminal(text: str) -> None:
    shown = [str(EnforcementError("invalid", text)), str(NotPermitted([text], [text])), visible_line(text)]
    for message in shown:
        assert message.isprintable() or not set(message) & set(UNSEEN)
        message.encode()
    assume("\\" not in text and '"' not in text)
    assert json.loads(f'"{visible_line(text)}"') == text
