"""The ZIP container of a TDF (APPNOTE.TXT): two stored entries, the payload and then the manifest."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import BinaryIO

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


def read_container(file: BinaryIO) -> Container:
    """Finds the entries by the central directory. Raises `not_authentic`."""
    at, size = _find_directory(file)
    directory, places = read_at(file, at, size), dict[bytes, tuple[int, int]]()
    for _ in range(2):
        if len(directory) < 46 or directory[:4] != b"PK\1\2":
            raise malformed("its directory is no directory")
        flags, method, stored, plain, named, extra, comment, place = struct.unpack("<8x2H8x2I3H8xI", directory[:46])
        name = directory[46 : 46 + named]
        plain, stored, place = _widened(directory[46 + named : 46 + named + extra], plain, stored, place)
        header = read_at(file, place, 30 + named)
        header_method, header_named, header_extra = struct.unpack("<8xH16x2H", header[:30])
        if header[:4] != b"PK\3\4" or header_named != named or header[30:] != name:
            raise malformed("an entry is not in its place")
        # Encrypted or compressed entries are not what a TDF has.
        if flags & 1 or method or header_method or plain != stored:
            raise malformed("its entries are not stored")
        data_at = place + 30 + named + header_extra
        if data_at + stored > at:
            raise malformed("an entry is longer than the container")
        places[name] = data_at, stored
        directory = directory[46 + named + extra + comment :]
    if places.keys() != {_MANIFEST.encode(), _PAYLOAD.encode()} or directory:
        raise malformed("its container has other entries")
    manifest, payload = places[_MANIFEST.encode()], places[_PAYLOAD.encode()]
    if manifest[1] > _MAX_MANIFEST:
        raise malformed("its manifest is too long")
    return Container(*payload, read_at(file, *manifest))


def _find_directory(file: BinaryIO) -> tuple[int, int]:
    """
    Finds the directory of two entries, which ends at the records of the end. These end the file, and agree: otherwise
    one reader could find another directory than the next.
    """
    # A directory of two entries is longer than the two ZIP64 records that may follow it.
    size = size_of(file)
    tail = read_at(file, size - 98, 98)
    signature, *narrow, comment = struct.unpack("<4s4x2H2IH", tail[76:])
    if signature != b"PK\5\6" or comment:
        raise malformed("it is no ZIP file, or has a comment")
    is_zip64 = tail[56:60] == b"PK\6\7"
    end, values = size - (98 if is_zip64 else 22), tuple(narrow)
    if is_zip64:
        if tail[:4] != b"PK\6\6" or struct.unpack("<8xQ", tail[56:72])[0] != end:
            raise malformed("its directory cannot be found")
        values = struct.unpack("<24x4Q", tail[:56])
    unset = (0xFFFF, 0xFFFF, _IN_ZIP64, _IN_ZIP64)
    are_same = all(
        value == found or (is_zip64 and found == none) for value, found, none in zip(values, narrow, unset, strict=True)
    )
    here, count, length, at = values
    if here != 2 or count != 2 or length > _MAX_DIRECTORY:
        raise malformed("its container has other entries")
    if not are_same or at + length != end:
        raise malformed("its directory is not in its place")
    return at, length


def _widened(extra: bytes, *values: int) -> list[int]:
    """Replaces what does not fit into 32 bits by the only ZIP64 field's values, which are in the same order."""
    fields: list[bytes] = []
    while len(extra) >= 4:
        kind, length = struct.unpack("<2H", extra[:4])
        if length + 4 > len(extra):
            raise malformed("an extra field is cut")
        if kind == 1:
            fields.append(extra[4 : 4 + length])
        extra = extra[4 + length :]
    if len(fields) > 1:
        raise malformed("an entry has two sizes")
    wide, found = b"".join(fields), list(values)
    for index, value in enumerate(values):
        if value == _IN_ZIP64:
            if len(wide) < 8:
                raise malformed("an entry has no size")
            [found[index]], wide = struct.unpack("<Q", wide[:8]), wide[8:]
    return found


def require_framing(file: BinaryIO, found: Container, payload: Stored) -> None:
    """Raises `not_authentic` unless every byte around the payload is as `protect` writes it."""
    is_zip64 = found.payload_at != len(before_payload(False))
    before, after = before_payload(is_zip64), after_payload(payload, found.manifest, is_zip64)
    end = found.payload_at + payload.size
    is_whole = found.payload_at == len(before) and size_of(file) - end == len(after)
    if not is_whole or read_at(file, 0, len(before)) != before or read_at(file, end, len(after)) != after:
        raise malformed("its container was changed")
