"""
Local enforcement: files and streams of any size are protected, opened and rewrapped in this process, for decisions of
the platform, which sees metadata only. `docs/enforcement.md` has the formats and the order of things.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from .. import v1
from ._artifacts import Outcome, Work, finished, receipts_path_of
from ._data import Input, OnProgress, Output, names_of
from ._header import resource_of
from ._many import BulkCalls, shared_context
from ._operation import Context, Request
from ._permission import ObligationHandler
from ._platform import PROFILES, Platform
from ._pull import ProtectedStream, Pulled
from ._seal import reseal, seal, unseal, unseal_range
from ._sign import open_signed, sign_anew, sign_data
from ._spool import Spool
from ._tdf import References, open_tdf, open_tdf_range, protect_tdf, rewrap_tdf
from ._trust import TrustedLog
from .errors import EnforcementError, Failure, failure_of_system
from .key_files import create_key_file, create_public_key_file, create_signing_key_file, create_tdf_key_file, key_file
from .keys import Key, KeyProvider, LocalKey, SigningKey, TdfKey, require_reference
from .signing_keys import LocalSigningKey
from .tdf_keys import LocalTdfKey
from .transit import TransitKey
from .verify import VerifiedArtifact, VerifiedOrigin, VerifiedRecord, verify_artifact

__all__ = [
    "EnforcementError",
    "Enforcer",
    "Failure",
    "Input",
    "Key",
    "KeyProvider",
    "LocalKey",
    "LocalSigningKey",
    "LocalTdfKey",
    "ObligationHandler",
    "OnProgress",
    "Outcome",
    "Output",
    "Platform",
    "Profile",
    "ProtectedStream",
    "SigningKey",
    "TdfKey",
    "TransitKey",
    "VerifiedArtifact",
    "VerifiedOrigin",
    "VerifiedRecord",
    "create_key_file",
    "create_public_key_file",
    "create_signing_key_file",
    "create_tdf_key_file",
    "key_file",
    "receipts_path_of",
    "verify_artifact",
]

_WIDTH = 128
"""Operations of `protect_many` and `open_many` that are under way at once."""
Profile = Literal["envelope", "detached_signature", "tdf"]


class Enforcer:
    """Protects, opens and rewraps. What raises, EnforcementError, leaves nothing under the target's name."""

    def __init__(
        self,
        client: Platform,
        *,
        bulk: BulkCalls | None = None,
        application: str,
        environment: str | None = None,
        component: str | None = None,
        keys: Sequence[KeyProvider | SigningKey | TdfKey],
        attribute_namespace: str | None = None,
        spool_directory: str | os.PathLike[str],
        log_keys: Sequence[str] | None = None,
        caller: v1.Caller | None = None,
        obligations: Mapping[str, ObligationHandler] | None = None,
        handling_modes: Sequence[str] = ("local_embedded_enforcement",),
        evidence_tolerance: float | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """
        `client`: a PlatformClient whose answers carry whole receipts.
        `bulk`: the same client, for `protect_many` and `open_many`, with the option `receipts="whole"`. Needs
        `log_keys`, because only receipts show which item an answer belongs to. Default: single calls.
        `keys`: the first that fits is what protects, unless told otherwise.
        `attribute_namespace`: of TDF attributes, such as `example.com`: labels become attribute values in it.
        `spool_directory`: on a local disk, where evidence waits.
        `log_keys`: with them, an answer is none unless its receipt shows that the log holds it, as the answer to what
        was asked.
        `caller`: who this workload is, of whom records must be then; by default whom the platform names.
        `obligations`: what this workload does where a decision demands it.
        `evidence_tolerance`: how long evidence may be on its way where no decision says it, in seconds; by default
        nothing is released before its event is on the ledger.
        """
        if len({key.reference for key in keys}) < len(keys):
            raise EnforcementError("invalid", "two keys have the same reference")
        for key in keys:
            require_reference(key.reference)
        if bulk is not None and log_keys is None:
            raise EnforcementError("invalid", "bulk calls need log keys")
        self._bulk = bulk
        _require_lists(handling_modes=handling_modes, log_keys=log_keys)
        workload = {"application": application, "environment": environment, "component": component}
        directory = Path(spool_directory).absolute()
        log = TrustedLog(client, log_keys, caller)
        self._context = Context(
            platform=client,
            workload={name: text for name, text in workload.items() if text is not None},
            keys=tuple(keys),
            attribute_namespace=attribute_namespace,
            spool=Spool(directory, client, log, now),
            directory=directory / "passing",
            log=log,
            obligations=dict(obligations or {}),
            handling_modes=handling_modes,
            limit=evidence_tolerance,
            now=now,
        )

    def flush(self) -> tuple[int, int]:
        """Sends the evidence that waits: how many events were sent, and how many wait still."""
        with _enclosed():
            return self._context.spool.flush()

    def protect(
        self,
        source: Input,
        target: Output,
        *,
        resource: Mapping[str, str],
        profile: Profile = "envelope",
        key_reference: str | None = None,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        aead: str = "AES256_GCM_HKDF_1MB",
        bundle: bool = False,
        tdf_keys: References | None = None,
        segment_hash: Literal["HS256", "GMAC"] = "HS256",
        with_content_digest: bool = False,
        replace: bool = False,
        artifact_locator: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """
        Turns plaintext into a registered envelope or TDF; or signs data, which stays as it is, and `target` is the
        signature.

        `resource`: kind, and id and mime_type where there are any.
        `key_reference`: of the key that wraps or signs; the first one that does where it is absent.
        `aead`: of an envelope; `AES256_GCM_HKDF_4KB` for what is opened in small parts.
        `bundle`: writes a detached signature as a Sigstore bundle.
        `tdf_keys`: references of the keys of a TDF. The payload key is split into as many shares as there are lists;
        all are needed, and any key of a list gives its share. Default: one share, of the key of `key_reference`.
        `segment_hash`: of a TDF. With `HS256` the manifest determines the payload; `GMAC` is faster.
        `with_content_digest`: names the plaintext's SHA-256 in the question; the file is then read twice. A signature
        always does.
        `artifact_locator`: where the artifact will be, at most 2,048 characters; sent with the registration. Nothing
        depends on it.
        `on_progress`: told after each piece; what it raises ends the operation.
        """
        with _enclosed():
            request = _request(source, target, resource, purpose, labels, attributes, replace, on_progress)
            located = dataclasses.replace(request, locator=artifact_locator)
            return finished(
                self._protecting(
                    located, profile, key_reference, aead, bundle, tdf_keys, segment_hash, with_content_digest
                )
            )

    def protect_many(self, items: Iterable[Mapping[str, Any]]) -> list[Outcome | EnforcementError]:
        """
        Protects many small objects, each as `protect` does, with its own decision, registration and event. `items`:
        the arguments of `protect` by name. Returns what came of each, in order; a failed item does not affect the
        others.
        """
        return self._settled(Enforcer.protect, items)

    def open_many(self, items: Iterable[Mapping[str, Any]]) -> list[Outcome | EnforcementError]:
        """The same for `open`."""
        return self._settled(Enforcer.open, items)

    def _settled(
        self, operation: Callable[..., Outcome], items: Iterable[Mapping[str, Any]]
    ) -> list[Outcome | EnforcementError]:
        shared = copy.copy(self)
        if self._bulk is not None:
            shared._context = shared_context(self._context, self._bulk)

        def settled(item: Mapping[str, Any]) -> Outcome | EnforcementError:
            try:
                with _enclosed():
                    return operation(shared, **item)
            except EnforcementError as error:
                return error

        with ThreadPoolExecutor(_WIDTH) as pool:
            return list(pool.map(settled, items))

    def protect_stream(
        self,
        source: Input,
        *,
        resource: Mapping[str, str],
        profile: Profile = "envelope",
        key_reference: str | None = None,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        aead: str = "AES256_GCM_HKDF_1MB",
        tdf_keys: References | None = None,
        artifact_locator: str | None = None,
    ) -> ProtectedStream:
        """As `protect`, as a binary file that an uploader reads, at the reader's speed. Begins with the first read."""
        with _enclosed():
            target = cast(BinaryIO, Pulled())
            request = _request(source, target, resource, purpose, labels, attributes, False, None)
            located = dataclasses.replace(request, locator=artifact_locator)
            work = self._protecting(located, profile, key_reference, aead, False, tdf_keys, "HS256", False)
            return ProtectedStream(work, _enclosed)

    def _protecting(
        self,
        request: Request,
        profile: Profile,
        key_reference: str | None,
        aead: str,
        bundle: bool,
        tdf_keys: References | None,
        segment_hash: str,
        with_digest: bool,
    ) -> Work:
        match _profile_of(profile):
            case "envelope":
                return seal(self._context, request, key_reference, aead, with_digest)
            case "detached_signature":
                return sign_data(self._context, request, key_reference, bundle)
            case "tdf":
                return protect_tdf(self._context, request, key_reference, tdf_keys, segment_hash, with_digest)

    def open(
        self,
        source: Input,
        target: Output,
        *,
        signature: str | os.PathLike[str] | None = None,
        profile: Profile = "envelope",
        allow_foreign: bool = False,
        resource: Mapping[str, str] | None = None,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        replace: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """
        Turns an envelope or TDF into plaintext again; or with a `signature` releases the data that it signs, once
        verified.

        `profile`: what the source is; its content must not decide this.
        `allow_foreign`: opens a TDF that no assertion binds to a decision, too; it needs `resource`.
        `resource`: the one that is expected, anything else is refused; by default the one that the header names.
        """
        with _enclosed():
            request = _request(source, target, resource, purpose, labels, attributes, replace, on_progress)
            if signature is not None:
                return open_signed(self._context, request, signature)
            match _profile_of(profile):
                case "envelope":
                    return unseal(self._context, request)
                case "detached_signature":
                    raise EnforcementError("invalid", "signed data is opened with its signature")
                case "tdf":
                    return open_tdf(self._context, request, allow_foreign)

    def open_range(
        self,
        source: Input,
        target: Output,
        *,
        offset: int,
        length: int,
        artifact_digest: str | None = None,
        profile: Profile = "envelope",
        resource: Mapping[str, str] | None = None,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        replace: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """
        Writes `length` bytes of the plaintext from `offset`, or fewer at its end, and reads only the segments that have
        them. Permission, keys and evidence are those of `open`.

        Proves that these bytes are at this position of data that was protected under the header's decision, labels and
        resource; and, if the range ends behind the data, where the data ends. It proves nothing of other segments, and
        of a TDF's container only where its parts are. A TDF's manifest is read whole, so its digest is proven. The
        digest of an envelope is not: pass `resource`, so that an envelope of another one is refused.

        `source`: path, or a binary file that can be read at any position. It must not change meanwhile.
        `artifact_digest`: of the artifact, as its protection or registration says. The decision is about this artifact.
        Needed for an envelope, and compared for a TDF.
        """
        with _enclosed():
            request = _request(source, target, resource, purpose, labels, attributes, replace, on_progress)
            if not all(type(value) is int and value >= 0 for value in (offset, length)):
                raise EnforcementError("invalid", "offset and length are whole numbers of bytes")
            names = None if artifact_digest is None else names_of(artifact_digest)
            match _profile_of(profile):
                case "envelope":
                    return unseal_range(self._context, request, names, offset, length)
                case "detached_signature":
                    raise EnforcementError("invalid", "signed data is opened with its signature")
                case "tdf":
                    return open_tdf_range(self._context, request, names, offset, length)

    def rewrap(
        self,
        source: Input,
        target: Output,
        *,
        new_key_reference: str,
        profile: Profile = "envelope",
        tdf_keys: References | None = None,
        resource: Mapping[str, str] | None = None,
        purpose: str | None = None,
        labels: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
        replace: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """
        Puts the content key under another key; the payload and what it is bound to stay as they are. Of a detached
        signature, `source` is its path, and it is signed with the new key. `tdf_keys`: as for `protect`, in place of
        `new_key_reference`.
        """
        with _enclosed():
            request = _request(source, target, resource, purpose, labels, attributes, replace, on_progress)
            match _profile_of(profile):
                case "envelope":
                    return reseal(self._context, request, new_key_reference)
                case "detached_signature":
                    return sign_anew(self._context, request, new_key_reference)
                case "tdf":
                    return rewrap_tdf(self._context, request, new_key_reference, tdf_keys)


def _request(
    source: Input,
    target: Output,
    resource: Mapping[str, str] | None,
    purpose: str | None,
    labels: Sequence[str],
    attributes: Mapping[str, str] | None,
    replace: bool,
    on_progress: OnProgress | None,
) -> Request:
    """Raises `invalid` if labels or resource are malformed."""
    _require_lists(labels=labels)
    named = None if resource is None else resource_of(resource)
    return Request(source, target, named, purpose, labels, attributes or {}, replace, on_progress)


def _profile_of(profile: Profile) -> Profile:
    """Raises `invalid` if there is no such profile."""
    if profile not in PROFILES:
        raise EnforcementError("invalid", f"there is no profile {profile} here: {', '.join(PROFILES)}")
    return profile


@contextmanager
def _enclosed() -> Iterator[None]:
    """Whatever goes wrong is one of the closed list; an interruption stays one."""
    try:
        yield
    except EnforcementError:
        raise
    except Exception as error:
        raise EnforcementError(failure_of_system(error), str(error)) from error


def _require_lists(**given: Sequence[str] | None) -> None:
    """A text is a list too, of its letters: whatever it says would not be asked about. Raises `invalid`."""
    for name, texts in given.items():
        if isinstance(texts, (str, bytes)) or not all(isinstance(text, str) for text in texts or ()):
            raise EnforcementError("invalid", f"{name} are a list of texts")
