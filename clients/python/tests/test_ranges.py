"""Ranges of sealed artifacts, sealed streams and the Enforcer for asyncio: what is read, proven, stopped and left."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from permissive_platform import PermissivePlatform

from svc_platform_client import PlatformError
from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey, Profile, create_tdf_key_file, key_file
from svc_platform_client.enforce.aio import AsyncEnforcer

RESOURCE = {"kind": "test", "id": "one"}
FIRST, OTHER, SEGMENT = 4096 - 40 - 16, 4096 - 16, 2_097_152


@pytest.fixture
def platform() -> PermissivePlatform:
    return PermissivePlatform()


@pytest.fixture
def enforcer(platform: PermissivePlatform, tmp_path: Path) -> Enforcer:
    create_tdf_key_file(tmp_path / "tdf.key", "https://kas.example.com", reference="tdf-key")
    keys: Any = [LocalKey("local-one", bytes([1]) * 32), key_file(tmp_path / "tdf.key")]
    options: dict[str, Any] = {"attribute_namespace": "example.com", "spool_directory": tmp_path / "spool"}
    return Enforcer(platform, application="test", keys=keys, **options)


def seal(enforcer: Enforcer, plain: bytes, profile: Profile = "envelope") -> tuple[bytes, str]:
    stream = enforcer.protect_stream(io.BytesIO(plain), resource=RESOURCE, profile=profile, aead="AES256_GCM_HKDF_4KB")
    data = stream.read()
    assert stream.outcome is not None
    return data, stream.outcome.artifact_digest


def read(enforcer: Enforcer, sealed: tuple[bytes, str | None], offset: Any, length: Any, **options: Any) -> bytes:
    target = io.BytesIO()
    data, digest = sealed
    place = {"offset": offset, "length": length, "artifact_digest": digest}
    enforcer.open_range(io.BytesIO(data), target, **place | options)
    return target.getvalue()


def failure(enforcer: Enforcer, sealed: tuple[bytes, str | None], offset: Any, length: Any, **options: Any) -> str:
    with pytest.raises(EnforcementError) as caught:
        read(enforcer, sealed, offset, length, **options)
    return caught.value.failure


@pytest.mark.parametrize(
    ("profile", "size"),
    [
        *(("envelope", size) for size in (0, 1, FIRST - 1, FIRST, FIRST + 1, FIRST + OTHER, FIRST + 2 * OTHER + 7)),
        *(("tdf", size) for size in (0, 1, SEGMENT, 2 * SEGMENT + 3)),
    ],
)
def test_ranges_are_those_of_the_plaintext(enforcer: Enforcer, profile: Profile, size: int) -> None:
    plain = os.urandom(size)
    sealed = seal(enforcer, plain, profile)
    edges = (SEGMENT, 2 * SEGMENT) if profile == "tdf" else (FIRST, FIRST + OTHER)
    for offset in {at for at in (0, 1, *edges, *(edge - 1 for edge in edges), size - 1, size, size + 5) if at >= 0}:
        for length in (0, 1, OTHER + 1, size + 1):
            assert read(enforcer, sealed, offset, length, profile=profile) == plain[offset : offset + length]


def header_of(data: bytes) -> int:
    return 29 + int.from_bytes(data[25:29], "big")


def test_segments_that_are_changed_moved_swapped_or_cut_are_refused(enforcer: Enforcer) -> None:
    plain = os.urandom(FIRST + 3 * OTHER)
    (data, digest), (stranger, _) = seal(enforcer, plain), seal(enforcer, plain)
    at = [header_of(data) + 4096 * number for number in range(5)]
    moved = data[: at[1]] + data[at[2] : at[3]] + data[at[1] : at[2]] + data[at[3] :]
    assert failure(enforcer, (moved, digest), FIRST, 1) == "not_authentic"
    assert failure(enforcer, (moved, digest), FIRST + OTHER, 1) == "not_authentic"
    assert read(enforcer, (moved, digest), 0, 5) == plain[:5]
    for start in at[:2]:
        assert failure(enforcer, (data[:start] + stranger[start:], digest), FIRST, 1) == "not_authentic"
    for cut in (at[3], at[3] + 1, at[2] + 100):
        for offset, length in ((len(plain) - 1, 1), (0, len(plain)), (2 * len(plain), 1)):
            assert failure(enforcer, (data[:cut], digest), offset, length) == "not_authentic"
    flipped = bytearray(data)
    flipped[at[2] + 7] ^= 1
    assert failure(enforcer, (bytes(flipped), digest), FIRST + OTHER, 1) == "not_authentic"
    decision = data[: at[0]].index(b'"decision_id":"') + 15
    other = data[:decision] + (b"1" if data[decision : decision + 1] == b"0" else b"0") + data[decision + 1 :]
    assert failure(enforcer, (other, digest), 0, 1) == "not_authentic"


def test_segments_of_a_tdf_that_change_places_are_refused(enforcer: Enforcer) -> None:
    data, digest = seal(enforcer, os.urandom(2 * SEGMENT), "tdf")
    at, size = data.index(b"0.payload") + 29, SEGMENT + 28
    moved = data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[at + 2 * size :]
    for offset in (0, SEGMENT):
        assert failure(enforcer, (moved, digest), offset, 1, profile="tdf") == "not_authentic"
    assert failure(enforcer, (data, f"sha256:{'0' * 64}"), 0, 1, profile="tdf") == "not_authentic"
    assert read(enforcer, (data, None), 0, 0, profile="tdf") == b""


def test_a_range_is_refused_without_permission_digest_resource_or_whole_numbers(
    enforcer: Enforcer, platform: PermissivePlatform
) -> None:
    sealed = seal(enforcer, b"text")
    for offset, length in ((-1, 1), (0, -1), (0.5, 1), (True, 1)):
        assert failure(enforcer, sealed, offset, length) == "invalid"
    assert failure(enforcer, (sealed[0], None), 0, 1) == "invalid"
    assert failure(enforcer, (sealed[0], "sha256:1"), 0, 1) == "invalid"
    assert failure(enforcer, sealed, 0, 1, resource={"kind": "other"}) == "invalid"
    platform.allow = False
    assert failure(enforcer, sealed, 0, 1) == "not_permitted"


def test_only_the_segments_of_the_range_are_read_and_a_broken_source_says_so(enforcer: Enforcer) -> None:
    class Watched(io.BytesIO):
        places: list[int] = []  # noqa: RUF012

        def read(self, size: int | None = -1, /) -> bytes:
            self.places.append(self.tell())
            return super().read(size)

    plain = os.urandom(FIRST + 3 * OTHER)
    data, digest = seal(enforcer, plain)
    source, target = Watched(data), io.BytesIO()
    enforcer.open_range(source, target, offset=FIRST + 2 * OTHER, length=5, artifact_digest=digest)
    assert target.getvalue() == plain[FIRST + 2 * OTHER :][:5]
    assert [at for at in source.places if at > header_of(data)] == [header_of(data) + 3 * 4096]
    source.read = lambda *_: 1 // 0  # type: ignore[method-assign,assignment]
    with pytest.raises(EnforcementError) as caught:
        enforcer.open_range(source, target, offset=0, length=5, artifact_digest=digest)
    assert caught.value.failure == "io_failed"


class Endless(io.RawIOBase):
    """Zeros; says how many were taken."""

    taken = 0

    def read(self, size: int = -1, /) -> bytes:
        self.taken += size
        return bytes(size)


def test_a_sealed_stream_waits_for_its_reader_and_stops_when_closed(
    enforcer: Enforcer, platform: PermissivePlatform, tmp_path: Path
) -> None:
    source: Any = Endless()
    stream = enforcer.protect_stream(source, resource=RESOURCE)
    assert source.taken == 0
    stream.read(3_000_000)
    assert source.taken < 6_000_000
    stream.close()
    assert [event.outcome for event in platform.events.values()] == ["failed"]
    assert platform.registrations == []
    assert list((tmp_path / "spool").glob("*.json")) == []
    with pytest.raises(ValueError, match="closed"):
        stream.read(1)


def test_a_sealed_stream_that_failed_never_looks_whole(enforcer: Enforcer, platform: PermissivePlatform) -> None:
    platform.register_artifact = lambda *_, **__: 1 // 0  # type: ignore[method-assign,assignment]
    stream = enforcer.protect_stream(io.BytesIO(b"text"), resource=RESOURCE, artifact_locator="s3://bucket/key")
    for _ in range(2):
        with pytest.raises(EnforcementError) as caught:
            stream.read()
        assert caught.value.is_retryable
        assert caught.value.http_status == 503
    assert stream.outcome is None


def test_the_locator_is_registered(enforcer: Enforcer, platform: PermissivePlatform, tmp_path: Path) -> None:
    target = tmp_path / "sealed"
    enforcer.protect(io.BytesIO(b"text"), target, resource=RESOURCE, artifact_locator="s3://bucket/key")
    assert [registration.artifact_locator for registration in platform.registrations] == ["s3://bucket/key"]


def test_a_refused_call_is_not_retryable() -> None:
    for code, is_retryable in ((grpc.StatusCode.UNAVAILABLE, True), (grpc.StatusCode.UNAUTHENTICATED, False)):
        error = EnforcementError("unavailable", "no")
        error.__cause__ = PlatformError(code, "no")
        assert error.is_retryable == is_retryable


def test_the_async_enforcer_works_beside_other_tasks(enforcer: Enforcer, tmp_path: Path) -> None:
    async def work() -> None:
        subject = AsyncEnforcer(enforcer)
        names = [tmp_path / f"sealed-{number}" for number in range(4)]
        outcomes = await asyncio.gather(
            *(subject.protect(io.BytesIO(name.name.encode()), name, resource=RESOURCE) for name in names)
        )
        for name, outcome in zip(names, outcomes, strict=True):
            target = io.BytesIO()
            await subject.open_range(name, target, offset=1, length=4, artifact_digest=outcome.artifact_digest)
            assert target.getvalue() == b"eale"
        with pytest.raises(EnforcementError):
            await subject.open(names[0], names[1])
        assert await subject.flush() == (0, 0)

    asyncio.run(work())


def test_a_cancelled_operation_has_stopped_and_leaves_nothing(
    enforcer: Enforcer, platform: PermissivePlatform, tmp_path: Path
) -> None:
    begun = threading.Event()

    async def work() -> None:
        source: Any = Endless()
        progress = lambda done, total: begun.set()  # noqa: E731
        subject = AsyncEnforcer(enforcer)
        task = asyncio.create_task(
            subject.protect(source, tmp_path / "sealed", resource=RESOURCE, on_progress=progress)
        )
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        taken = source.taken
        await asyncio.to_thread(int)
        assert source.taken == taken

    asyncio.run(work())
    assert [event.outcome for event in platform.events.values()] == ["failed"]
    assert [path.name for path in tmp_path.iterdir() if "sealed" in path.name] == []
