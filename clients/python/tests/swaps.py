"""Proofs in which a part is that of another one, or of a dishonest producer: every one of them must be refused."""

from __future__ import annotations

import base64
import copy
import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from logs import Signer
from recorded import Log, RecordingPlatform

from svc_platform_client.enforce import (
    EnforcementError,
    Enforcer,
    KeyProvider,
    LocalKey,
    LocalSigningKey,
    Profile,
    SigningKey,
    VerifiedArtifact,
    verify_artifact,
)
from svc_platform_client.enforce._data import digest_of
from svc_platform_client.enforce._envelope import Header, encode_header, read_header
from svc_platform_client.enforce._header import canonical
from svc_platform_client.enforce._platform import receipt_json
from svc_platform_client.enforce._signature import _statement

Json = dict[str, Any]

SIGNERS = {
    "tenant-a": Signer(bytes(32)),
    "tenant-b": Signer(bytes([1]) * 32, "logs.example.com/evidence/fedcba9876543210fedcba9876543210"),
}
LOG_KEYS = [signer.log_key for signer in SIGNERS.values()]
# RFC 8032 section 7.1, tests 1 and 2.
JWKS = [
    ("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"),
    ("PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw", "TM0Imyj_ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U-4pvs"),
]
KEYS: list[KeyProvider | SigningKey] = [
    *(LocalKey(f"local-{number}", bytes([number]) * 32) for number in (1, 2)),
    *(
        LocalSigningKey(f"signer-{number}", {"kty": "OKP", "crv": "Ed25519", "x": x, "d": d})
        for number, (x, d) in enumerate(JWKS, 1)
    ),
]
DAY = 86_400.0


@dataclass(frozen=True)
class World:
    """What a proof is of; each differs from the first in one respect."""

    name: str
    tenant: str = "tenant-a"
    principal: str = "payroll"
    application: str = "payroll"
    number: str = "1"
    time: float = 1_772_366_400.0


WORLDS = [
    World("base"),
    World("another artifact", number="2"),
    World("another principal", principal="auditor"),
    World("another tenant", tenant="tenant-b"),
    World("another application", application="archive"),
    World("another time", time=1_772_366_400.0 + DAY),
]


@dataclass(frozen=True)
class Proof:
    name: str
    kind: str
    artifact: bytes
    receipts: Json


def without_ids(receipts: Json) -> Json:
    """The id of an event is what it was sent under, and shown by nothing."""
    found = {name: value for name, value in receipts.items() if name != "evidence_id"}
    return found | {"previous": without_ids(found["previous"])} if "previous" in found else found


def made(folder: Path) -> list[Proof]:
    """Valid proofs of each operation and profile, in each world."""
    proofs: list[Proof] = []
    profiles: tuple[Profile, ...] = ("envelope", "detached_signature")
    # A tenant has one log: no two of its records have the same place.
    logs = {tenant: Log(signer) for tenant, signer in SIGNERS.items()}
    for place, world in enumerate(WORLDS):
        log = logs[world.tenant]
        log.now = partial(float, world.time)
        platform = RecordingPlatform(log, world.principal, world.tenant)
        platform.revision = f"sha256:{place}{place}"
        for profile in profiles:
            at = folder / f"{place}-{profile}"
            at.mkdir()
            (at / "plain").write_bytes(f"plaintext {world.number}".encode())
            enforcer = Enforcer(
                platform, application=world.application, keys=KEYS, spool_directory=at / "spool", now=lambda: 0.0
            )
            about: Json = {
                "labels": ["confidential", f"label-{world.number}"],
                "purpose": f"audit {world.number}",
                "attributes": {"region": f"eu-{world.number}"},
            }
            is_signature = profile == "detached_signature"
            first, second = ("signer-1", "signer-2") if is_signature else ("local-1", "local-2")
            if world.number == "2":
                first, second = second, first
            enforcer.protect(
                at / "plain",
                at / "made",
                resource={"kind": "invoice", "id": world.number},
                profile=profile,
                key_reference=first,
                **about,
            )
            enforcer.rewrap(at / "made", at / "again", profile=profile, new_key_reference=second, **about)
            enforcer.rewrap(at / "again", at / "twice", profile=profile, new_key_reference=first, **about)
            (at / "again.receipts.json").rename(at / "kept")
            enforcer.rewrap(at / "again", at / "alone", profile=profile, new_key_reference=first, **about)
            (at / "kept").rename(at / "again.receipts.json")
            source = at / "plain" if is_signature else at / "twice"
            enforcer.open(source, at / "opened", signature=at / "twice" if is_signature else None, **about)
            for name in ("made", "again", "twice", "alone", "opened"):
                receipts = json.loads((at / f"{name}.receipts.json").read_text())
                kind = "opened" if name == "opened" else "artifact"
                proofs.append(Proof(f"{world.name}: {profile} {name}", kind, (at / name).read_bytes(), receipts))
    return proofs


def verified(folder: Path, proof: Proof) -> VerifiedArtifact | None:
    """What it shows; None if it is refused."""
    (folder / "file").write_bytes(proof.artifact)
    (folder / "file.receipts.json").write_text(json.dumps(proof.receipts))
    try:
        kind: Any = proof.kind
        return verify_artifact(folder / "file", kind=kind, log_keys=LOG_KEYS)
    except EnforcementError as error:
        assert error.failure in ("not_authentic", "invalid"), error
        return None


MEMBERS = ("operation", "artifact_profile", "artifact_digest", "artifact_cid", "decision_id")
RECORDS = ("plan", "key_access", "new_key_access", "registration", "evidence")
Place = tuple[str, ...]


def places_of(proof: Proof) -> list[Place]:
    """Parts that a proof has, those of the artifacts before among them."""
    found: list[Place] = [("artifact",)]
    prefix: Place = ("receipts",)
    receipts: Any = proof.receipts
    while receipts is not None:
        found += [(*prefix, member) for member in MEMBERS]
        found += [(*prefix, "receipts", name) for name in RECORDS]
        prefix, receipts = (*prefix, "previous"), receipts.get("previous")
        found.append(prefix)
    return found


def part(proof: Proof, place: Place) -> Any:
    """None if it has no such part."""
    found: Any = {"artifact": proof.artifact, "receipts": proof.receipts}
    for member in place:
        found = found.get(member) if isinstance(found, dict) else None
    return found


def with_parts(proof: Proof, other: Proof, places: Sequence[Place]) -> Proof:
    """The proof, with these parts of the other."""
    parts: Json = {"artifact": proof.artifact, "receipts": copy.deepcopy(proof.receipts)}
    for *path, name in places:
        holder: Any = parts
        for member in path:
            holder = holder.get(member) if isinstance(holder, dict) else None
        value = part(other, (*path, name))
        if isinstance(holder, dict):
            if value is None:
                holder.pop(name, None)
            else:
                holder[name] = copy.deepcopy(value)
    where = ", ".join(".".join(place) for place in places)
    return Proof(f"{proof.name}, with {where} of {other.name}", proof.kind, parts["artifact"], parts["receipts"])


def swapped(proofs: Sequence[Proof]) -> Iterator[Callable[[], Proof]]:
    """Every part of every proof, in place of that of every other; and a few of them at once."""
    chance = random.Random(29)
    for proof, other in permutations(proofs, 2):
        # Without an event a proof is one whose event is on its way.
        places = [at for at in places_of(proof) if at[-1] != "evidence" or part(other, at) is not None]
        for place in places:
            yield partial(with_parts, proof, other, [place])
        for _ in range(4):
            some = chance.sample(places, chance.randint(2, len(places) - 1))
            yield partial(with_parts, proof, other, some)


# What a dishonest producer may say without contradicting itself: nothing else in a proof says it again.
FREE = {"evidence.request.occurred_at", "evidence.outcome.citation"}
NEVER = object()
# Members of records, and values that no valid proof has of them.
TOLD: dict[str, Any] = {
    "kind": "erasure",
    "route": "/v1/sdk/policy-resolve",
    "tenant_id": "tenant-c",
    "caller.principal_id": "stranger",
    "request.operation": "none",
    "request.event_type": "deny",
    "request.workload": {"application": "none"},
    "request.resource": {"kind": "none"},
    "request.purpose": NEVER,
    "request.labels": [],
    "request.attributes": {"other": "1"},
    "request.preferred_artifact_profile": "tdf",
    "request.artifact_profile": "tdf",
    "request.artifact_kind": "tdf_manifest",
    "request.artifact_digest": "sha256:" + "0" * 64,
    "request.artifact_cid": "b",
    "request.content_digest": "sha256:" + "0" * 64,
    "request.content_size_bytes": 1.0,
    "request.decision_id": NEVER,
    "request.key_reference": NEVER,
    "request.outcome": "failed",
    "request.occurred_at": "2000-01-01T00:00:00.000Z",
    "request.understood_obligations": ["other"],
    "outcome.allow": False,
    "outcome.accepted": False,
    "outcome.citation": "none",
    "outcome.policy_revision": "sha256:01",
    "outcome.guidance.artifact_profile": "tdf",
}


def records_of(receipts: Json) -> dict[str, Json]:
    return {
        name: json.loads(base64.b64decode(receipts["receipts"][name]["record"]))
        for name in RECORDS
        if name in receipts["receipts"]
    }


def retold(receipts: Json, records: dict[str, Json]) -> Json:
    """The receipts of what a producer has had recorded instead, in a log of the same key."""
    tenant = "tenant-a" if records["plan"]["log"] == SIGNERS["tenant-a"].origin else "tenant-b"
    log = Log(SIGNERS[tenant], lambda: 1_772_366_400.0 + 10 * DAY)
    log.leaves += [b"what comes before"] * 64
    return receipts | {"receipts": {name: receipt_json(log.append(record)) for name, record in records.items()}}


def dishonest(proofs: Sequence[Proof]) -> Iterator[Callable[[], Proof]]:
    """Proofs whose producer had one thing recorded otherwise, or wrote it otherwise into the header."""
    for proof in proofs:
        operation = proof.receipts["operation"]
        records = records_of(proof.receipts)
        for name, record in records.items():
            for member, value in TOLD.items():
                if has(record, member) and not is_free(proof, name, member):
                    yield partial(told_otherwise, proof, name, member, value)
        if proof.kind == "artifact":
            is_shown = "previous" in proof.receipts or operation == "protect"
            for other in proofs:
                for place in HEADER:
                    if differ(proof, other, place) and (is_shown or place not in UNPROVEN):
                        yield partial(written_otherwise, proof, other, place)


def differ(proof: Proof, other: Proof, place: str) -> bool:
    """Whether both headers have the member, and not the same."""
    if other.kind != "artifact":
        return False
    part_name, member = place.split(".")
    one, two = (header_of(it)[0][part_name].get(member) for it in (proof, other))
    return None not in (one, two) and one != two


def has(record: Json, member: str) -> bool:
    found: Any = record
    for name in member.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found is not None


def is_free(proof: Proof, name: str, member: str) -> bool:
    """Whether nothing else says it in proofs like this one."""
    operation, place = proof.receipts["operation"], f"{name}.{member}"
    if place == "key_access.request.key_reference":
        return operation == "access" or (operation == "rewrap" and "previous" not in proof.receipts)
    if place == "plan.request.content_size_bytes":
        return bool(proof.receipts["artifact_profile"] == "envelope")
    # Another revision may decide about a key, or about opening and rewrapping, than about what was protected.
    is_revision = member == "outcome.policy_revision" and (name != "plan" or operation != "protect")
    return place in FREE or is_revision


def told_otherwise(proof: Proof, name: str, member: str, value: Any) -> Proof:
    records = records_of(proof.receipts)
    *path, last = member.split(".")
    holder: Any = records[name]
    for step in path:
        holder = holder[step]
    holder[last] = f"not {holder[last]}" if value is NEVER else value
    return Proof(
        f"{proof.name}, with another {name}.{member}", proof.kind, proof.artifact, retold(proof.receipts, records)
    )


HEADER = (
    *(f"binding.{name}" for name in ("decision_id", "policy_revision", "labels", "resource")),
    *(f"binding.{name}" for name in ("content_digest", "content_size_bytes")),
    *(f"key.{name}" for name in ("decision_id", "reference")),
)
# What only the receipts of what was protected first show.
UNPROVEN = ("binding.decision_id", "binding.policy_revision", "binding.labels", "binding.content_size_bytes")


def written_otherwise(proof: Proof, other: Proof, place: str) -> Proof:
    """The header has a member of the other's, and what was made so is what was registered."""
    part_name, member = place.split(".")
    header, rest = header_of(proof)
    header[part_name][member] = header_of(other)[0][part_name][member]
    if "content_digest" in header["binding"]:
        payload = base64.b64encode(canonical(_statement(header))).decode()
        signature = {"keyid": "", "sig": base64.b64encode(bytes(64)).decode()}
        payload_type = "application/vnd.in-toto+json"
        artifact = canonical({"payload": payload, "payloadType": payload_type, "signatures": [signature]})
    else:
        artifact = encode_header(Header(header["binding"], header["key"])) + rest
    names = digest_of(io.BytesIO(artifact)).names()
    records = records_of(proof.receipts)
    for name in ("registration", "evidence"):
        records[name]["request"] |= names
    receipts = retold(proof.receipts, records) | names
    return Proof(f"{proof.name}, with {place} of {other.name}", proof.kind, artifact, receipts)


def header_of(proof: Proof) -> tuple[Json, bytes]:
    """The header, and what follows it."""
    if proof.artifact.startswith(b"{"):
        return json.loads(base64.b64decode(json.loads(proof.artifact)["payload"]))["predicate"], b""
    source = io.BytesIO(proof.artifact)
    header = read_header(source)
    return {"binding": dict(header.binding), "key": dict(header.key)}, source.read()


def taken(
    folder: Path, proofs: Sequence[Proof], swaps: Sequence[Callable[[], Proof]], most: int
) -> tuple[int, list[str]]:
    """
    Makes them until there are so many that are no valid proof; how many there were, and those that were not refused.
    A rewrap without what was before it says so, which is no refusal, and no lie.
    """
    valid = set(map(known, proofs))
    # One that does not carry what was before it may as well: it was made of the same.
    named = {proof.name: proof for proof in proofs}
    for name in [name for name in named if name.endswith(" alone")]:
        twice = named[name.replace(" alone", " twice")]
        valid.add(known(with_parts(named[name], twice, [("receipts", "previous")])))
    count, wrong = 0, []
    for make in swaps:
        proof = make()
        if known(proof) in valid:
            continue
        count += 1
        shown = verified(folder, proof)
        if shown is not None and not (shown.origin is None and is_cut(proof, proofs)):
            wrong.append(proof.name)
        if count >= most:
            break
    return count, wrong


def known(proof: Proof) -> str:
    """All that is to be proven. Nothing is of the bytes of a file that was opened from an envelope."""
    is_bare = proof.kind == "opened" and proof.receipts.get("artifact_profile") == "envelope"
    artifact = "" if is_bare else proof.artifact.hex()
    return json.dumps([proof.kind, artifact, without_ids(proof.receipts)], sort_keys=True)


def is_cut(proof: Proof, proofs: Sequence[Proof]) -> bool:
    """Whether it is a valid proof, but for what came before."""
    bare = [
        without_previous(one.receipts) for one in proofs if one.artifact == proof.artifact and one.kind == proof.kind
    ]
    return proof.receipts["operation"] == "rewrap" and without_previous(proof.receipts) in bare


def without_previous(receipts: Json) -> Json:
    return {name: value for name, value in receipts.items() if name not in ("previous", "evidence_id")}


def sample(folder: Path, counts: tuple[int, int]) -> tuple[int, list[str]]:
    """So many swaps, and so many proofs of a dishonest producer: how many were made, and which were not refused."""
    proofs = made(folder)
    for proof in proofs:
        assert verified(folder, proof) is not None, proof.name
    total, wrong = 0, list[str]()
    for make, most in zip((swapped, dishonest), counts, strict=True):
        swaps = list(make(proofs))
        # Others in each run: all of them would take hours.
        random.shuffle(swaps)
        count, taken_here = taken(folder, proofs, swaps, most)
        total, wrong = total + count, wrong + taken_here
    return total, wrong
