"""The filesystem `sealed://` over fsspec's local and memory filesystems."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest
from permissive_platform import PermissivePlatform

from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey, create_tdf_key_file, key_file
from svc_platform_client.enforce.sealed import SealedFileSystem

RESOURCE = {"kind": "report", "id": "q3"}
PLAIN = os.urandom(2_500_000)


@pytest.fixture
def platform() -> PermissivePlatform:
    return PermissivePlatform()


@pytest.fixture
def enforcer(platform: PermissivePlatform, tmp_path: Path) -> Enforcer:
    create_tdf_key_file(tmp_path / "tdf.key", "https://kas.example.com", reference="tdf-key")
    keys: Any = [LocalKey("local", bytes(32)), key_file(tmp_path / "tdf.key")]
    options: dict[str, Any] = {"attribute_namespace": "example.com", "spool_directory": tmp_path / "spool"}
    return Enforcer(platform, application="test", keys=keys, **options)


@pytest.fixture(params=["file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Protocol, and a folder."""
    place = str(tmp_path / "data") if request.param == "file" else f"/{uuid.uuid4()}"
    fsspec.filesystem(request.param).mkdir(place)
    return request.param, place


def sealed(enforcer: Enforcer, protocol: str = "file", **options: Any) -> SealedFileSystem:
    return SealedFileSystem(target_protocol=protocol, enforcer=enforcer, resource=RESOURCE, **options)


@pytest.mark.parametrize("profile", ["envelope", "tdf"])
def test_files_are_written_as_streams_and_read_at_any_position(
    profile: Any, folder: tuple[str, str], enforcer: Enforcer, platform: PermissivePlatform
) -> None:
    protocol, place = folder
    fs, path = sealed(enforcer, protocol, profile=profile), f"{place}/q3"
    with fs.open(path, "wb") as file:
        for start in range(0, len(PLAIN), 100_000):
            file.write(PLAIN[start : start + 100_000])
    assert PLAIN[:1_000] not in fs.fs.cat(path)
    assert len(platform.registrations) == 1
    with fs.open(path, block_size=4_096) as file:
        assert file.size == len(PLAIN)
        for offset in (0, 1_048_560, 2_097_100, len(PLAIN) - 5, len(PLAIN)):
            file.seek(offset)
            assert file.read(50) == PLAIN[offset : offset + 50]
        file.seek(-7, os.SEEK_END)
        assert file.read() == PLAIN[-7:]
    assert fs.cat(path) == PLAIN
    assert fs.ls(place, detail=False) == fs.fs.ls(place, detail=False)
    assert fs.info(path)["size"] > len(PLAIN)
    fs.rm(path)
    assert not fs.exists(path)


def test_an_empty_file_is_one(enforcer: Enforcer, tmp_path: Path) -> None:
    fs = sealed(enforcer)
    fs.pipe(str(tmp_path / "empty"), b"")
    assert fs.cat(str(tmp_path / "empty")) == b""


def test_urls_name_it_once_the_package_is_installed(enforcer: Enforcer, tmp_path: Path) -> None:
    fsspec.register_implementation("sealed", SealedFileSystem, clobber=True)
    with fsspec.open(f"sealed://{tmp_path}/q3", "wb", enforcer=enforcer, resource=RESOURCE) as file:
        file.write(b"data")
    assert sealed(enforcer).cat(f"{tmp_path}/q3") == b"data"


def test_what_is_changed_or_cut_or_another_resource_s_is_refused(enforcer: Enforcer, tmp_path: Path) -> None:
    fs, path = sealed(enforcer), tmp_path / "q3"
    fs.pipe(str(path), PLAIN)
    data = path.read_bytes()
    for other in (data[:-20], data[: 1_048_576 + 300], data[:-5] + b"x" + data[-4:]):
        path.write_bytes(other)
        with pytest.raises(EnforcementError) as caught:
            fs.cat(str(path))
        assert caught.value.failure == "not_authentic"
    path.write_bytes(data)
    with pytest.raises(EnforcementError):
        SealedFileSystem(enforcer=enforcer, resource={"kind": "other"}).cat(str(path))


def test_a_denial_or_an_error_of_the_writer_leaves_no_file(
    enforcer: Enforcer, platform: PermissivePlatform, tmp_path: Path
) -> None:
    fs = sealed(enforcer)
    with pytest.raises(KeyError), fs.open(str(tmp_path / "q3"), "wb") as file:
        file.write(b"a part")
        raise KeyError
    assert [event.outcome for event in platform.events.values()] == ["failed"]
    platform.allow = False
    with pytest.raises(EnforcementError) as caught:
        fs.pipe(str(tmp_path / "q3"), PLAIN)
    assert caught.value.failure == "not_permitted"
    assert not (tmp_path / "q3").exists()


def test_files_are_not_appended_to(enforcer: Enforcer, tmp_path: Path) -> None:
    with pytest.raises(EnforcementError):
        sealed(enforcer).open(str(tmp_path / "q3"), "ab")


def test_a_write_that_a_signal_cuts_short_loses_nothing(enforcer: Enforcer, tmp_path: Path) -> None:
    fs, previous = sealed(enforcer), signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with fs.open(str(tmp_path / "q3"), "wb") as file:
            assert file.write(PLAIN * 4) == len(PLAIN) * 4
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert fs.cat(str(tmp_path / "q3")) == PLAIN * 4


@pytest.mark.parametrize("options", [{"mode": "wb"}, {"mode": "w"}, {"mode": "wb", "compression": "gzip"}])
def test_an_error_leaves_no_file_through_fsspec_s_wrappers_either(
    options: dict[str, str], enforcer: Enforcer, platform: PermissivePlatform, tmp_path: Path
) -> None:
    fsspec.register_implementation("sealed", SealedFileSystem, clobber=True)
    opened = fsspec.open(f"sealed://{tmp_path}/q3", enforcer=enforcer, resource=RESOURCE, **options)
    with pytest.raises(KeyError), opened as file:
        file.write("a part" if options["mode"] == "w" else b"a part")
        raise KeyError
    assert list(tmp_path.glob("q3*")) == []
    assert [event.outcome for event in platform.events.values()] == ["failed"]


def test_a_file_may_be_written_while_an_error_is_handled(enforcer: Enforcer, tmp_path: Path) -> None:
    fs = sealed(enforcer)
    try:
        raise KeyError
    except KeyError:
        with fs.open(str(tmp_path / "q3"), "w") as file:
            file.write("data")
    assert fs.cat(str(tmp_path / "q3")) == b"data"


def test_a_file_system_does_not_compress_what_would_never_be_closed(enforcer: Enforcer, tmp_path: Path) -> None:
    fsspec.register_implementation("sealed", SealedFileSystem, clobber=True)
    fs, url = sealed(enforcer), f"sealed://{tmp_path}/q3"
    with pytest.raises(EnforcementError):
        fs.open(f"{tmp_path}/q3", "wb", compression="gzip")
    with fsspec.open(url, "wb", compression="gzip", enforcer=enforcer, resource=RESOURCE) as file:
        file.write(b"data")
    with fs.open(f"{tmp_path}/q3", compression="gzip") as file:
        assert file.read() == b"data"


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_transaction_names_all_of_its_files_or_none(succeeds: bool, enforcer: Enforcer, tmp_path: Path) -> None:
    fs, names = sealed(enforcer), [str(tmp_path / "a"), str(tmp_path / "b")]
    with contextlib.suppress(KeyError), fs.transaction:
        for name in names:
            fs.pipe(name, b"data")
        assert not any(map(fs.exists, names))
        if not succeeds:
            raise KeyError
    assert [fs.exists(name) for name in names] == [succeeds, succeeds]
    if succeeds:
        assert fs.cat(names[1]) == b"data"


@pytest.mark.parametrize("profile", ["envelope", "tdf"])
def test_blocks_of_two_files_are_never_read_as_one(profile: Any, folder: tuple[str, str], enforcer: Enforcer) -> None:
    protocol, place = folder
    fs, path = sealed(enforcer, protocol, profile=profile), f"{place}/q3"
    fs.pipe(path, PLAIN)
    with fs.open(path, block_size=4_096) as file:
        assert file.read(10) == PLAIN[:10]
        fs.pipe(path, os.urandom(len(PLAIN)))
        file.seek(2_400_000)
        with pytest.raises(EnforcementError) as caught:
            file.read(10)
    assert caught.value.failure == "not_authentic"


def test_a_program_that_leaves_a_file_open_ends(tmp_path: Path) -> None:
    program = f"""
from permissive_platform import PermissivePlatform
from svc_platform_client.enforce import Enforcer, LocalKey
from svc_platform_client.enforce.sealed import SealedFileSystem
keys = [LocalKey("local", bytes(32))]
enforcer = Enforcer(PermissivePlatform(), application="test", keys=keys, spool_directory={str(tmp_path / "spool")!r})
file = SealedFileSystem(enforcer=enforcer, resource={RESOURCE!r}).open({str(tmp_path / "q3")!r}, "wb")
file.write(b"a part")
raise KeyError
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment)
    assert ended.returncode == 1
    assert not (tmp_path / "q3").exists()
