"""Streams of gRPC, and waiting for changes of what is shared, in the ways of either client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from ._methods import Answer, Method, Request
from ._replies import Reply, failed, joined, run, serialize
from .errors import Metadata

Answer_co = TypeVar("Answer_co", bound=Message, covariant=True)
Next = Callable[[], Coroutine[Any, Any, Request | None]]
"""What is sent next; None where nothing will be, which ends this direction of the stream."""


class StreamCall(Protocol[Answer_co]):
    async def read(self) -> Answer_co | None:
        """The next answer; None where there will be no other."""

    async def reply(self) -> Reply[bool]:
        """How it ended, once there is nothing to read: with True, or an error."""

    def cancel(self) -> None: ...


class Signal(Protocol):
    """What is shared is read and changed within `with`, and in there waited for."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    async def wait(self, holds: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until it holds, or the seconds are over: whether it holds then. Others have their turn in the meantime."""

    def changed(self) -> None:
        """All who wait look again."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """One at a time, in the order in which they came; nothing within is held off by it but this."""


class BlockingStreamCall(Generic[Answer]):
    def __init__(
        self, channel: grpc.Channel, method: Method[Request, Answer], send: Next[Request], metadata: Metadata
    ) -> None:
        def requests() -> Iterator[Request]:
            while (request := run(send())) is not None:
                yield request

        self._failure: grpc.RpcError | None = None
        self._call = channel.stream_stream(method.path, serialize, method.parse)(requests(), metadata=tuple(metadata))

    async def read(self) -> Answer | None:
        try:
            answer: Answer | None = next(self._call, None)
            return answer
        except grpc.RpcError as error:
            self._failure = error
            return None

    async def reply(self) -> Reply[bool]:
        if self._failure is not None:
            return failed(self._failure)
        return Reply(joined(self._call.initial_metadata(), self._call.trailing_metadata()), True)

    def cancel(self) -> None:
        self._call.cancel()


class AsyncStreamCall(Generic[Answer]):
    """
    Over a channel that blocks, with threads of its own: where a message cannot be sent any more, those of asyncio lose
    why the service ended the stream.
    """

    def __init__(
        self, channel: grpc.Channel, method: Method[Request, Answer], send: Next[Request], metadata: Metadata
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[Answer | None] = asyncio.Queue()

        async def send_in_loop() -> Request | None:
            try:
                return asyncio.run_coroutine_threadsafe(send(), self._loop).result()
            except (CancelledError, RuntimeError):  # the event loop has ended
                return None

        self._call = BlockingStreamCall(channel, method, send_in_loop, metadata)
        threading.Thread(target=self._read_all, name="svc-platform-client", daemon=True).start()

    async def read(self) -> Answer | None:
        return await self._answers.get()

    async def reply(self) -> Reply[bool]:
        return await self._call.reply()

    def cancel(self) -> None:
        self._call.cancel()

    def _read_all(self) -> None:
        answer: Answer | None = None
        try:
            while (answer := run(self._call.read())) is not None:
                self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)
            self._loop.call_soon_threadsafe(self._answers.put_nowait, None)
        except RuntimeError:  # likewise
            self._call.cancel()


class BlockingSignal:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._turn = threading.Lock()

    def __enter__(self) -> object:
        return self._condition.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._condition.__exit__(kind, error, trace)

    async def wait(self, holds: Callable[[], bool], timeout: float | None = None) -> bool:
        return self._condition.wait_for(holds, timeout)

    def changed(self) -> None:
        self._condition.notify_all()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        with self._turn:
            yield


class AsyncSignal:
    """No other task runs between two awaits, so there is nothing to lock."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._turn = asyncio.Lock()

    def __enter__(self) -> object:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    async def wait(self, holds: Callable[[], bool], timeout: float | None = None) -> bool:
        ends_at = None if timeout is None else time.monotonic() + timeout
        while not holds():
            left = None if ends_at is None else ends_at - time.monotonic()
            try:
                await asyncio.wait_for(self._event.wait(), left)
            except asyncio.TimeoutError:
                return holds()
        return True

    def changed(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        async with self._turn:
            yield
