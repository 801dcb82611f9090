"""The ZIP container of a TDF (APPNOTE.TXT): two stored entries, the payload and then the manifest."""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO, cast

from ._data import read_at, size_of
from ._header import malformed

_MANIFEST, _PAYLOAD = "0.manifest.json", "0.payload"
_IN_ZIP64 = 0xFFFFFFFF
"""In a 32-bit field: the value is in a ZIP64 field."""
_MAX_DIRECTORY = 65_536
"""Two entries with short names and a few extra fields."""
_MAX_MANIFEST = 268_435_456


@dataclass
class Stored:
    """What the framing of an entry repeats of its bytes."""

    crc: int = 0
    size: int = 0

    def update(self, piece: bytes) -> None:
        self.crc, self.size = zlib.crc32(piece, self.crc), self.size + len(piece)


def needs_zip64(size: int | None) -> bool:
    """Whether an entry of so many bytes, or of an unknown size, needs ZIP64."""
    return size is None or size >= _IN_ZIP64


def before_payload(is_zip64: bool) -> bytes:
    """Bytes before the payload, whose size and checksum follow it."""
    return _local_header(_PAYLOAD, is_zip64)


def after_payload(payload: Stored, manifest: bytes, is_zip64: bool) -> bytes:
    """Bytes after the payload."""
    stored, before = Stored(zlib.crc32(manifest), len(manifest)), _descriptor(payload, is_zip64)
    manifest_at = len(before_payload(is_zip64)) + payload.size + len(before)
    entry = _local_header(_MANIFEST, False) + manifest + _descriptor(stored, False)
    directory = _directory_entry(_PAYLOAD, payload, 0, is_zip64) + _directory_entry(
        _MANIFEST, stored, manifest_at, False
    )
    return before + entry + directory + _end_of_directory(manifest_at + len(entry), len(directory))


def _common(is_zip64: bool) -> bytes:
    """Version, flags (a descriptor follows the data), method (stored), and the first time of the format."""
    return struct.pack("<5H", 45 if is_zip64 else 20, 8, 0, 0, 0x21)


def _local_header(name: str, is_zip64: bool) -> bytes:
    extra = struct.pack("<2H2Q", 1, 16, 0, 0) if is_zip64 else b""
    size = _IN_ZIP64 if is_zip64 else 0
    sizes = struct.pack("<3I2H", 0, size, size, len(name), len(extra))
    return b"PK\3\4" + _common(is_zip64) + sizes + name.encode() + extra


def _descriptor(stored: Stored, is_zip64: bool) -> bytes:
    return b"PK\7\10" + struct.pack("<I2Q" if is_zip64 else "<3I", stored.crc, stored.size, stored.size)


def _directory_entry(name: str, stored: Stored, at: int, is_zip64: bool) -> bytes:
    large = [value for value in (stored.size, stored.size, at) if value >= _IN_ZIP64]
    extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    size = min(stored.size, _IN_ZIP64)
    sizes = struct.pack("<3I2H", stored.crc, size, size, len(name), len(extra))
    place = struct.pack("<3H2I", 0, 0, 0, 0, min(at, _IN_ZIP64))
    return b"PK\1\2" + struct.pack("<H", 45) + _common(is_zip64) + sizes + place + name.encode() + extra


def _end_of_directory(at: int, size: int) -> bytes:
    end = b"PK\5\6" + struct.pack("<4H2IH", 0, 0, 2, 2, size, min(at, _IN_ZIP64), 0)
    if at < _IN_ZIP64:
        return end
    wide = b"PK\6\6" + struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, 2, 2, size, at)
    return wide + b"PK\6\7" + struct.pack("<IQI", 0, at + size, 1) + end


@dataclass(frozen=True)
class Container:
    """The entries. The framing is not checked: other programs write it in other ways."""

    payload_at: int
    payload_size: int
    manifest: bytes


class _Bounded:
    """A file of which little is read at once, however large its directory is said to be."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self._file = file.seek, file.tell, file

    def read(self, size: int = -1, /) -> bytes:
        if size > _MAX_DIRECTORY:
            raise zipfile.BadZipFile("the directory is too large")
        return self._file.read(size)


def read_container(file: BinaryIO) -> Container:
    """Finds the entries by the central directory. Raises `not_authentic`."""
    try:
        with zipfile.ZipFile(cast(BinaryIO, _Bounded(file))) as found:
            entries, comment = sorted(found.infolist(), key=lambda entry: entry.filename), found.comment
    except (zipfile.BadZipFile, NotImplementedError, OverflowError, ValueError, struct.error) as error:
        raise malformed("it is no ZIP file") from error
    if comment or [entry.filename for entry in entries] != [_MANIFEST, _PAYLOAD]:
        raise malformed("its container has a comment, or other entries")
    places: list[tuple[int, int]] = []
    for entry in entries:
        # Encrypted or compressed entries are not what a TDF has.
        if entry.flag_bits & 1 or entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise malformed("its entries are not stored")
        header = read_at(file, entry.header_offset, 30)
        if header[:4] != b"PK\3\4":
            raise malformed("an entry is not in its place")
        places.append((entry.header_offset + 30 + sum(struct.unpack("<26x2H", header)), entry.file_size))
    manifest, payload = places
    if manifest[1] > _MAX_MANIFEST:
        raise malformed("its manifest is too long")
    return Container(*payload, read_at(file, *manifest))


def require_framing(file: BinaryIO, found: Container, payload: Stored) -> None:
    """Raises `not_authentic` unless every byte around the payload is as `protect` writes it."""
    is_zip64 = found.payload_at != len(before_payload(False))
    before, after = before_payload(is_zip64), after_payload(payload, found.manifest, is_zip64)
    end = found.payload_at + payload.size
    is_whole = found.payload_at == len(before) and size_of(file) - end == len(after)
    if not is_whole or read_at(file, 0, len(before)) != before or read_at(file, end, len(after)) != after:
        raise malformed("its container was changed")
