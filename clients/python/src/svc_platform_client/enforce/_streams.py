"""
Tink's AES-GCM-HKDF streaming AEAD, in the wire format that Tink publishes and for two of its key templates. No
plaintext leaves before its segment is authenticated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .errors import EnforcementError

SEGMENT_SIZES = {"AES256_GCM_HKDF_1MB": 1_048_576, "AES256_GCM_HKDF_4KB": 4_096}
"""Tink's key templates by name, and the size of their ciphertext segments in bytes."""

_KEY = 32
_SALT = 32
_PREFIX = 7
_HEADER = 1 + _SALT + _PREFIX
_TAG = 16


class Readable(Protocol):
    """Where bytes come from: at most so many, none at the end."""

    def read(self, size: int, /) -> bytes: ...


def read_exactly(source: Readable, size: int) -> bytes:
    """So many bytes, fewer only where the source ends before."""
    parts: list[bytes] = []
    missing = size
    while missing > 0 and (part := source.read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def encrypt(
    source: Readable,
    aead: str,
    key: bytes | bytearray,
    associated_data: bytes,
    random: Callable[[int], bytes] = os.urandom,
) -> Iterator[bytes]:
    """The ciphertext in pieces; memory is that of a few segments."""
    salt, prefix = random(_SALT), random(_PREFIX)
    cipher = _cipher(key, salt, associated_data)
    yield bytes([_HEADER]) + salt + prefix
    size = SEGMENT_SIZES[aead] - _TAG
    for index, segment, is_last in segments_of(source, size - _HEADER, size):
        yield cipher.encrypt(_nonce(prefix, index, is_last), segment, None)


def decrypt(source: Readable, aead: str, key: bytes | bytearray, associated_data: bytes) -> Iterator[bytes]:
    """The plaintext in pieces, each authenticated; raises `not_authentic` at the first that is not."""
    header = read_exactly(source, _HEADER)
    if len(header) < _HEADER or header[0] != _HEADER:
        raise _not_authentic()
    salt, prefix = header[1 : 1 + _SALT], header[1 + _SALT :]
    cipher = _cipher(key, salt, associated_data)
    size = SEGMENT_SIZES[aead]
    for index, segment, is_last in segments_of(source, size - _HEADER, size):
        yield _decrypted(cipher, _nonce(prefix, index, is_last), segment)


def decrypt_range(
    read_at: Callable[[int, int], bytes],
    size: int,
    aead: str,
    key: bytes | bytearray,
    associated_data: bytes,
    offset: int,
    length: int,
) -> Iterator[bytes]:
    """
    The plaintext of a range. Reads the segments that it touches: at least one, and the last one if the range ends
    behind the data, so that a ciphertext that was cut never looks shorter. Each is authenticated with its number.

    `read_at`: position and number of bytes, all of which it gives; `size`: of the ciphertext.
    """
    header = read_at(0, _HEADER)
    if header[0] != _HEADER:
        raise _not_authentic()
    cipher, prefix = _cipher(key, header[1 : 1 + _SALT], associated_data), header[1 + _SALT :]
    whole, capacity = SEGMENT_SIZES[aead], SEGMENT_SIZES[aead] - _TAG
    last = max(0, -(-size // whole) - 1)
    # The header takes the place of the first segment's first bytes.
    first, final = (min(last, (at + _HEADER) // capacity) for at in (offset, offset + max(length, 1) - 1))
    for index in range(first, final + 1):
        start = max(index * whole, _HEADER)
        segment = read_at(start, min((index + 1) * whole, size) - start)
        plaintext = _decrypted(cipher, _nonce(prefix, index, index == last), segment)
        yield within(plaintext, offset - max(0, index * capacity - _HEADER), length)


def plaintext_size(aead: str, size: int) -> int:
    """Of a ciphertext of this size, in bytes."""
    return size - _HEADER - _TAG * max(1, -(-size // SEGMENT_SIZES[aead]))


def within(plaintext: bytes, offset: int, length: int) -> bytes:
    """The part of a segment within a range that is relative to it."""
    return plaintext[max(offset, 0) : max(offset + length, 0)]


def _decrypted(cipher: AESGCM, nonce: bytes, segment: bytes) -> bytes:
    if len(segment) < _TAG:
        raise _not_authentic()
    try:
        return cipher.decrypt(nonce, segment, None)
    except InvalidTag:
        raise _not_authentic() from None


def _cipher(key: bytes | bytearray, salt: bytes, associated_data: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), _KEY, salt, associated_data).derive(bytes(key)))


def _nonce(prefix: bytes, index: int, is_last: bool) -> bytes:
    if index >= 2**32:
        raise EnforcementError("invalid", "more data than one stream can hold")
    return prefix + index.to_bytes(4, "big") + bytes([is_last])


def _not_authentic() -> EnforcementError:
    return EnforcementError("not_authentic", "the artifact is not as it was protected")


def segments_of(source: Readable, first: int, other: int) -> Iterator[tuple[int, bytes, bool]]:
    """Cuts into segments of exact sizes. Only the end of the source tells which is the last; it may be empty."""
    index, segment = 0, read_exactly(source, first)
    while following := read_exactly(source, other):
        yield index, segment, False
        index, segment = index + 1, following
    yield index, segment, True
