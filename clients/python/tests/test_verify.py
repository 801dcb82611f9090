"""What proofs beside files show to a verifier who says what the file is, and which of them are refused."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from recorded import Log, RecordingPlatform
from swaps import LOG_KEYS, SIGNERS, Proof, made, records_of, retold, verified

from svc_platform_client.enforce import EnforcementError, Enforcer, LocalKey, verify_artifact
from svc_platform_client.receipts._relations import TABLE

RULES = TABLE["artifact"]


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Proof]:
    return {proof.name: proof for proof in made(tmp_path_factory.mktemp("proofs"))}


def failure(work: Callable[[], Any]) -> str:
    with pytest.raises(EnforcementError) as caught:
        work()
    return caught.value.failure


def test_the_table_is_the_one_that_all_packages_share() -> None:
    shared = Path(__file__).parents[2] / "conformance" / "vectors" / "record-relations.json"
    assert json.loads(shared.read_text()) == TABLE


def test_what_is_shown_stands_in_records(proofs: dict[str, Proof], tmp_path: Path) -> None:
    shown = verified(tmp_path, proofs["base: envelope twice"])
    first = verified(tmp_path, proofs["base: envelope made"])
    assert shown is not None
    assert first is not None
    assert (shown.operation, shown.tenant_id, shown.principal_id) == ("rewrap", "tenant-a", "payroll")
    assert (shown.resource, shown.labels) == ({"kind": "invoice", "id": "1"}, ["confidential", "label-1"])
    assert (shown.key_reference, first.key_reference) == ("local-1", "local-1")
    assert shown.origin == first.origin
    assert shown.origin is not None
    assert (shown.origin.decision_id, shown.origin.artifact_digest) == (first.decision_id, first.artifact_digest)
    assert [record.name for record in shown.records] == [
        "plan",
        "key_access",
        "new_key_access",
        "registration",
        "evidence",
    ]


def test_a_rewrap_that_does_not_carry_what_was_before_it_says_so(proofs: dict[str, Proof], tmp_path: Path) -> None:
    shown = verified(tmp_path, proofs["base: envelope alone"])
    assert shown is not None
    assert shown.origin is None


@pytest.mark.parametrize("name", ["envelope twice", "detached_signature made", "envelope opened"])
def test_bytes_and_receipts_need_no_paths(name: str, proofs: dict[str, Proof], tmp_path: Path) -> None:
    proof = proofs[f"base: {name}"]
    kind: Any = "opened" if name.endswith("opened") else "artifact"
    artifact = io.BytesIO(proof.artifact)
    shown = verify_artifact(artifact, kind=kind, receipts=proof.receipts, log_keys=LOG_KEYS)
    assert shown == verified(tmp_path, proof)
    for receipts in (None, {}, {"format": "other"}):
        work = partial(verify_artifact, artifact, kind=kind, receipts=receipts, log_keys=LOG_KEYS)
        assert failure(work) == "invalid"
    if kind == "artifact":
        changed = io.BytesIO(proof.artifact[:-1])
        work = partial(verify_artifact, changed, receipts=proof.receipts, log_keys=LOG_KEYS)
        assert failure(work) == "not_authentic"


@pytest.mark.parametrize("profile", ["envelope", "detached_signature"])
def test_the_receipts_do_not_say_what_the_file_is(profile: str, proofs: dict[str, Proof], tmp_path: Path) -> None:
    opened, sealed = proofs[f"base: {profile} opened"], proofs[f"base: {profile} made"]
    junk = Proof("", "artifact", os.urandom(100), opened.receipts)
    assert verified(tmp_path, junk) is None
    assert verified(tmp_path, Proof("", "opened", sealed.artifact, sealed.receipts)) is None
    zeros = opened.receipts | {"artifact_digest": "sha256:" + "0" * 64}
    assert verified(tmp_path, Proof("", "opened", opened.artifact, zeros)) is None
    assert failure(lambda: verify_artifact(tmp_path / "file", kind="other", log_keys=LOG_KEYS)) == "invalid"  # type: ignore[arg-type]


def test_an_opened_file_is_shown_as_far_as_records_name_it(proofs: dict[str, Proof], tmp_path: Path) -> None:
    sealed = verified(tmp_path, proofs["base: envelope opened"])
    signed = verified(tmp_path, proofs["base: detached_signature opened"])
    assert sealed is not None
    assert signed is not None
    assert (sealed.is_content_proven, signed.is_content_proven) == (False, True)
    other = Proof("", "opened", b"other", proofs["base: detached_signature opened"].receipts)
    assert verified(tmp_path, other) is None


def test_a_digest_of_the_plaintext_that_was_asked_about_is_compared(tmp_path: Path) -> None:
    platform = RecordingPlatform(Log(SIGNERS["tenant-a"]))
    receipts = opened_receipts(platform, tmp_path)
    records = records_of(receipts)
    digest = "sha256:982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
    for name in ("plan", "key_access"):
        records[name]["request"]["content_digest"] = digest
    shown = verified(tmp_path, Proof("", "opened", b"text", retold(receipts, records)))
    assert shown is not None
    assert shown.is_content_proven
    assert verified(tmp_path, Proof("", "opened", b"other", retold(receipts, records))) is None


def opened_receipts(platform: RecordingPlatform, folder: Path) -> dict[str, Any]:
    enforcer = Enforcer(platform, application="a", keys=[LocalKey("k", bytes(32))], spool_directory=folder / "spool")
    (folder / "plain").write_bytes(b"text")
    enforcer.protect(folder / "plain", folder / "sealed", resource={"kind": "test"})
    enforcer.open(folder / "sealed", folder / "out")
    receipts: dict[str, Any] = json.loads((folder / "out.receipts.json").read_text())
    return receipts


def test_names_of_receipts_are_a_closed_set(proofs: dict[str, Proof], tmp_path: Path) -> None:
    for name in ("made", "again", "opened"):
        proof = proofs[f"base: envelope {name}"]
        receipts = proof.receipts["receipts"]
        for added in ("approval", "policy", "\x1b[2J", "new_key_access", "registration"):
            if added not in receipts:
                more = proof.receipts | {"receipts": receipts | {added: receipts["plan"]}}
                assert verified(tmp_path, Proof("", proof.kind, proof.artifact, more)) is None, added
        for left_out in receipts:
            fewer = {one: receipt for one, receipt in receipts.items() if one != left_out}
            shown = verified(tmp_path, Proof("", proof.kind, proof.artifact, proof.receipts | {"receipts": fewer}))
            if left_out == "evidence":
                assert shown is not None
                assert shown.is_evidence_pending
            else:
                assert shown is None, left_out


def test_a_receipt_has_no_other_members(proofs: dict[str, Proof], tmp_path: Path) -> None:
    proof = proofs["base: envelope made"]
    receipts = proof.receipts["receipts"]
    changed: Any
    for changed in (receipts["plan"] | {"note": "approved"}, receipts["plan"] | {"proof": None}, [], "receipt"):
        more = proof.receipts | {"receipts": receipts | {"plan": changed}}
        assert verified(tmp_path, Proof("", proof.kind, proof.artifact, more)) is None


def test_records_that_stand_in_another_order_are_refused(proofs: dict[str, Proof], tmp_path: Path) -> None:
    proof = proofs["base: envelope made"]
    records = records_of(proof.receipts)
    assert verified(tmp_path, Proof("", proof.kind, proof.artifact, retold(proof.receipts, records))) is not None
    turned = dict(reversed(records.items()))
    assert verified(tmp_path, Proof("", proof.kind, proof.artifact, retold(proof.receipts, turned))) is None


def test_a_chain_has_an_end(proofs: dict[str, Proof], tmp_path: Path) -> None:
    proof = proofs["base: envelope twice"]
    receipts = proof.receipts
    for _ in range(RULES["max_chain"] + 1):
        receipts = receipts | {"previous": receipts}
    assert verified(tmp_path, Proof("", proof.kind, proof.artifact, receipts)) is None
    made_of = proofs["base: envelope made"]
    broken: Any
    for broken in ({"previous": proof.receipts}, {"previous": None}, {"previous": {}}, {"previous": []}):
        more = made_of.receipts | broken
        assert verified(tmp_path, Proof("", made_of.kind, made_of.artifact, more)) is None
    opened = proofs["base: envelope opened"].receipts
    assert verified(tmp_path, Proof("", proof.kind, proof.artifact, proof.receipts | {"previous": opened})) is None


def test_a_rewrap_carries_no_longer_chain_than_is_verified(tmp_path: Path) -> None:
    platform = RecordingPlatform(Log(SIGNERS["tenant-a"]))
    keys = [LocalKey("one", bytes(32)), LocalKey("two", bytes([1]) * 32)]
    enforcer = Enforcer(platform, application="a", keys=keys, spool_directory=tmp_path / "spool")
    (tmp_path / "plain").write_bytes(b"text")
    enforcer.protect(tmp_path / "plain", tmp_path / "0", resource={"kind": "test"}, key_reference="one")
    longest: int = RULES["max_chain"]
    for number in range(longest + 1):
        reference = ("two", "one")[number % 2]
        enforcer.rewrap(tmp_path / f"{number}", tmp_path / f"{number + 1}", new_key_reference=reference)
        shown = verify_artifact(tmp_path / f"{number + 1}", log_keys=LOG_KEYS)
        assert (shown.origin is not None) == (number < longest)


def test_receipts_of_another_artifact_are_not_carried(tmp_path: Path) -> None:
    platform = RecordingPlatform(Log(SIGNERS["tenant-a"]))
    keys = [LocalKey("one", bytes(32)), LocalKey("two", bytes([1]) * 32)]
    enforcer = Enforcer(platform, application="a", keys=keys, spool_directory=tmp_path / "spool")
    (tmp_path / "plain").write_bytes(b"text")
    for name in ("one", "other"):
        enforcer.protect(tmp_path / "plain", tmp_path / name, resource={"kind": "test"})
    (tmp_path / "other.receipts.json").replace(tmp_path / "one.receipts.json")
    enforcer.rewrap(tmp_path / "one", tmp_path / "again", new_key_reference="two")
    assert "previous" not in json.loads((tmp_path / "again.receipts.json").read_text())
    assert verify_artifact(tmp_path / "again", log_keys=LOG_KEYS).origin is None


def test_receipts_of_an_access_are_not_carried(tmp_path: Path) -> None:
    platform = RecordingPlatform(Log(SIGNERS["tenant-a"]))
    keys = [LocalKey("one", bytes(32)), LocalKey("two", bytes([1]) * 32)]
    enforcer = Enforcer(platform, application="a", keys=keys, spool_directory=tmp_path / "spool")
    (tmp_path / "plain").write_bytes(b"text")
    enforcer.protect(tmp_path / "plain", tmp_path / "sealed", resource={"kind": "test"})
    enforcer.open(tmp_path / "sealed", tmp_path / "file")
    (tmp_path / "sealed").replace(tmp_path / "file")
    enforcer.rewrap(tmp_path / "file", tmp_path / "again", new_key_reference="two")
    assert verify_artifact(tmp_path / "again", log_keys=LOG_KEYS).origin is None


@pytest.mark.parametrize("place", ["artifact", "receipts", "data"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    place: str, proofs: dict[str, Proof], tmp_path: Path
) -> None:
    proof = proofs["base: detached_signature made"]
    files = {"artifact": tmp_path / "file", "receipts": tmp_path / "file.receipts.json", "data": tmp_path / "data"}
    verified(tmp_path, proof)
    files["data"].write_bytes(b"plaintext 1")
    assert verify_artifact(files["artifact"], data=files["data"], log_keys=LOG_KEYS).operation == "protect"
    files[place].unlink()
    os.mkfifo(files[place])
    arguments = json.dumps([{"artifact": str(files["artifact"]), "data": str(files["data"]), "log_keys": LOG_KEYS}])
    program = [sys.executable, str(Path(__file__).parent / "verify_artifacts.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        program, input=arguments, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert json.loads(found.stdout) == [{"failure": "invalid"}]
    files[place].unlink()
    files[place].mkdir()
    assert failure(lambda: verify_artifact(files["artifact"], data=files["data"], log_keys=LOG_KEYS)) == "invalid"


def test_receipts_that_are_too_large_are_not_read(proofs: dict[str, Proof], tmp_path: Path) -> None:
    verified(tmp_path, proofs["base: envelope made"])
    path = tmp_path / "file.receipts.json"
    with path.open("a") as file:
        file.write(" " * RULES["max_file_bytes"])
    assert failure(lambda: verify_artifact(tmp_path / "file", log_keys=LOG_KEYS)) == "invalid"


def test_an_event_that_is_sent_later_does_not_wait_for_a_fifo(tmp_path: Path) -> None:
    platform = RecordingPlatform(Log(SIGNERS["tenant-a"]))
    keys = [LocalKey("one", bytes(32))]
    enforcer = Enforcer(
        platform, application="a", keys=keys, spool_directory=tmp_path / "spool", evidence_tolerance=3600.0
    )
    (tmp_path / "plain").write_bytes(b"text")
    platform.is_offline = True
    enforcer.protect(tmp_path / "plain", tmp_path / "sealed", resource={"kind": "test"})
    platform.is_offline = False
    (tmp_path / "sealed.receipts.json").unlink()
    os.mkfifo(tmp_path / "sealed.receipts.json")
    assert enforcer.flush() == (1, 0)


def test_a_log_key_that_is_none_says_nothing_of_the_artifact(proofs: dict[str, Proof], tmp_path: Path) -> None:
    verified(tmp_path, proofs["base: envelope made"])
    assert failure(lambda: verify_artifact(tmp_path / "file", log_keys="no key")) == "invalid"
    assert failure(lambda: verify_artifact(tmp_path / "file", log_keys=[])) == "not_authentic"
