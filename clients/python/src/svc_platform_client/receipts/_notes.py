"""Signed notes, checkpoints and proofs of C2SP: signed-note, tlog-checkpoint, tlog-proof."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ..errors import ReceiptRefused
from ._texts import is_well_formed, parse_base64, parse_decimal, require

MAX_NOTE_BYTES = 256 * 1024
MAX_SIGNATURES = 64
MAX_PATH = 53
ED25519 = 1


@dataclass(frozen=True)
class LogKey:
    """A verifier key of a log."""

    name: str
    key_id: str
    public_key: bytes
    max_size: int | None
    """Largest tree that it counts for, where it was retired."""


@dataclass(frozen=True)
class Signature:
    name: str
    key_id: str
    value: bytes


@dataclass(frozen=True)
class Checkpoint:
    text: str
    signatures: Sequence[Signature]
    origin: str
    size: int
    root: bytes


def parse_log_key(text: str) -> LogKey:
    """`<origin>+<hash>+<key>`, with `@<size>` behind it for one that was retired. Raises ValueError."""
    match = re.fullmatch(r"([^+]+)\+([0-9a-f]{8})\+([^@]+)(?:@(.*))?", text, re.DOTALL)
    if match is None:
        raise ValueError("a log key is <origin>+<hash>+<key>")
    name, key_id, encoded, size = match.groups()
    data = parse_base64(encoded)
    if data is None or len(data) != 33 or data[0] != ED25519:
        raise ValueError("a log key is of another type than Ed25519")
    if not is_key_name(name) or hashlib.sha256(name.encode() + b"\n" + data).digest()[:4].hex() != key_id:
        raise ValueError("a log key's hash is not its own")
    max_size = None if size is None else parse_decimal(size)
    if size is not None and max_size is None:
        raise ValueError("the size behind a log key is malformed")
    return LogKey(name, key_id, data[1:], max_size)


def is_key_name(name: str) -> bool:
    def is_bad(character: str) -> bool:
        return character in "+\ufeff" or character.isspace() or unicodedata.category(character) == "Cc"

    return name != "" and is_well_formed(name) and not any(map(is_bad, name))


def parse_proof(text: str) -> tuple[int, list[bytes], Checkpoint]:
    """Index, path, checkpoint."""
    require(is_well_formed(text) and len(text.encode()) <= MAX_NOTE_BYTES, "the proof is too large")
    head, found, note = text.partition("\n\n")
    require(found, "the proof has no checkpoint")
    lines = head.split("\n")
    require(lines.pop(0) == "c2sp.org/tlog-proof@v1", "the text is no tlog-proof")
    if lines and lines[0].startswith("extra "):
        require(parse_base64(lines.pop(0)[6:]) is not None, "the proof's extra is malformed")
    index = parse_decimal(lines[0][6:]) if lines and lines[0].startswith("index ") else None
    if index is None:
        raise ReceiptRefused("the proof's index is malformed")
    path = [hash_of(line) for line in lines[1:]]
    require(len(path) <= MAX_PATH, "the proof's path is too long")
    return index, path, parse_checkpoint(note)


def hash_of(text: str) -> bytes:
    value = parse_base64(text)
    if value is None or len(value) != 32:
        raise ReceiptRefused("a hash is malformed")
    return value


def parse_checkpoint(note: str) -> Checkpoint:
    require(len(note.encode()) <= MAX_NOTE_BYTES, "the note is too large")
    require(not any(c < " " and c != "\n" for c in note), "the note holds control characters")
    end = note.rfind("\n\n")
    require(end >= 0 and note.endswith("\n") and end + 2 < len(note), "the note has no signatures")
    text, lines = note[: end + 1], note[end + 2 : -1].split("\n")
    require(len(lines) <= MAX_SIGNATURES, "the note has too many signatures")
    signatures = [parse_signature(line) for line in lines]
    body = text.split("\n")[:-1]
    require(len(body) >= 3 and body[0] != "" and "" not in body[3:], "the checkpoint is malformed")
    size = parse_decimal(body[1])
    if size is None:
        raise ReceiptRefused("the checkpoint's size is malformed")
    return Checkpoint(text, signatures, body[0], size, hash_of(body[2]))


def parse_signature(line: str) -> Signature:
    parts = line.split(" ")
    data = parse_base64(parts[2]) if len(parts) == 3 else None
    if data is None or len(data) <= 4 or parts[0] != "\u2014" or not is_key_name(parts[1]):
        raise ReceiptRefused("a signature line is malformed")
    return Signature(parts[1], data[:4].hex(), data[4:])


def require_signed(checkpoint: Checkpoint, keys: Sequence[LogKey]) -> None:
    """By a trusted key of this log that was not retired before this size; and no trusted key's signature is wrong."""
    signing = [key for key in keys if own_signatures(checkpoint, key)]
    require(signing, "the checkpoint is not signed by a trusted key")
    for key in signing:
        require(key.name == checkpoint.origin, "the checkpoint is of another log")
        # Once: a line that stands twice could be left out unseen.
        [signature, *others] = own_signatures(checkpoint, key)
        verified = verifies(key.public_key, signature.value, checkpoint.text.encode())
        require(verified and not others, "the signature of a trusted key does not verify, or stands twice")
    counting = [key for key in signing if key.max_size is None or checkpoint.size <= key.max_size]
    require(counting, "the key was retired before the tree had this size")


def own_signatures(checkpoint: Checkpoint, key: LogKey) -> list[Signature]:
    return [one for one in checkpoint.signatures if (one.name, one.key_id) == (key.name, key.key_id)]


def verifies(public_key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
