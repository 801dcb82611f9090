"""Profile `detached_signature`: data stays as it is, and a file beside it says under which decision it was signed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

from ._artifacts import (
    Outcome,
    Work,
    access,
    binding_of,
    finished,
    labels_of,
    previous_of,
    produce,
    protecting,
    require_resource,
)
from ._data import Input, Output, Watched, digest_of, is_stream, opened, pieces_of, progress, size_of, staged
from ._operation import Asked, Context, Permitted, Request
from ._platform import Json
from ._signature import encode_signature, read_signature, require_content, require_signature
from .errors import EnforcementError
from .keys import SigningKey

PROFILE = "detached_signature"
File = str | os.PathLike[str]


def sign_data(context: Context, request: Request, key_reference: str | None, is_bundle: bool) -> Work:
    """Signs data; the target is the signature file."""
    key, source = _signer(context.signing_key(key_reference)), request.source
    _require_other(request.target, [source])
    with opened(source) as file:
        count = progress(request.on_progress, None if is_stream(source) else size_of(file))
        content = digest_of(Watched(file, count))
    named: Json = {"content_digest": content.digest(), "content_size_bytes": content.size}
    asked = replace(protecting(request, PROFILE, [key]), about=named)

    def make(permitted: Permitted) -> Iterator[bytes]:
        binding = named | binding_of(asked, permitted)
        yield encode_signature(binding, permitted.keys[0].decision_id, key, is_bundle)

    return (yield from produce(context, request, asked, make))


def open_signed(context: Context, request: Request, signature: File) -> Outcome:
    """Verifies data, and gives out what is signed."""
    source, target = request.source, request.target
    _require_other(target, [signature])
    signed = read_signature(signature)
    binding = signed.binding
    require_resource(binding, request)
    key, labels = context.signing_key(signed.key["reference"]), labels_of(binding, request)
    about = signed.artifact | {"content_digest": binding["content_digest"]}
    asked = Asked("access", PROFILE, binding["resource"], labels, [("unwrap", key)], about)
    with ExitStack() as stack:
        file = stack.enter_context(opened(source))
        size = None if is_stream(source) else size_of(file)
        # A stream cannot be asked to give back what it was given: it is given what has been verified whole.
        is_twice = is_stream(target)
        count = progress(request.on_progress, None if size is None else size * (2 if is_twice else 1))

        def prepare() -> Iterator[bytes]:
            require_signature(signed, key)
            verified = require_content(pieces_of(Watched(file, count)), binding)
            if not is_twice:
                return verified
            # A copy that no other process can change.
            copy = stack.enter_context(staged(verified, context.directory))
            return require_content(pieces_of(Watched(copy, count)), binding)

        return access(context, request, asked, prepare)


def sign_anew(context: Context, request: Request, new_key_reference: str) -> Outcome:
    """Signs again, with another key, what a signature that verifies says. The data is not read."""
    if is_stream(request.source):
        raise EnforcementError("invalid", "a signature is read from a file")
    signed = read_signature(cast(str, request.source))
    binding = signed.binding
    require_resource(binding, request)
    old, new = context.signing_key(signed.key["reference"]), _signer(context.signing_key(new_key_reference))
    about = signed.artifact | {"content_digest": binding["content_digest"]}
    keys = [("rewrap", old), ("wrap", new)]
    previous = previous_of(request.source, signed.artifact)
    asked = Asked("rewrap", PROFILE, binding["resource"], labels_of(binding, request), keys, about, previous)

    def make(permitted: Permitted) -> Iterator[bytes]:
        require_signature(signed, old)
        yield encode_signature(binding, permitted.keys[1].decision_id, new, signed.is_bundle)

    return finished(produce(context, request, asked, make))


def _signer(key: SigningKey) -> SigningKey:
    if not key.can_sign:
        raise EnforcementError("invalid", f"key {key.reference} verifies only")
    return key


def _require_other(target: Output, sources: Sequence[Input]) -> None:
    """Data and signature belong together: neither is replaced by what is made of it."""
    if is_stream(target) or not Path(cast(str, target)).exists():
        return
    for source in sources:
        path = None if is_stream(source) else Path(cast(str, source))
        if path is not None and path.exists() and path.samefile(cast(str, target)):
            raise EnforcementError("invalid", f"{target} is what the output is made of")
