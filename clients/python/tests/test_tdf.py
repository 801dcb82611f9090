"""Profile `tdf` where the platform allows everything: what is written, and that only what was protected is released."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import RSAAlgorithm
from otdf_python.config import KASInfo, TDFConfig
from otdf_python.tdf import TDF, TDFReaderConfig
from permissive_platform import PermissivePlatform

from svc_platform_client import v1
from svc_platform_client.enforce import (
    EnforcementError,
    Enforcer,
    LocalTdfKey,
    Outcome,
    TdfKey,
    create_public_key_file,
    create_tdf_key_file,
    key_file,
)
from svc_platform_client.enforce._tdf import read_tdf, require_statement
from svc_platform_client.enforce._tdf_manifest import require_manifest
from svc_platform_client.enforce._tdf_zip import Stored, after_payload, before_payload, read_container, require_framing

SEGMENT = 2_097_152
RESOURCE = {"kind": "customer-record", "id": "cust-1", "mime_type": "application/pdf"}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TdfKey]:
    folder = tmp_path_factory.mktemp("keys")
    create_tdf_key_file(folder / "rsa", "https://kas.example.com", "rsa")
    create_tdf_key_file(folder / "ec", "https://kas.example.com/ec", "ec", "ECDH-ES")
    create_tdf_key_file(folder / "other", "https://kas.example.com", "other")
    create_public_key_file(folder / "rsa", folder / "public")
    assert json.loads((folder / "public").read_text()).keys() == {"kty", "n", "e", "alg", "kid", "kas_url"}
    create_public_key_file(folder / "ec", folder / "pem", "pem")
    assert (folder / "pem").read_text().startswith("-----BEGIN PUBLIC KEY-----")
    found: dict[str, TdfKey] = {}
    for name in ("rsa", "ec", "other", "public"):
        key = key_file(folder / name)
        assert isinstance(key, LocalTdfKey)
        found[name] = key
    return found


class Subject:
    """Seals and opens files of one folder."""

    def __init__(self, folder: Path, keys: dict[str, TdfKey]) -> None:
        self.platform, self.folder, self._keys = PermissivePlatform(), folder, keys

    def enforcer(self, *names: str) -> Enforcer:
        return Enforcer(
            self.platform,
            application="test",
            keys=[self._keys[name] for name in names],
            attribute_namespace="example.com",
            spool_directory=self.folder / "spool",
        )

    def seal(self, plain: bytes, *names: str, **options: Any) -> tuple[bytes, Outcome]:
        (self.folder / "plain").write_bytes(plain)
        request: Json = {"profile": "tdf", "resource": RESOURCE, "labels": ["confidential"], "replace": True, **options}
        outcome = self.enforcer(*names).protect(self.folder / "plain", self.folder / "sealed", **request)
        return (self.folder / "sealed").read_bytes(), outcome

    def open(self, sealed: bytes, *names: str, **options: Any) -> tuple[bytes, Outcome]:
        """Opens to a file and to a stream; if one is refused, so is the other, and nothing is left."""
        (self.folder / "input").write_bytes(sealed)
        target, stream = self.folder / "opened", io.BytesIO()
        failures: list[EnforcementError] = []
        for source, to in ((self.folder / "input", target), (io.BytesIO(sealed), stream)):
            try:
                outcome = self.enforcer(*names).open(source, to, profile="tdf", **options)
            except EnforcementError as error:
                failures.append(error)
        if failures:
            assert [error.failure for error in failures] == [failures[0].failure] * 2
            assert not [path.name for path in self.folder.iterdir() if "opened" in path.name]
            raise failures[0]
        found = target.read_bytes()
        assert found == stream.getvalue()
        for path in self.folder.glob("opened*"):
            path.unlink()
        return found, outcome


@pytest.fixture
def subject(tmp_path: Path, keys: dict[str, TdfKey]) -> Subject:
    return Subject(tmp_path, keys)


def failure(work: Callable[[], object]) -> str:
    with pytest.raises(EnforcementError) as caught:
        work()
    return caught.value.failure


def manifest_of(sealed: bytes) -> tuple[int, int, Json]:
    start = sealed.index(b'{"assertions"')
    end = sealed.index(b"PK\7\10", start)
    return start, end, json.loads(sealed[start:end])


@pytest.mark.parametrize("name", ["rsa", "ec"])
@pytest.mark.parametrize("size", [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5])
def test_bytes_come_back(name: str, size: int, subject: Subject) -> None:
    plain = os.urandom(size)
    sealed, outcome = subject.seal(plain, name)
    found, opened = subject.open(sealed, name)
    assert found == plain
    assert (opened.is_foreign, opened.artifact_digest) == (False, outcome.artifact_digest)


def test_the_manifest_names_the_decision_and_its_digest_is_registered(subject: Subject) -> None:
    sealed, outcome = subject.seal(b"secret", "public")
    start, end, manifest = manifest_of(sealed)
    assert outcome.artifact_digest == f"sha256:{hashlib.sha256(sealed[start:end]).hexdigest()}"
    [registration] = subject.platform.registrations
    assert registration.artifact_kind == v1.ARTIFACT_KIND_TDF_MANIFEST
    assert registration.artifact_profile == v1.ARTIFACT_PROFILE_TDF
    assert (registration.artifact_digest, registration.key_reference) == (outcome.artifact_digest, "rsa")
    [event] = subject.platform.events.values()
    assert event.artifact_kind == v1.ARTIFACT_KIND_TDF_MANIFEST
    names = [("decision", outcome.decision_id), ("label", "confidential")]
    attributes = [{"attribute": f"https://example.com/attr/{name}/value/{value}"} for name, value in names]
    body = {"dissem": [], "dataAttributes": attributes}
    policy = json.loads(base64.b64decode(manifest["encryptionInformation"]["policy"]))
    assert policy == {"uuid": outcome.decision_id, "body": body}
    assert (manifest["schemaVersion"], manifest["payload"]["mimeType"]) == ("4.3.0", "application/pdf")
    # The public half protects only.
    for name in ("public", "other"):
        assert failure(lambda name=name: subject.open(sealed, name)) == "invalid"  # type: ignore[misc]
    assert subject.open(sealed, "rsa")[0] == b"secret"


def test_streams_of_an_unknown_size_use_zip64(subject: Subject) -> None:
    plain, sealed, seen = os.urandom(5_000_000), io.BytesIO(), list[tuple[int, int | None]]()
    subject.enforcer("rsa").protect(
        io.BytesIO(plain),
        sealed,
        profile="tdf",
        resource=RESOURCE,
        segment_hash="GMAC",
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen.pop() == (5_000_000, None)
    assert sealed.getvalue()[4:6] == struct.pack("<H", 45)
    assert subject.open(sealed.getvalue(), "rsa", on_progress=lambda *it: seen.append(it))[0] == plain
    assert seen.pop() == (5_000_084, 5_000_084)


def test_every_share_is_needed_and_any_key_of_a_share_gives_it(subject: Subject) -> None:
    sealed, _ = subject.seal(b"secret", "rsa", "ec", "other", tdf_keys=[["rsa", "other"], ["ec"]])
    held: tuple[str, ...]
    for held in (("rsa", "ec"), ("other", "ec")):
        assert subject.open(sealed, *held)[0] == b"secret"
    for held in (("rsa", "other"), ("ec",)):
        assert failure(lambda held=held: subject.open(sealed, *held)) == "invalid"  # type: ignore[misc]
    wanted: tuple[list[list[str]], ...] = ([], [[]], [["unknown"]])
    for keys in wanted:
        assert failure(lambda keys=keys: subject.seal(b"", "rsa", tdf_keys=keys)) == "invalid"  # type: ignore[misc]


def test_a_rewrap_replaces_the_keys_and_leaves_policy_binding_and_payload(subject: Subject) -> None:
    plain = os.urandom(2_500_000)
    sealed, outcome = subject.seal(plain, "rsa", with_content_digest=True)
    assert subject.platform.questions[0].content_digest == f"sha256:{hashlib.sha256(plain).hexdigest()}"
    path, request = subject.folder / "sealed", {"profile": "tdf", "new_key_reference": "ec", "replace": True}
    again = subject.enforcer("rsa", "ec").rewrap(path, path, **request)  # type: ignore[arg-type]
    assert again.receipts["previous"]["artifact_digest"] == outcome.artifact_digest
    rewrapped = path.read_bytes()
    (start, _, before), (_, _, after) = manifest_of(sealed), manifest_of(rewrapped)
    assert after["encryptionInformation"]["policy"] == before["encryptionInformation"]["policy"]
    assert rewrapped[:start] == sealed[:start]
    assert failure(lambda: subject.open(rewrapped, "rsa")) == "invalid"
    assert subject.open(rewrapped, "ec")[0] == plain
    registration = subject.platform.registrations[-1]
    assert (registration.operation, registration.key_reference) == (v1.PROTECTION_OPERATION_REWRAP, "ec")
    statement = json.loads(after["assertions"][0]["statement"]["value"])
    assert statement["binding"]["decision_id"] == outcome.decision_id


@pytest.mark.parametrize(
    "options",
    [{"labels": ["Confidential"]}, {"labels": ["a/b"]}, {"key_reference": "unknown"}, {"segment_hash": "MD5"}],
    ids=str,
)
def test_what_cannot_be_written_is_refused(options: Json, subject: Subject) -> None:
    assert failure(lambda: subject.seal(b"secret", "rsa", **options)) == "invalid"
    assert [path.name for path in subject.folder.iterdir()] == ["plain"]


def test_without_a_namespace_nothing_is_protected(subject: Subject, keys: dict[str, TdfKey], tmp_path: Path) -> None:
    plain = Enforcer(subject.platform, application="test", keys=[keys["rsa"]], spool_directory=tmp_path)
    work = lambda: plain.protect(io.BytesIO(b""), io.BytesIO(), profile="tdf", resource=RESOURCE)  # noqa: E731
    assert failure(work) == "invalid"


@pytest.fixture
def whole(subject: Subject) -> bytes:
    return subject.seal(os.urandom(1000), "rsa")[0]


def test_every_changed_byte_is_refused_and_leaves_nothing(subject: Subject, whole: bytes) -> None:
    for number in range(200):
        changed, place = bytearray(whole), number * len(whole) // 200
        changed[place] ^= 1 << number % 8
        work = lambda changed=changed: subject.open(bytes(changed), "rsa")  # noqa: E731
        assert failure(work) in ("not_authentic", "invalid"), place


def test_another_size_is_refused(subject: Subject, whole: bytes) -> None:
    for changed in (whole[:-1], whole + b"\0", b"", b"\0" + whole, whole[:1000]):
        assert failure(lambda changed=changed: subject.open(changed, "rsa")) == "not_authentic"  # type: ignore[misc]


def remade(whole: bytes, change: Callable[[Json], object]) -> bytes:
    """The file with a changed manifest in an intact container."""
    start, end, manifest = manifest_of(whole)
    change(manifest)
    data = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    file = bytearray(whole[:start] + data + whole[end:])
    entry = file.rindex(b"PK\1\2")
    for place in (start + len(data) + 4, entry + 16):
        struct.pack_into("<3I", file, place, binascii.crc32(data), len(data), len(data))
    struct.pack_into(
        "<I", file, len(file) - 6, struct.unpack_from("<I", file, len(file) - 6)[0] + len(data) - end + start
    )
    return bytes(file)


def of(*path: str | int) -> Callable[[Json], Any]:
    def found(manifest: Json) -> Any:
        value: Any = manifest["encryptionInformation"]
        for step in path:
            value = value[step]
        return value

    return found


def without_assertion(manifest: Json) -> None:
    del manifest["assertions"]


CHANGES: dict[str, Callable[[Json], object]] = {
    "the assertion left out": without_assertion,
    "another schema version": lambda it: it.update(schemaVersion="4.3.1"),
    "a version before": lambda it: it.update(schemaVersion="4.2.0"),
    "another media type": lambda it: it["payload"].update(mimeType="text/plain"),
    "another address": lambda it: of("keyAccess", 0)(it).update(url="https://kas.example.org"),
    "another policy": lambda it: of()(it).update(policy=base64.b64encode(b"{}").decode()),
    "another policy binding": lambda it: of("keyAccess", 0, "policyBinding")(it).update(hash="AA=="),
    "another algorithm of the policy binding": lambda it: of("keyAccess", 0, "policyBinding")(it).update(alg="none"),
    "another wrapped key": lambda it: of("keyAccess", 0)(it).update(wrappedKey="AA=="),
    "another algorithm of segments": lambda it: of("integrityInformation")(it).update(segmentHashAlg="GMAC"),
    "an unknown algorithm of segments": lambda it: of("integrityInformation")(it).update(segmentHashAlg="none"),
    "no segments": lambda it: of("integrityInformation")(it).update(segments=[]),
    "a segment of another size": lambda it: of("integrityInformation", "segments", 0)(it).update(segmentSize=1),
    "a segment twice": lambda it: of("integrityInformation", "segments")(it).extend(
        of("integrityInformation", "segments")(it)[:1]
    ),
    "another root signature": lambda it: of("integrityInformation", "rootSignature")(it).update(sig="AA=="),
    "another member": lambda it: it.update(more=1),
    "a number that is no integer of JSON": lambda it: it.update(more=2**60),
    "a second assertion": lambda it: it["assertions"].append({**it["assertions"][0], "id": "more"}),
    "the assertion twice": lambda it: it["assertions"].extend(it["assertions"][:1]),
    "an assertion that is no object": lambda it: it["assertions"][0].update(statement={"value": []}),
    "another resource": lambda it: it["assertions"][0]["statement"].update(
        value=it["assertions"][0]["statement"]["value"].replace("cust-1", "cust-2")
    ),
    "another signature": lambda it: it["assertions"][0]["binding"].update(
        signature=it["assertions"][0]["binding"]["signature"][:-1] + "-"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_manifest_is_refused(change: str, subject: Subject, whole: bytes) -> None:
    assert failure(lambda: subject.open(remade(whole, CHANGES[change]), "rsa")) == "not_authentic"


def test_a_manifest_that_was_made_again_as_it_was_opens(subject: Subject, whole: bytes) -> None:
    assert remade(whole, lambda _: None) == whole
    subject.open(whole, "rsa")


def test_without_the_key_a_manifest_is_the_one_of_its_assertion(whole: bytes) -> None:
    def verify(file: bytes) -> None:
        found = read_tdf(io.BytesIO(file))
        require_manifest(found.container.manifest, found.manifest, require_statement(found), None)

    verify(whole)
    for change in CHANGES.keys() - {"another signature"}:
        assert failure(lambda change=change: verify(remade(whole, CHANGES[change]))) == "not_authentic", change  # type: ignore[misc]


def test_parts_of_another_file_are_refused(subject: Subject, whole: bytes) -> None:
    other, _ = subject.seal(os.urandom(1000), "rsa")
    (start, _, _), (_, _, theirs) = manifest_of(whole), manifest_of(other)
    assert failure(lambda: subject.open(other[:start] + whole[start:], "rsa")) == "not_authentic"
    for member in ("policy", "keyAccess", "integrityInformation"):
        changed = remade(whole, lambda it, member=member: of()(it).update({member: of(member)(theirs)}))  # type: ignore[misc]
        assert failure(lambda changed=changed: subject.open(changed, "rsa")) == "not_authentic", member  # type: ignore[misc]
    swapped = remade(whole, lambda it: it.update(assertions=theirs["assertions"]))
    assert failure(lambda: subject.open(swapped, "rsa")) == "not_authentic"


def test_segments_in_another_order_are_refused(subject: Subject) -> None:
    sealed, _ = subject.seal(os.urandom(2 * SEGMENT), "rsa", segment_hash="GMAC")
    at, size = len(before_payload(False)), SEGMENT + 28
    swapped = sealed[:at] + sealed[at + size : at + 2 * size] + sealed[at : at + size] + sealed[at + 2 * size :]
    assert failure(lambda: subject.open(swapped, "rsa")) == "not_authentic"


ATTRIBUTES = [
    "https://Example.com/attr/Label/value/Confidential",
    "https://example.org/attr/Class/value/Secret",
    "https://example.com/attr/decision/value/approved",
]


def foreign_of(
    sealed: bytes, key: TdfKey, uuid: str = "8d5a45f2", attributes: list[str] = ATTRIBUTES, **body: object
) -> bytes:
    """The file as another program writes it: with another assertion and another policy."""
    named = {"dataAttributes": [{"attribute": attribute} for attribute in attributes], **body}
    return foreign_with(sealed, key, base64.b64encode(json.dumps({"uuid": uuid, "body": named}).encode()).decode())


def foreign_with(sealed: bytes, key: TdfKey, policy: str) -> bytes:
    def change(manifest: Json) -> None:
        access = of("keyAccess", 0)(manifest)
        binding = hmac.digest(key.unwrap_share(access), policy.encode(), "sha256")
        access["policyBinding"]["hash"] = base64.b64encode(binding).decode()
        of()(manifest)["policy"] = policy
        manifest["assertions"] = [{"id": "theirs", "statement": {}}]

    return remade(sealed, change)


def test_a_file_without_our_assertion_opens_as_a_foreign_one_only_and_says_so(
    subject: Subject, keys: dict[str, TdfKey]
) -> None:
    sealed, _ = subject.seal(b"secret", "rsa")
    theirs = foreign_of(sealed, keys["rsa"])
    foreign = remade(theirs, without_assertion)
    assert failure(lambda: subject.open(foreign, "rsa")) == "not_authentic"
    assert failure(lambda: subject.open(foreign, "rsa", allow_foreign=True)) == "invalid"
    found, outcome = subject.open(foreign, "rsa", allow_foreign=True, resource=RESOURCE)
    assert (found, outcome.is_foreign) == (b"secret", True)
    # As a key access service sees them.
    labels = sorted(["confidential", *(name.lower() for name in ATTRIBUTES[1:])])
    assert list(subject.platform.events.values())[-1].labels == labels
    enforcer, target = subject.enforcer("rsa", "ec"), io.BytesIO()
    work = lambda: enforcer.rewrap(io.BytesIO(foreign), target, profile="tdf", new_key_reference="ec")  # noqa: E731
    assert failure(work) == "not_authentic"
    assert target.getvalue() == b""
    for changed, expected in (
        (foreign_of(sealed, keys["rsa"], dissem=["someone"]), "not_permitted"),
        (
            remade(theirs, lambda it: of("integrityInformation", "rootSignature")(it).update(sig="AA==")),
            "not_authentic",
        ),
        (remade(theirs, lambda it: of("keyAccess", 0)(it).update(type="remote")), "invalid"),
    ):
        opens = lambda changed=changed: subject.open(changed, "rsa", allow_foreign=True, resource=RESOURCE)  # noqa: E731
        assert failure(opens) == expected


def test_a_file_of_ours_whose_assertion_was_left_out_is_no_foreign_one(
    subject: Subject, keys: dict[str, TdfKey]
) -> None:
    sealed, _ = subject.seal(b"secret", "rsa")
    policy = json.loads(base64.b64decode(of("policy")(manifest_of(sealed)[2])))
    attributes = [item["attribute"] for item in policy["body"]["dataAttributes"]]
    for changed in (
        remade(sealed, without_assertion),
        remade(sealed, lambda it: it.update(assertions=[{"id": "theirs", "statement": {}}])),
        foreign_of(sealed, keys["rsa"], policy["uuid"].upper(), attributes[::-1]),
    ):
        opens = lambda changed=changed: subject.open(changed, "rsa", allow_foreign=True, resource={"kind": "harmless"})  # noqa: E731
        assert failure(opens) == "not_authentic"


def foreign_refusal(subject: Subject, file: bytes) -> str | None:
    try:
        subject.open(file, "rsa", allow_foreign=True, resource=RESOURCE)
    except EnforcementError as error:
        return error.failure
    return None


def test_a_container_in_which_another_reader_would_find_other_entries(
    subject: Subject, whole: bytes, keys: dict[str, TdfKey]
) -> None:
    file = foreign_of(whole, keys["rsa"])
    body, end = file[:-22], file[-22:]
    [at] = struct.unpack("<I", end[-6:-2])
    directory = body[at:]
    assert foreign_refusal(subject, file) is None

    def wide(directory_at: int, record_at: int) -> bytes:
        """The records of ZIP64, which name a directory."""
        record = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(directory), directory_at)
        return record + struct.pack("<4sIQI", b"PK\6\7", 0, record_at, 1)

    assert foreign_refusal(subject, body + wide(at, len(body)) + end) is None
    # The payload's size, twice in ZIP64 fields after its name.
    [size, named] = struct.unpack("<20xI4xH16x", directory[:46])
    field = struct.pack("<2H2Q", 1, 16, size, size)
    two_sizes = bytearray(directory[: 46 + named] + 2 * field + directory[46 + named :])
    two_sizes[20:28], two_sizes[30:32] = b"\xff" * 8, struct.pack("<H", 2 * len(field))
    for changed in (
        body + directory + wide(len(body), len(body) + len(directory)) + end,
        body + b"more" + end,
        file + b"more",
        b"more" + file,
        file[:-14] + b"\1" + file[-13:],
        file[:30] + b"11" + file[32:],
        file[:8] + b"\10" + file[9:],
        body[:at] + bytes(two_sizes) + end[:12] + struct.pack("<I", len(two_sizes)) + end[16:],
    ):
        assert foreign_refusal(subject, changed) == "not_authentic"


def test_a_policy_or_manifest_that_readers_would_read_in_two_ways(
    subject: Subject, whole: bytes, keys: dict[str, TdfKey]
) -> None:
    policy = b'{"uuid":"8d5a45f2","body":{"dataAttributes":null,"dissem":null}}'
    encoded = base64.b64encode(policy).decode()
    assert foreign_refusal(subject, foreign_with(whole, keys["rsa"], encoded)) is None
    texts = [
        policy.replace(b'"8d5a45f2"', b"null"),
        policy.replace(b'"8d5a45f2"', b"NaN"),
        b'{"uuid":"a","body":true}',
        policy.replace(b"null}", b"false}"),
        policy.replace(b"null,", b"{},"),
        policy.replace(b"null,", b'[{"attribute":"\\ud800"}],'),
        policy.decode().encode("utf-16"),
    ]
    for text in (encoded.rstrip("="), f"{encoded}\n", *(base64.b64encode(text).decode() for text in texts)):
        assert foreign_refusal(subject, foreign_with(whole, keys["rsa"], text)) == "not_authentic", text
    for change in ({"assertions": None}, {"schemaVersion": ["4.3.0"]}):
        assert failure(lambda change=change: subject.open(remade(whole, lambda it: it.update(change)), "rsa")) == (  # type: ignore[misc]
            "not_authentic"
        )


@pytest.mark.parametrize("size", [0, 1, 2**32 - 2, 2**32 - 1, 2**32, 2**40])
@pytest.mark.parametrize("is_zip64", [False, True])
def test_framing_of_large_files(size: int, is_zip64: bool) -> None:
    """What is written around a payload of any size is read again, over a file that has no payload."""
    if size >= 2**32 - 1 and not is_zip64:
        return
    payload = Stored(7, size)
    before, after = before_payload(is_zip64), after_payload(payload, b"{}", is_zip64)
    path = Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") / f"sparse-{os.getpid()}"
    try:
        with open(path, "w+b") as file:
            file.write(before)
            file.seek(len(before) + size)
            file.write(after)
            file.flush()
            found = read_container(file)
            assert (found.payload_at, found.payload_size, found.manifest) == (len(before), size, b"{}")
            require_framing(file, found, payload)
            assert failure(lambda: require_framing(file, found, Stored(8, size))) == "not_authentic"
    finally:
        path.unlink()


@pytest.mark.parametrize("size", [0, 1, SEGMENT, SEGMENT + 1])
def test_files_are_exchanged_with_otdf_python(size: int, tmp_path: Path) -> None:
    """It reads the format without a service, and verifies nothing: other tests prove integrity."""
    plain, url = os.urandom(size), "https://kas.example.com"
    private = rsa.generate_private_key(65_537, 2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    subject = Subject(tmp_path, {"rsa": LocalTdfKey("rsa", RSAAlgorithm.to_jwk(private, as_dict=True), url=url)})
    for alg in ("HS256", "GMAC"):
        sealed, _ = subject.seal(plain, "rsa", segment_hash=alg)
        assert TDF().load_tdf(sealed, TDFReaderConfig(kas_private_key=pem)).payload == plain
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    config = TDFConfig(
        kas_info_list=[KASInfo(url=url, public_key=public, kid="rsa")],
        attributes=["https://example.com/attr/label/value/theirs"],
    )
    _, _, made = TDF().create_tdf(plain, config)
    theirs = made.getvalue()
    assert failure(lambda: subject.open(theirs, "rsa")) == "not_authentic"
    found, outcome = subject.open(theirs, "rsa", allow_foreign=True, resource=RESOURCE)
    assert (found, outcome.is_foreign) == (plain, True)
    assert subject.platform.questions[-1].labels == ["theirs"]


@pytest.mark.parametrize(
    "jwk",
    [
        {"kty": "RSA", "n": base64.urlsafe_b64encode(b"\xff" * 128).decode().rstrip("="), "e": "AQAB"},
        {"kty": "oct", "k": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {},
    ],
)
def test_what_is_no_tdf_key(jwk: Json) -> None:
    assert failure(lambda: LocalTdfKey("name", jwk, url="https://kas.example.com")) == "invalid"


def test_a_tdf_key_of_two_halves_or_without_an_address(tmp_path: Path) -> None:
    for name in ("one", "two"):
        create_tdf_key_file(tmp_path / name, "https://kas.example.com", name, "ECDH-ES")
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("one", "two"))
    assert failure(lambda: LocalTdfKey("name", {**one, "d": two["d"]}, url="https://kas.example.com")) == "invalid"
    for url in ("kas.example.com", "https://", "ftp://kas.example.com"):
        assert failure(lambda url=url: LocalTdfKey("name", one, url=url)) == "invalid"  # type: ignore[misc]
    (tmp_path / "one").chmod(0o644)
    assert failure(lambda: key_file(tmp_path / "one")) == "invalid"


def test_the_key_of_a_plan_wraps_and_its_attribute_values_are_in_the_policy(subject: Subject) -> None:
    fqn = "https://example.com/attr/department/value/finance"
    named = {"url": "https://kas.example.com", "kid": "rsa", "algorithm": "rsa:2048"}
    subject.platform.tdf_key = v1.TdfKey(**named, attribute_fqns=[fqn])
    sealed, _ = subject.seal(b"secret", "rsa")
    _, _, manifest = manifest_of(sealed)
    policy = json.loads(base64.b64decode(manifest["encryptionInformation"]["policy"]))
    attributes = [found["attribute"] for found in policy["body"]["dataAttributes"]]
    assert attributes[0].startswith("https://example.com/attr/decision/value/")
    assert attributes[1:] == ["https://example.com/attr/label/value/confidential", fqn]
    assert subject.open(sealed, "rsa")[0] == b"secret"
    with pytest.raises(EnforcementError, match="the plan is for the TDF key rsa of") as caught:
        subject.seal(b"secret", "other")
    assert caught.value.failure == "not_permitted"


def test_a_rewrap_is_refused_if_the_policy_of_the_file_lacks_an_attribute_value_of_the_plan(subject: Subject) -> None:
    fqn = "https://example.com/attr/department/value/finance"
    named = {"url": "https://kas.example.com", "kid": "other", "algorithm": "rsa:2048"}
    sealed, again = subject.folder / "sealed", subject.folder / "again"
    subject.seal(b"secret", "rsa")
    subject.platform.tdf_key = v1.TdfKey(**named, attribute_fqns=[fqn])
    with pytest.raises(EnforcementError, match=f"the plan demands {fqn}") as caught:
        subject.enforcer("rsa", "other").rewrap(sealed, again, profile="tdf", new_key_reference="other")
    assert caught.value.failure == "not_permitted"
    assert not again.exists()
    subject.seal(b"secret", "other")
    subject.enforcer("other").rewrap(sealed, again, profile="tdf", new_key_reference="other")
    assert again.exists()
