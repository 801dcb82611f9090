"""Profile `envelope`: plaintext becomes ciphertext, and again plaintext; the key that wraps its key may change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from ._artifacts import Outcome, access, labels_of, previous_of, produce, require_resource
from ._data import Digesting, Input, Output, Watched, digest_of, is_stream, opened, pieces_of, progress, size_of
from ._envelope import Header, encode_header, key_associated_data, key_commitment, read_header
from ._operation import Asked, Context, Permitted, Request
from ._platform import Json
from ._streams import SEGMENT_SIZES, decrypt, encrypt
from .errors import EnforcementError
from .keys import KEY_SIZE, KeyProvider

PROFILE = "envelope"
Count = Callable[[bytes], None]


def seal(
    context: Context,
    request: Request,
    source: Input,
    target: Output,
    resource: Mapping[str, str],
    key_reference: str | None,
    aead: str,
    with_content_digest: bool,
) -> Outcome:
    """Turns plaintext into an envelope."""
    if aead not in SEGMENT_SIZES:
        raise EnforcementError("invalid", f"there is no {aead}")
    provider, labels = context.wrapping_key(key_reference), sorted(set(request.labels))
    if with_content_digest and is_stream(source):
        raise EnforcementError("invalid", "a stream's digest is not known before it is read")
    with opened(source) as file:
        size = None if is_stream(source) else size_of(file)
        total = None if size is None else size * (2 if with_content_digest else 1)
        count = progress(request.on_progress, total)
        about: Json = {} if size is None else {"content_size_bytes": size}
        if with_content_digest:
            about["content_digest"] = digest_of(Watched(file, count)).digest()
            file.seek(0)
        asked = Asked("protect", PROFILE, resource, labels, [("wrap", provider)], about)

        def make(permitted: Permitted) -> Iterator[bytes]:
            content_key = os.urandom(KEY_SIZE)
            binding: dict[str, Any] = {
                "aead": aead,
                "decision_id": permitted.plan.decision_id,
                "key_commitment": key_commitment(content_key),
                "labels": labels,
                "policy_revision": permitted.plan.policy_revision,
                "resource": dict(resource),
            }
            key = _key_block(permitted.keys[0].decision_id, provider)
            key["wrapped"] = provider.wrap(content_key, key_associated_data(binding, key))
            header = Header(binding, key)
            yield encode_header(header)
            plaintext = Digesting()
            looks = [plaintext.update] if with_content_digest else []
            yield from encrypt(Watched(file, count, *looks), aead, content_key, header.payload_associated_data())
            if with_content_digest and plaintext.digest() != about["content_digest"]:
                raise EnforcementError("invalid", "the input changed while it was read")

        return replace(produce(context, request, target, asked, make), is_key_committed=True)


def unseal(
    context: Context, request: Request, source: Input, target: Output, expected: Mapping[str, str] | None
) -> Outcome:
    """Turns an envelope into plaintext again."""
    with opened(source, context.directory) as file:
        header, about, count = _inspect(file, request, expected)
        provider = context.wrapping_key(header.key["reference"])
        labels, resource = labels_of(header.binding, request), header.binding["resource"]
        asked = Asked("access", PROFILE, resource, labels, [("unwrap", provider)], about)

        def prepare() -> Iterator[bytes]:
            return decrypted(_unwrap(provider, header))

        def decrypted(content_key: bytes) -> Iterator[bytes]:
            again = Digesting()
            reader = _from_start(file, count, again)
            yield from decrypt(reader, header.binding["aead"], content_key, header.payload_associated_data())
            if again.names() != about:
                raise EnforcementError("not_authentic", "the artifact changed while it was opened")

        return replace(access(context, request, target, asked, prepare), is_key_committed=header.is_key_committed)


def reseal(
    context: Context,
    request: Request,
    source: Input,
    target: Output,
    new_key_reference: str,
    expected: Mapping[str, str] | None,
) -> Outcome:
    """
    Puts the content key under another key; the payload and what it is bound to stay as they are. So a header that
    commits to the content key still does, and one of the old form cannot begin to.
    """
    with opened(source, context.directory) as file:
        header, about, count = _inspect(file, request, expected)
        old, new = context.wrapping_key(header.key["reference"]), context.wrapping_key(new_key_reference)
        labels, resource = labels_of(header.binding, request), header.binding["resource"]
        keys = [("rewrap", old), ("wrap", new)]
        asked = Asked("rewrap", PROFILE, resource, labels, keys, about, previous_of(source, about))

        def make(permitted: Permitted) -> Iterator[bytes]:
            key = _key_block(permitted.keys[1].decision_id, new)
            key["wrapped"] = new.wrap(_unwrap(old, header), key_associated_data(header.binding, key))
            again = Digesting()
            reader = _from_start(file, count, again)
            yield encode_header(Header(header.binding, key))
            yield from pieces_of(reader)
            if again.names() != about:
                raise EnforcementError("not_authentic", "the artifact changed while it was rewrapped")

        return replace(produce(context, request, target, asked, make), is_key_committed=header.is_key_committed)


def _inspect(file: BinaryIO, request: Request, expected: Mapping[str, str] | None) -> tuple[Header, Json, Count]:
    """Reads the header and names the artifact."""
    count = progress(request.on_progress, size_of(file) * 2)
    header = read_header(file)
    require_resource(header.binding, expected)
    file.seek(0)
    return header, digest_of(Watched(file, count)).names(), count


def _from_start(file: BinaryIO, count: Count, digesting: Digesting) -> Watched:
    """The file again, up to the ciphertext."""
    file.seek(0)
    reader = Watched(file, count, digesting.update)
    read_header(reader)
    return reader


def _key_block(decision_id: str, provider: KeyProvider) -> dict[str, str]:
    return {"decision_id": decision_id, "provider": provider.provider, "reference": provider.reference}


def _unwrap(provider: KeyProvider, header: Header) -> bytes:
    if provider.provider != header.key["provider"]:
        raise EnforcementError("not_authentic", "the key is of another kind")
    content_key = provider.unwrap(header.key["wrapped"], key_associated_data(header.binding, header.key))
    return header.require_content_key(content_key)
