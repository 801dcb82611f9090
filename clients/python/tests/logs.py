"""Logs made here, to verify receipts of: what the service does, in a few lines."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from svc_platform_client import v1

ORIGIN = "logs.example.com/evidence/0123456789abcdef0123456789abcdef"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Signer:
    def __init__(self, seed: bytes, origin: str = ORIGIN) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(seed)
        self.origin = origin
        data = b"\1" + self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id = hashlib.sha256(origin.encode() + b"\n" + data).digest()[:4]
        self.log_key = f"{origin}+{self.key_id.hex()}+{b64(data)}"

    def checkpoint(self, size: int, root: bytes) -> str:
        text = f"{self.origin}\n{size}\n{b64(root)}\n"
        return f"{text}\n\u2014 {self.origin} {b64(self.key_id + self.key.sign(text.encode()))}\n"


def root_of(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = largest_power_below(len(leaves))
    return hashlib.sha256(b"\1" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


def inclusion(leaves: list[bytes], index: int) -> list[bytes]:
    """Section 2.1.1."""
    if len(leaves) == 1:
        return []
    split = largest_power_below(len(leaves))
    if index < split:
        return [*inclusion(leaves[:split], index), root_of(leaves[split:])]
    return [*inclusion(leaves[split:], index - split), root_of(leaves[:split])]


def consistency(leaves: list[bytes], size: int, whole: bool = True) -> list[bytes]:
    """Section 2.1.2."""
    if size == len(leaves):
        return [] if whole else [root_of(leaves)]
    split = largest_power_below(len(leaves))
    if size <= split:
        return [*consistency(leaves[:split], size, whole), root_of(leaves[split:])]
    return [*consistency(leaves[split:], size - split, False), root_of(leaves[:split])]


def largest_power_below(count: int) -> int:
    return 1 << ((count - 1).bit_length() - 1)


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@cache
def entry(number: int, origin: str = ORIGIN) -> tuple[bytes, bytes, bytes]:
    """Leaf, opening and record of a decision."""
    request = {"resource": {"id": f"c\u00fcst-{number}", "kind": "record"}, "size": 48213}
    record_id = f"0190a5d2-ac96-774b-bcce-{number:012x}"
    told = {"kind": "decision", "record_id": record_id, "recorded_at": "2026-03-01T12:00:00.000Z"}
    record = canonical(
        told
        | {
            "caller": {"auth_source": "bearer_token", "principal_id": "payroll", "subject": "payroll"},
            "log": origin,
            "outcome": {"allow": True, "policy_revision": "sha256:00", "reasons": ["platform/allow"]},
            "request": request,
            "request_digest": "sha256:" + hashlib.sha256(canonical(request)).hexdigest(),
            "request_id": f"request-{number}",
            "route": "protection-plan",
            "tenant_id": "tenant-a",
        }
    )
    opening = hashlib.sha256(b"opening %d" % number).digest()
    pseudorandom = hmac.new(bytes(32), opening, "sha256").digest()
    key = hmac.new(pseudorandom, b"platform-ledger/v1/commitment\1", "sha256").digest()
    commitment = "hmac-sha256:" + hmac.new(key, record, "sha256").hexdigest()
    leaf = canonical(told | {"commitment": commitment, "policy_revision": "sha256:00", "v": 1})
    return leaf, opening, record


@cache
def checkpoint_of(signer: Signer, size: int) -> str:
    return signer.checkpoint(size, root_of([entry(number, signer.origin)[0] for number in range(size)]))


def receipt_of(signer: Signer, size: int, index: int, brief: bool = False) -> v1.Receipt:
    leaves = [entry(number, signer.origin)[0] for number in range(size)]
    leaf, opening, record = entry(index, signer.origin)
    path = "".join(f"{b64(value)}\n" for value in inclusion(leaves, index))
    checkpoint = checkpoint_of(signer, size)
    receipt = v1.Receipt(
        record_id=f"0190a5d2-ac96-774b-bcce-{index:012x}",
        log_origin=signer.origin,
        leaf_index=index,
        tree_size=size,
        leaf_hash=b64(root_of([leaf])),
        proof=f"c2sp.org/tlog-proof@v1\nindex {index}\n{path}\n{checkpoint}",
    )
    if not brief:
        receipt.leaf, receipt.opening, receipt.record = b64(leaf), b64(opening), b64(record)
    return receipt
