"""How calls end, the same over either kind of channel."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

import grpc
from google.protobuf.message import Message

from .errors import Metadata

T = TypeVar("T")


@dataclass(frozen=True)
class Reply(Generic[T]):
    """How a call ended: with an answer, or with the error that gRPC raised."""

    metadata: Metadata
    """Headers and trailers together."""
    answer: T | None = None
    error: grpc.RpcError | None = None
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine over the blocking runtime."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking client was suspended")


def serialize(message: Message) -> bytes:
    return message.SerializeToString()


RawMetadata = Iterable[tuple[str, str | bytes]] | None


def joined(headers: RawMetadata, trailers: RawMetadata) -> Metadata:
    return [*(headers or ()), *(trailers or ())]


class FailedCall(Protocol):
    """What the error of either kind of channel is besides, which its type does not say."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...
    def initial_metadata(self) -> RawMetadata: ...
    def trailing_metadata(self) -> RawMetadata: ...


def failed(error: grpc.RpcError) -> Reply[Any]:
    call = cast(FailedCall, error)
    metadata = joined(call.initial_metadata(), call.trailing_metadata())
    return Reply(metadata, error=error, code=call.code(), message=call.details() or "")
