"""
Local enforcement: files and streams of any size are protected, opened and rewrapped in this process, for decisions of
the platform, which sees metadata only. `docs/enforcement.md` has the format and the order of things.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from .. import v1
from ..receipts import verify_receipt
from ._envelope import Header, encode_header, key_associated_data, read_header
from ._files import PartialFile
from ._permission import (
    EVIDENCE_WITHIN,
    Decision,
    Execution,
    ObligationHandler,
    evidence_tolerance,
    meet_obligations,
    require_permission,
)
from ._platform import ENVELOPE, KEY_OPERATIONS, OPERATIONS, Json, Platform, receipt_json
from ._spool import RECEIPTS_FORMAT, Pending, Spool, timestamp, write_receipts
from ._streams import SEGMENT_SIZES, decrypt, encrypt
from .errors import EnforcementError, Failure
from .keys import KeyProvider, LocalKey, create_key_file, key_file

__all__ = [
    "EnforcementError",
    "Enforcer",
    "Failure",
    "KeyProvider",
    "LocalKey",
    "ObligationHandler",
    "Outcome",
    "Platform",
    "create_key_file",
    "key_file",
]

Input = str | os.PathLike[str] | BinaryIO
"""Path of a file, or a stream that is read."""
Output = str | os.PathLike[str] | BinaryIO
"""Path of a file that is made, or a stream that is written to and left open."""

_CHUNK = 1_048_576
_USED_ROUTES = ("protection-plan", "key-access-plan", "artifact-register", "evidence")
_MAX_ATTRIBUTES = 64
_T = TypeVar("_T")


@dataclass(frozen=True)
class Outcome:
    """What an operation came to."""

    decision_id: str
    artifact_digest: str
    artifact_cid: str
    is_evidence_pending: bool
    """Whether the event is kept, and sent by a later operation or flush."""
    receipts: Json
    """As they lie beside the output, where that is a file."""


@dataclass(frozen=True)
class _Permitted:
    plan: v1.ProtectionDecision
    keys: list[v1.KeyAccessDecision]
    tolerance: float


class Enforcer:
    """Protects, opens and rewraps. What raises, EnforcementError, leaves nothing under the target's name."""

    def __init__(
        self,
        client: Platform,
        *,
        application: str,
        environment: str | None = None,
        component: str | None = None,
        keys: Sequence[KeyProvider],
        spool_directory: str | os.PathLike[str],
        log_keys: Sequence[str] | None = None,
        obligations: Mapping[str, ObligationHandler] | None = None,
        handling_modes: Sequence[str] = ("local_embedded_enforcement",),
        evidence_tolerance: float | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """
        `client`: a PlatformClient whose answers carry whole receipts.
        `keys`: the first protects, unless told otherwise.
        `spool_directory`: on a local disk, where evidence waits.
        `log_keys`: with them, an answer whose receipt does not verify is none.
        `obligations`: what this workload does where a decision demands it.
        `evidence_tolerance`: how long evidence may be on its way where no decision says it, in seconds; by default
        nothing is released before its event is on the ledger.
        """
        workload = {"application": application, "environment": environment, "component": component}
        self._workload = {name: text for name, text in workload.items() if text is not None}
        self._client, self._keys, self._log_keys = client, keys, log_keys
        self._obligations, self._handling_modes = dict(obligations or {}), handling_modes
        self._limit, self._now = evidence_tolerance, now
        self._directory = Path(spool_directory).absolute()
        self._spool = Spool(self._directory, client, now)

    def flush(self) -> tuple[int, int]:
        """Sends the evidence that waits: how many events were sent, and how many wait still."""
        return self._spool.flush()

    def protect(
        self,
        source: Input,
        target: Output,
        *,
        resource: Mapping[str, str],
        key_reference: str | None = None,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        aead: str = "AES256_GCM_HKDF_1MB",
        replace: bool = False,
    ) -> Outcome:
        """Turns plaintext into a registered envelope. `resource`: kind, and id and mime_type where there are any."""
        if aead not in SEGMENT_SIZES:
            raise EnforcementError("invalid", f"there is no {aead}")
        provider, labels = self._key_of(key_reference), sorted(set(labels))
        with _opened(source) as file:
            size = None if hasattr(source, "read") else os.fstat(file.fileno()).st_size
            about = {} if size is None else {"content_size_bytes": size}
            described = self._describe(resource, purpose, labels, attributes)
            permitted = self._permission("protect", described, [("wrap", provider)], about)
            plan, key_decision = permitted.plan, permitted.keys[0]
            event = described | {"event_type": "protect", "decision_id": plan.decision_id}
            with self._evidence(event, permitted.tolerance) as evidence:
                binding: dict[str, Any] = {
                    "aead": aead,
                    "decision_id": plan.decision_id,
                    "labels": labels,
                    "policy_revision": plan.policy_revision,
                    "resource": dict(resource),
                }

                def pieces() -> Iterator[bytes]:
                    content_key = os.urandom(32)
                    key = _key_block(key_decision, provider)
                    key["wrapped"] = provider.wrap(content_key, key_associated_data(binding, key))
                    header = Header(binding, key)
                    yield encode_header(header)
                    yield from encrypt(file, aead, content_key, header.payload_associated_data())

                return self._produce("protect", target, replace, described, permitted, provider, evidence, pieces())

    def open(
        self,
        source: Input,
        target: Output,
        *,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> Outcome:
        """Turns an envelope into plaintext again, for a decision about this very artifact."""
        with _opened(source, self._directory) as file:
            header, artifact = _inspect(file)
            provider = self._key_of(header.key["reference"])
            described = self._describe(header.binding["resource"], purpose, _labels(header, labels), attributes)
            permitted = self._permission("access", described, [("unwrap", provider)], artifact)
            decision_id = permitted.plan.decision_id
            named = artifact | _PROFILE | {"decision_id": decision_id}
            event = described | named | {"event_type": "access"}
            with self._evidence(event, permitted.tolerance) as evidence:
                content_key = _unwrap(provider, header)
                # What a stream was given cannot be taken back, so that its event comes first.
                if hasattr(target, "write"):
                    announced = self._spool.begin(event, permitted.tolerance)
                    announced.settle({"outcome": "releasing"})
                    if announced.send() is None and permitted.tolerance == 0:
                        raise _no_delay()
                reader = _Hashing(file)
                read_header(reader)
                pieces = decrypt(reader, header.binding["aead"], content_key, header.payload_associated_data())
                with _sink(target, replace) as sink:
                    for piece in pieces:
                        sink.write(piece)
                    if reader.finish() != artifact:
                        raise EnforcementError("not_authentic", "the artifact changed while it was opened")
                    return self._complete("access", target, sink, named, permitted, evidence, None)

    def rewrap(
        self,
        source: Input,
        target: Output,
        *,
        new_key_reference: str,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> Outcome:
        """Puts the content key under another key; the payload and what it is bound to stay as they are."""
        with _opened(source, self._directory) as file:
            header, artifact = _inspect(file)
            old, new = self._key_of(header.key["reference"]), self._key_of(new_key_reference)
            described = self._describe(header.binding["resource"], purpose, _labels(header, labels), attributes)
            permitted = self._permission("rewrap", described, [("rewrap", old), ("wrap", new)], artifact)
            event = described | {"event_type": "rewrap", "decision_id": permitted.plan.decision_id}
            with self._evidence(event, permitted.tolerance) as evidence:
                key = _key_block(permitted.keys[1], new)
                key["wrapped"] = new.wrap(_unwrap(old, header), key_associated_data(header.binding, key))

                def pieces() -> Iterator[bytes]:
                    reader = _Hashing(file)
                    read_header(reader)
                    yield encode_header(Header(header.binding, key))
                    while piece := reader.read(_CHUNK):
                        yield piece
                    if reader.finish() != artifact:
                        raise EnforcementError("not_authentic", "the artifact changed while it was rewrapped")

                return self._produce("rewrap", target, replace, described, permitted, new, evidence, pieces())

    def _key_of(self, reference: str | None) -> KeyProvider:
        for key in self._keys:
            if reference is None or key.reference == reference:
                return key
        raise EnforcementError("invalid", f"there is no key {reference or ''} here")

    def _describe(
        self,
        resource: Mapping[str, str],
        purpose: str | None,
        labels: Sequence[str],
        attributes: Mapping[str, str] | None,
    ) -> Json:
        described: Json = {"workload": self._workload, "resource": dict(resource), "labels": list(labels)}
        described["attributes"] = dict(attributes or {})
        return described if purpose is None else described | {"purpose": purpose}

    def _permission(
        self, operation: str, described: Json, keys: Sequence[tuple[str, KeyProvider]], about: Json
    ) -> _Permitted:
        """Everything that must say yes before anything is done; a refusal is itself evidence."""
        self._spool.flush()
        self._require_deployment(operation)
        common: Json = described | {"understood_obligations": [*self._obligations, EVIDENCE_WITHIN]}
        common["workload"] = v1.WorkloadDescriptor(**described["workload"])
        common["resource"] = v1.ResourceDescriptor(**described["resource"])
        decisions: list[Decision] = []
        transports = ["local_provided", *(provider.transport for _, provider in keys)]

        def checked(decision: Decision, execution: Execution, wanted: Sequence[str]) -> None:
            decisions.append(decision)
            self._check_receipt(decision.receipt if decision.HasField("receipt") else None)
            require_permission(decision, execution, wanted, self._obligations, self._handling_modes)

        try:
            request = v1.PlanProtectionRequest(
                operation=OPERATIONS[operation], preferred_artifact_profile=ENVELOPE, **common, **about
            )
            planned = _answered(lambda: self._client.plan_protection(request))
            checked(planned.decision, planned.execution, transports)
            artifact = {name: about[name] for name in ("artifact_digest", "artifact_cid") if name in about}
            for key_operation, provider in keys:
                access = v1.PlanKeyAccessRequest(
                    operation=KEY_OPERATIONS[key_operation],
                    artifact_profile=ENVELOPE,
                    key_reference=provider.reference,
                    **common,
                    **artifact,
                )
                answer = _answered(lambda access=access: self._client.plan_key_access(access))  # type: ignore[misc]
                checked(answer.decision, answer.execution, [provider.transport])
            tolerance = evidence_tolerance(decisions, self._limit)
            meet_obligations(decisions, self._obligations)
        except EnforcementError as error:
            if error.failure == "not_permitted":
                self._record_refusal(described, about, decisions, error)
            raise
        plan, *others = decisions
        return _Permitted(cast(v1.ProtectionDecision, plan), cast(list[v1.KeyAccessDecision], others), tolerance)

    def _require_deployment(self, operation: str) -> None:
        capabilities = _answered(self._client.capabilities)
        bootstrap = _answered(self._client.bootstrap)
        used = [route for route in capabilities.routes if route.route.rpartition("/")[2] in _USED_ROUTES]
        needed = {*capabilities.default_required_scopes, *(scope for route in used for scope in route.required_scopes)}
        missing = sorted(needed - set(capabilities.caller.scopes))
        for holds, why in (
            (not bootstrap.plaintext_to_platform, "the deployment would take plaintext"),
            (OPERATIONS[operation] in bootstrap.supported_operations, f"the deployment does not support {operation}"),
            (ENVELOPE in bootstrap.supported_artifact_profiles, "the deployment does not support profile envelope"),
            (not missing, f"the credentials lack scopes: {', '.join(missing)}"),
        ):
            if not holds:
                raise EnforcementError("not_permitted", why)

    def _record_refusal(
        self, described: Json, about: Json, decisions: Sequence[Decision], error: EnforcementError
    ) -> None:
        event = described | _PROFILE | {"event_type": "deny"}
        event |= {name: about[name] for name in ("artifact_digest", "artifact_cid") if name in about}
        if decisions and decisions[-1].decision_id:
            event["decision_id"] = decisions[-1].decision_id
        # Nothing was released, so that this event may wait as long as the next operation.
        evidence = self._spool.begin(event, self._limit or 0)
        evidence.settle(_failed("refused", error, event))
        evidence.send()

    @contextmanager
    def _evidence(self, event: Json, tolerance: float) -> Iterator[Pending]:
        """Work with its event on disk before, during and after."""
        evidence = self._spool.begin(event, tolerance)
        try:
            yield evidence
        except BaseException as error:
            evidence.settle(_failed("failed", error, event))
            evidence.send()
            if isinstance(error, OSError):
                raise EnforcementError("invalid", str(error)) from error
            raise

    def _produce(
        self,
        operation: str,
        output: Output,
        replace: bool,
        described: Json,
        permitted: _Permitted,
        provider: KeyProvider,
        evidence: Pending,
        pieces: Iterator[bytes],
    ) -> Outcome:
        """Writes an artifact, registers it, puts its event on the ledger, and then gives it its name."""
        digest = hashlib.sha256()
        with _sink(output, replace) as sink:
            for piece in pieces:
                digest.update(piece)
                sink.write(piece)
            sink.sync()
            named = _names(digest.digest()) | _PROFILE | {"decision_id": permitted.plan.decision_id}
            request = v1.RegisterArtifactRequest(
                operation=OPERATIONS[operation],
                workload=v1.WorkloadDescriptor(**described["workload"]),
                resource=v1.ResourceDescriptor(**described["resource"]),
                artifact_kind=v1.ARTIFACT_KIND_DATA_OBJECT,
                artifact_profile=ENVELOPE,
                artifact_digest=named["artifact_digest"],
                artifact_cid=named["artifact_cid"],
                decision_id=named["decision_id"],
                key_reference=provider.reference,
                purpose=described.get("purpose"),
                labels=described["labels"],
                attributes=described["attributes"],
            )
            answer = _answered(lambda: self._client.register_artifact(request, idempotency_key=str(uuid.uuid4())))
            registration = answer.registration
            self._check_receipt(registration.receipt if registration.HasField("receipt") else None)
            if not registration.accepted:
                why = f"the registration does not stand: {'; '.join(answer.warnings)}"
                raise EnforcementError("not_permitted", why, named["decision_id"])
            return self._complete(operation, output, sink, named, permitted, evidence, registration)

    def _complete(
        self,
        operation: str,
        output: Output,
        sink: _StreamSink,
        named: Json,
        permitted: _Permitted,
        evidence: Pending,
        registration: v1.Registration | None,
    ) -> Outcome:
        """Event on the ledger, or on its way where that is tolerated; receipts beside the output; its name."""
        sink.sync()
        path = None if hasattr(output, "write") else Path(f"{os.fspath(cast(str, output))}.receipts.json").absolute()
        evidence.settle(named | {"outcome": "completed", "occurred_at": timestamp(self._now())}, path)
        ingestion = evidence.send()
        if ingestion is None and permitted.tolerance == 0:
            raise _no_delay()
        if ingestion is not None:
            self._check_receipt(ingestion.receipt if ingestion.HasField("receipt") else None)
        holders: dict[str, Any] = {"plan": permitted.plan, "key_access": permitted.keys[0]}
        if len(permitted.keys) > 1:
            holders["new_key_access"] = permitted.keys[1]
        holders |= {"registration": registration, "evidence": ingestion}
        receipts: Json = {
            "format": RECEIPTS_FORMAT,
            "operation": operation,
            **{name: named[name] for name in ("artifact_profile", "artifact_digest", "artifact_cid", "decision_id")},
            "evidence_id": evidence.id,
            "receipts": {
                name: receipt_json(holder.receipt)
                for name, holder in holders.items()
                if holder is not None and holder.HasField("receipt")
            },
        }
        if path is not None:
            write_receipts(path, receipts)
        sink.commit()
        return Outcome(
            named["decision_id"], named["artifact_digest"], named["artifact_cid"], ingestion is None, receipts
        )

    def _check_receipt(self, receipt: v1.Receipt | None) -> None:
        if self._log_keys is None:
            return
        try:
            if receipt is None:
                raise ValueError("there is none")
            verify_receipt(receipt, self._log_keys)
        except Exception as error:
            raise EnforcementError("unavailable", "the answer's receipt is not one of the trusted log") from error


_PROFILE: Json = {"artifact_kind": "data_object", "artifact_profile": "envelope"}


def _answered(call: Callable[[], _T]) -> _T:
    """A call that fails is no answer, and no answer is no permission."""
    try:
        return call()
    except EnforcementError:
        raise
    except Exception as error:
        raise EnforcementError("unavailable", f"the platform gave no answer: {error}") from error


def _no_delay() -> EnforcementError:
    return EnforcementError("unavailable", "the evidence could not be recorded, and policy tolerates no delay")


def _failed(outcome: str, error: BaseException, event: Json) -> Json:
    """The ledger's word for what did not happen; why is an attribute, where there is room for one."""
    if len(event["attributes"]) >= _MAX_ATTRIBUTES:
        return {"outcome": outcome}
    failure = error.failure if isinstance(error, EnforcementError) else "invalid"
    return {"outcome": outcome, "attributes": event["attributes"] | {"enforcement_failure": failure}}


def _names(digest: bytes) -> Json:
    """SHA-256 and CIDv1 (raw) of the artifact."""
    cid = base64.b32encode(bytes([1, 0x55, 0x12, 0x20]) + digest).decode().lower().rstrip("=")
    return {"artifact_digest": f"sha256:{digest.hex()}", "artifact_cid": f"b{cid}"}


class _Hashing:
    """Reads a file from its beginning and knows its names at the end."""

    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        self._file, self._digest = file, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data

    def finish(self) -> Json:
        """Names of the whole file."""
        while self.read(_CHUNK):
            pass
        return _names(self._digest.digest())


def _inspect(file: BinaryIO) -> tuple[Header, Json]:
    reader = _Hashing(file)
    header = read_header(reader)
    return header, reader.finish()


def _labels(header: Header, labels: Sequence[str]) -> list[str]:
    """Labels that the header has and those of the request: none can be left out."""
    return sorted({*header.binding["labels"], *labels})


def _key_block(decision: v1.KeyAccessDecision, provider: KeyProvider) -> dict[str, str]:
    return {"decision_id": decision.decision_id, "provider": provider.provider, "reference": provider.reference}


def _unwrap(provider: KeyProvider, header: Header) -> bytes:
    if provider.provider != header.key["provider"]:
        raise EnforcementError("not_authentic", "the key is of another kind")
    return provider.unwrap(header.key["wrapped"], key_associated_data(header.binding, header.key))


@contextmanager
def _opened(source: Input, staging: Path | None = None) -> Iterator[BinaryIO]:
    """
    The input as a file. With `staging`, a stream is put into a file without a name there first, as ciphertext: whether
    it may be opened is asked about the whole of it.
    """
    if hasattr(source, "read"):
        stream = cast(BinaryIO, source)
        if staging is None:
            yield stream
            return
        staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=staging) as file:
            while piece := stream.read(_CHUNK):
                file.write(piece)
            yield cast(BinaryIO, file)
        return
    path = Path(cast(str, source))
    if not path.is_file():
        raise EnforcementError("invalid", f"{path} cannot be read: it is no regular file")
    try:
        opened = path.open("rb")
    except OSError as error:
        raise EnforcementError("invalid", f"{path} cannot be read: {error}") from error
    with opened:
        yield opened


class _StreamSink:
    """A stream that takes what an operation makes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, piece: bytes) -> None:
        self._stream.write(piece)

    def sync(self) -> None:
        self._stream.flush()

    def commit(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class _FileSink(_StreamSink):
    """A file that is there whole or not at all."""

    def __init__(self, path: Path, replace: bool) -> None:
        if not replace and os.path.lexists(path):
            raise EnforcementError("exists", f"{path} is there already")
        self._file, self._replace = PartialFile(path), replace

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def sync(self) -> None:
        self._file.sync()

    def commit(self) -> None:
        self._file.commit(self._replace)

    def abandon(self) -> None:
        self._file.abandon()


@contextmanager
def _sink(output: Output, replace: bool) -> Iterator[_StreamSink]:
    is_stream = hasattr(output, "write")
    sink = _StreamSink(cast(BinaryIO, output)) if is_stream else _FileSink(Path(cast(str, output)), replace)
    try:
        yield sink
    except BaseException:
        sink.abandon()
        raise
