"""From permission to the name of the output: how artifacts are made, and how what is in them is released."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from .. import v1
from ._data import Digesting, Input, Output, Sink, Watched, digest_of, is_stream, opened, progress, sink_to, size_of
from ._operation import Asked, Context, Permitted, Request, answered, no_delay
from ._platform import ARTIFACT_KINDS, OPERATIONS, PROFILES, Json, receipt_json
from ._receipts import MAX_CHAIN, read_receipts
from ._spool import MAX_RECEIPTS_FILE, RECEIPTS_FORMAT, Pending, timestamp, write_receipts
from ._streams import Readable
from .errors import EnforcementError
from .keys import Key


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
    is_key_committed: bool | None = None
    """
    Of an envelope: whether its header commits to the content key. One of the old form does not, nor does what is
    rewrapped of it.
    """
    is_foreign: bool | None = None
    """Of an opened TDF: whether it lacks our assertion, so that no decision is proven."""


Work = Generator[bytes, None, Outcome]
"""Gives the pieces of an artifact, each after it is written, and returns what the operation came to."""


def finished(work: Work) -> Outcome:
    """Carries all of it out."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast(Outcome, end.value)


def receipts_path_of(path: str | os.PathLike[str]) -> Path:
    """Where the receipts of an artifact, or of an opened file, are."""
    return Path(f"{os.fspath(path)}.receipts.json")


@dataclass(frozen=True)
class Content:
    """Plaintext that is protected."""

    source: Readable
    size: int | None
    """In bytes. None for a stream."""
    permitted: Permitted
    binding: Json


def protect_content(
    context: Context,
    request: Request,
    asked: Asked,
    with_digest: bool,
    make: Callable[[Content], Iterator[bytes]],
    named_by: Digesting | None = None,
) -> Work:
    """Encrypts plaintext under a decision, as `produce` does. `with_digest`: the question names its SHA-256."""
    if with_digest and is_stream(request.source):
        raise EnforcementError("invalid", "a stream's digest is not known before it is read")
    with opened(request.source) as file:
        size = None if is_stream(request.source) else size_of(file)
        count = progress(request.on_progress, None if size is None else size * (2 if with_digest else 1))
        about: Json = {} if size is None else {"content_size_bytes": size}
        if with_digest:
            about["content_digest"] = digest_of(Watched(file, count)).digest()
            file.seek(0)

        def made(permitted: Permitted) -> Iterator[bytes]:
            plaintext = Digesting()
            looks = [plaintext.update] if with_digest else []
            yield from make(Content(Watched(file, count, *looks), size, permitted, binding_of(asked, permitted)))
            if with_digest and plaintext.digest() != about["content_digest"]:
                raise EnforcementError("invalid", "the input changed while it was read")

        return (yield from produce(context, request, replace(asked, about=about), made, named_by))


def protecting(request: Request, profile: str, keys: Sequence[Key]) -> Asked:
    """What is asked before data is protected with these keys."""
    if request.resource is None:
        raise EnforcementError("invalid", "the data has no resource")
    labels = sorted(set(request.labels))
    return Asked("protect", profile, request.resource, labels, [("wrap", key) for key in keys], {})


def binding_of(asked: Asked, permitted: Permitted) -> Json:
    """What an artifact of any profile is bound to."""
    return {
        "decision_id": permitted.plan.decision_id,
        "labels": list(asked.labels),
        "policy_revision": permitted.plan.policy_revision,
        "resource": dict(asked.resource),
    }


def produce(
    context: Context,
    request: Request,
    asked: Asked,
    make: Callable[[Permitted], Iterator[bytes]],
    named_by: Digesting | None = None,
) -> Work:
    """
    Asks for permission, writes an artifact, registers it, puts its event on the ledger, then gives it its name.
    `named_by`: is given by `make` the bytes whose digest names the artifact. Default: all of them.
    """
    permitted = context.permission(request, asked)
    decision_id = permitted.plan.decision_id
    described = context.describe(request, asked)
    event = described | {"event_type": asked.operation, "decision_id": decision_id}
    with (
        context.evidence(event, permitted.tolerance) as evidence,
        sink_to(request.target, request.replace) as sink,
    ):
        artifact = named_by or Digesting()
        for piece in make(permitted):
            if named_by is None:
                artifact.update(piece)
            sink.write(piece)
            yield piece
        sink.sync()
        named = _named(artifact.names(), asked, decision_id)
        registration = _register(context, asked, described, named, request.locator)
        return _complete(context, asked, request.target, sink, named, permitted, evidence, registration)


def access(context: Context, request: Request, asked: Asked, prepare: Callable[[], Iterator[bytes]]) -> Outcome:
    """
    Asks for permission to open an artifact, and releases what is in it. `prepare` does what comes before the first
    byte; its pieces end with an error unless they are what was protected.
    """
    permitted = context.permission(request, asked)
    named = _named(
        {name: asked.about[name] for name in ("artifact_digest", "artifact_cid")}, asked, permitted.plan.decision_id
    )
    event = context.describe(request, asked) | named | {"event_type": "access"}
    with context.evidence(event, permitted.tolerance) as evidence:
        pieces = prepare()
        # What a stream was given cannot be taken back, so that its event comes first.
        if is_stream(request.target):
            announced = context.spool.begin(event, permitted.tolerance)
            announced.settle({"outcome": "releasing"})
            if announced.send() is None and permitted.tolerance == 0:
                raise no_delay()
        with sink_to(request.target, request.replace) as sink:
            for piece in pieces:
                sink.write(piece)
            sink.sync()
            return _complete(context, asked, request.target, sink, named, permitted, evidence, None)


def labels_of(binding: Mapping[str, Any], request: Request) -> list[str]:
    """Labels that the header has and those of the request: none can be left out."""
    return sorted({*binding["labels"], *request.labels})


def require_resource(binding: Mapping[str, Any], request: Request) -> None:
    """Raises `invalid` unless the artifact is of the resource that is expected, as far as one is."""
    for member, text in (request.resource or {}).items():
        if binding["resource"].get(member) != text:
            raise EnforcementError("invalid", "the artifact is of another resource")


def previous_of(source: Input, names: Json) -> Json | None:
    """
    The receipts beside an artifact that is rewrapped, which show what was first protected. None if they are not there,
    are another artifact's, or are too many to go along.
    """
    if is_stream(source):
        return None
    try:
        found = read_receipts(receipts_path_of(cast(str, source)))
    except EnforcementError:
        return None
    depth, link = 1, found
    while (link := link.get("previous", {})) and depth <= MAX_CHAIN:
        depth += 1
    # What the next receipts add to these is less than half of a whole file.
    is_small = len(json.dumps(found)) <= MAX_RECEIPTS_FILE // 2
    is_own = found["operation"] != "access" and all(found[name] == text for name, text in names.items())
    return found if is_own and is_small and depth <= MAX_CHAIN else None


def _named(names: Json, asked: Asked, decision_id: str) -> Json:
    """What the digest is of: of a TDF, its manifest."""
    kind = "tdf_manifest" if asked.profile == "tdf" else "data_object"
    return names | {"artifact_kind": kind, "artifact_profile": asked.profile, "decision_id": decision_id}


def _register(context: Context, asked: Asked, described: Json, named: Json, locator: str | None) -> v1.Registration:
    """Raises `not_permitted` where the registration does not stand."""
    _, key = asked.keys[asked.named_key]
    request = v1.RegisterArtifactRequest(
        operation=OPERATIONS[asked.operation],
        workload=v1.WorkloadDescriptor(**described["workload"]),
        resource=v1.ResourceDescriptor(**described["resource"]),
        artifact_kind=ARTIFACT_KINDS[named["artifact_kind"]],
        artifact_profile=PROFILES[asked.profile],
        artifact_digest=named["artifact_digest"],
        artifact_cid=named["artifact_cid"],
        decision_id=named["decision_id"],
        key_reference=key.reference,
        purpose=described.get("purpose"),
        labels=described["labels"],
        attributes=described["attributes"],
        artifact_locator=locator,
    )
    sent_at = time.time()
    answer = answered(lambda: context.platform.register_artifact(request, idempotency_key=str(uuid.uuid4())))
    registration = answer.registration
    context.log.require(request, answer, sent_at)
    if not registration.accepted:
        why = f"the registration does not stand: {'; '.join(answer.warnings)}"
        raise EnforcementError("not_permitted", why, named["decision_id"])
    return registration


def _complete(
    context: Context,
    asked: Asked,
    target: Output,
    sink: Sink,
    named: Json,
    permitted: Permitted,
    evidence: Pending,
    registration: v1.Registration | None,
) -> Outcome:
    """Event on the ledger, or on its way where that is tolerated; receipts beside the output; its name."""
    path = None if is_stream(target) else receipts_path_of(cast(str, target)).absolute()
    evidence.settle(named | {"outcome": "completed", "occurred_at": timestamp(context.now())}, path)
    recorded = evidence.send()
    if recorded is None and permitted.tolerance == 0:
        raise no_delay()
    ingestion = None if recorded is None else recorded.ingestion
    receipts = _receipts_of(asked, named, permitted, evidence.id, registration, ingestion)
    sink.commit(path, lambda path: write_receipts(path, receipts))
    return Outcome(named["decision_id"], named["artifact_digest"], named["artifact_cid"], ingestion is None, receipts)


def _receipts_of(
    asked: Asked,
    named: Json,
    permitted: Permitted,
    evidence_id: str,
    registration: v1.Registration | None,
    ingestion: v1.Ingestion | None,
) -> Json:
    """What is kept beside the output."""
    keys: Sequence[v1.KeyAccessDecision] = permitted.keys
    holders: dict[str, Any] = {"plan": permitted.plan, "key_access": keys[0]}
    if asked.named_key > 0:
        holders["new_key_access"] = keys[asked.named_key]
    holders |= {"registration": registration, "evidence": ingestion}
    previous = {} if asked.previous is None else {"previous": asked.previous}
    return {
        "format": RECEIPTS_FORMAT,
        "operation": asked.operation,
        **{name: named[name] for name in ("artifact_profile", "artifact_digest", "artifact_cid", "decision_id")},
        "evidence_id": evidence_id,
        "receipts": {
            name: receipt_json(holder.receipt)
            for name, holder in holders.items()
            if holder is not None and holder.HasField("receipt")
        },
        **previous,
    }
