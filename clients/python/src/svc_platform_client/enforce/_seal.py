"""Profile `envelope`: plaintext becomes ciphertext, and again plaintext; the key that wraps its key may change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO

from ._artifacts import (
    Content,
    Outcome,
    Work,
    access,
    finished,
    labels_of,
    previous_of,
    produce,
    protect_content,
    protecting,
    require_resource,
)
from ._data import Digesting, Watched, digest_of, opened, pieces_of, progress, read_at, seekable, size_of
from ._envelope import Header, encode_header, key_associated_data, key_commitment, read_header
from ._operation import Asked, Context, Permitted, Request
from ._platform import Json
from ._streams import SEGMENT_SIZES, decrypt, decrypt_range, encrypt
from .errors import EnforcementError
from .keys import KEY_SIZE, KeyProvider

PROFILE = "envelope"
Count = Callable[[bytes], None]


def seal(context: Context, request: Request, key_reference: str | None, aead: str, with_content_digest: bool) -> Work:
    """Turns plaintext into an envelope."""
    if aead not in SEGMENT_SIZES:
        raise EnforcementError("invalid", f"there is no {aead}")
    provider = context.wrapping_key(key_reference)
    asked = protecting(request, PROFILE, [provider])

    def make(content: Content) -> Iterator[bytes]:
        content_key = os.urandom(KEY_SIZE)
        binding = content.binding | {"aead": aead, "key_commitment": key_commitment(content_key)}
        key = _key_block(content.permitted.keys[0].decision_id, provider)
        key["wrapped"] = provider.wrap(content_key, key_associated_data(binding, key))
        header = Header(binding, key)
        yield encode_header(header)
        yield from encrypt(content.source, aead, content_key, header.payload_associated_data())

    outcome = yield from protect_content(context, request, asked, with_content_digest, make)
    return replace(outcome, is_key_committed=True)


def unseal(context: Context, request: Request) -> Outcome:
    """Turns an envelope into plaintext again."""
    with opened(request.source, context.directory) as file:
        header, about, count = _inspect(file, request)
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

        return replace(access(context, request, asked, prepare), is_key_committed=header.is_key_committed)


def unseal_range(context: Context, request: Request, names: Json | None, offset: int, length: int) -> Outcome:
    """Opens the segments of a range, under a decision about the artifact that the caller names."""
    if names is None:
        why = "a range of an envelope does not show which artifact it is of: name its digest"
        raise EnforcementError("invalid", why)
    with seekable(request.source) as file:
        header = read_header(file)
        require_resource(header.binding, request)
        start, size = len(encode_header(header)), size_of(file)
        provider, count = context.wrapping_key(header.key["reference"]), progress(request.on_progress, None)
        labels, resource = labels_of(header.binding, request), header.binding["resource"]
        asked = Asked("access", PROFILE, resource, labels, [("unwrap", provider)], names)

        def read(position: int, wanted: int) -> bytes:
            return read_at(file, start + position, wanted)

        def prepare() -> Iterator[bytes]:
            return decrypted(_unwrap(provider, header))

        def decrypted(content_key: bytes) -> Iterator[bytes]:
            aead, bound = header.binding["aead"], header.payload_associated_data()
            for piece in decrypt_range(read, size - start, aead, content_key, bound, offset, length):
                count(piece)
                yield piece

        return replace(access(context, request, asked, prepare), is_key_committed=header.is_key_committed)


def reseal(context: Context, request: Request, new_key_reference: str) -> Outcome:
    """
    Puts the content key under another key; the payload and what it is bound to stay as they are. So a header that
    commits to the content key still does, and one of the old form cannot begin to.
    """
    with opened(request.source, context.directory) as file:
        header, about, count = _inspect(file, request)
        old, new = context.wrapping_key(header.key["reference"]), context.wrapping_key(new_key_reference)
        labels, resource = labels_of(header.binding, request), header.binding["resource"]
        keys = [("rewrap", old), ("wrap", new)]
        asked = Asked("rewrap", PROFILE, resource, labels, keys, about, previous_of(request.source, about))

        def make(permitted: Permitted) -> Iterator[bytes]:
            key = _key_block(permitted.keys[1].decision_id, new)
            key["wrapped"] = new.wrap(_unwrap(old, header), key_associated_data(header.binding, key))
            again = Digesting()
            reader = _from_start(file, count, again)
            yield encode_header(Header(header.binding, key))
            yield from pieces_of(reader)
            if again.names() != about:
                raise EnforcementError("not_authentic", "the artifact changed while it was rewrapped")

        return replace(finished(produce(context, request, asked, make)), is_key_committed=header.is_key_committed)


def _inspect(file: BinaryIO, request: Request) -> tuple[Header, Json, Count]:
    """Reads the header and names the artifact."""
    count = progress(request.on_progress, size_of(file) * 2)
    header = read_header(file)
    require_resource(header.binding, request)
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
