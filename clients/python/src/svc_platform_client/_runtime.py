"""
What a client does to the outside: calls, token requests, waiting, sharing work. All else is written once, as
coroutines over this. Those of the blocking runtime never suspend, so that `run` takes them to their end at once.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import grpc
import grpc.aio
import httpx

from ._certificates import Connection, Connections
from ._methods import Answer, Method, Request
from ._replies import Reply, failed, joined, run, serialize
from ._stream_calls import AsyncSignal, AsyncStreamCall, BlockingSignal, BlockingStreamCall, Next, Signal, StreamCall
from .errors import Metadata

T = TypeVar("T")
C = TypeVar("C")
T_co = TypeVar("T_co", covariant=True)
Work = Callable[[], Coroutine[Any, Any, T]]


@dataclass(frozen=True)
class Body:
    """Of an HTTP request: a form, JSON, or nothing."""

    form: Mapping[str, str] | None = None
    json: Mapping[str, object] | None = None


class Flight(Protocol[T_co]):
    """Work under way."""

    async def result(self, timeout: float) -> T_co:
        """Its outcome, for any number of callers. Raises TimeoutError; the work goes on."""


class Runtime(Protocol[C]):
    def acquire(self) -> Connection[C]:
        """The connection for one attempt. It must be released."""

    async def release(self, connection: Connection[C]) -> None: ...
    async def unary(
        self, channel: C, method: Method[Request, Answer], request: Request, timeout: float, metadata: Metadata
    ) -> Reply[Answer]: ...
    async def http(
        self,
        tls: ssl.SSLContext,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        timeout: float,
    ) -> httpx.Response: ...
    def stream(
        self, channel: C, method: Method[Request, Answer], send: Next[Request], metadata: Metadata
    ) -> StreamCall[Answer]: ...
    def signal(self) -> Signal: ...

    async def sleep(self, seconds: float) -> None: ...
    def start(self, work: Work[T]) -> Flight[T]: ...


class BlockingRuntime:
    def __init__(self, connections: Connections[grpc.Channel]) -> None:
        self._connections = connections

    def acquire(self) -> Connection[grpc.Channel]:
        return self._connections.acquire()

    async def release(self, connection: Connection[grpc.Channel]) -> None:
        for channel in self._connections.release(connection):
            channel.close()

    async def unary(
        self,
        channel: grpc.Channel,
        method: Method[Request, Answer],
        request: Request,
        timeout: float,
        metadata: Metadata,
    ) -> Reply[Answer]:
        send = channel.unary_unary(method.path, serialize, method.parse)
        try:
            answer, call = send.with_call(request, timeout=timeout, metadata=tuple(metadata))
        except grpc.RpcError as error:
            return failed(error)
        return Reply(joined(call.initial_metadata(), call.trailing_metadata()), answer)

    async def http(
        self,
        tls: ssl.SSLContext,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        timeout: float,
    ) -> httpx.Response:
        with httpx.Client(verify=tls) as client:
            return client.request(method, url, headers=headers, data=body.form, json=body.json, timeout=timeout)

    def stream(
        self, channel: grpc.Channel, method: Method[Request, Answer], send: Next[Request], metadata: Metadata
    ) -> StreamCall[Answer]:
        return BlockingStreamCall(channel, method, send, metadata)

    def signal(self) -> Signal:
        return BlockingSignal()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def start(self, work: Work[T]) -> Flight[T]:
        future: Future[T] = Future()

        def carry_out() -> None:
            try:
                future.set_result(run(work()))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=carry_out, name="svc-platform-client", daemon=True).start()
        return BlockingFlight(future)

    def close(self) -> None:
        for channel in self._connections.close():
            channel.close()


class BlockingFlight(Generic[T]):
    def __init__(self, future: Future[T]) -> None:
        self._future = future

    async def result(self, timeout: float) -> T:
        try:
            return self._future.result(timeout)
        except FutureTimeout:
            if self._future.done():
                raise
            raise TimeoutError from None


class AsyncChannels:
    """Of one connection: for calls, and for streams, whose channel is made when there is one."""

    def __init__(self, calls: grpc.aio.Channel, dial_streams: Callable[[], grpc.Channel]) -> None:
        self.calls = calls
        self._dial_streams = dial_streams
        self._streams: grpc.Channel | None = None
        self._is_closed = False

    @property
    def streams(self) -> grpc.Channel:
        """Raises ValueError where it is closed, as the channel itself does."""
        if self._is_closed:
            raise ValueError("the channels are closed")
        self._streams = self._streams or self._dial_streams()
        return self._streams

    async def close(self) -> None:
        self._is_closed = True
        await self.calls.close()
        if self._streams is not None:
            self._streams.close()


class AsyncRuntime:
    def __init__(self, connections: Connections[AsyncChannels]) -> None:
        self._connections = connections

    def acquire(self) -> Connection[AsyncChannels]:
        return self._connections.acquire()

    async def release(self, connection: Connection[AsyncChannels]) -> None:
        for channels in self._connections.release(connection):
            await channels.close()

    async def unary(
        self,
        channels: AsyncChannels,
        method: Method[Request, Answer],
        request: Request,
        timeout: float,
        metadata: Metadata,
    ) -> Reply[Answer]:
        send = channels.calls.unary_unary(method.path, serialize, method.parse)
        call = send(request, timeout=timeout, metadata=tuple(metadata))
        try:
            answer = await call
        except grpc.RpcError as error:
            return failed(error)
        return Reply(joined(await call.initial_metadata(), await call.trailing_metadata()), answer)

    async def http(
        self,
        tls: ssl.SSLContext,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        timeout: float,
    ) -> httpx.Response:
        async with httpx.AsyncClient(verify=tls) as client:
            return await client.request(method, url, headers=headers, data=body.form, json=body.json, timeout=timeout)

    def stream(
        self, channels: AsyncChannels, method: Method[Request, Answer], send: Next[Request], metadata: Metadata
    ) -> StreamCall[Answer]:
        return AsyncStreamCall(channels.streams, method, send, metadata)

    def signal(self) -> Signal:
        return AsyncSignal()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def start(self, work: Work[T]) -> Flight[T]:
        task = asyncio.get_running_loop().create_task(work())
        # The waiter may have left by then, and the error is then unused.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return AsyncFlight(task)

    async def close(self) -> None:
        for channels in self._connections.close():
            await channels.close()


class AsyncFlight(Generic[T]):
    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task

    async def result(self, timeout: float) -> T:
        try:
            return await asyncio.wait_for(asyncio.shield(self._task), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError from None


class SingleFlight(Generic[T]):
    """A value that is made when it is needed, by one caller for all, and kept until it is stale."""

    def __init__(self, runtime: Runtime[Any], make: Callable[[], Coroutine[Any, Any, tuple[T, float]]]) -> None:
        """`make` resolves with the value and the moment (`time.monotonic`) from which on it is stale."""
        self._runtime = runtime
        self._make = make
        self._lock = threading.Lock()
        self._held: tuple[T, float] | None = None
        self._flight: Flight[T] | None = None
        self._number = 0
        self._began = 0.0

    async def get(self, timeout: float, patience: float) -> T:
        """Raises TimeoutError. A flight that lasts longer than the patience is left behind."""
        with self._lock:
            if self._held is not None and time.monotonic() < self._held[1]:
                return self._held[0]
            if self._flight is None or time.monotonic() - self._began > patience:
                self._number, self._began = self._number + 1, time.monotonic()
                self._flight = self._runtime.start(partial(self._fly, self._number))
            flight = self._flight
        return await flight.result(timeout)

    def drop(self, value: T) -> None:
        """Forgets the value, if it is the one that is kept."""
        with self._lock:
            if self._held is not None and self._held[0] == value:
                self._held = None

    async def _fly(self, number: int) -> T:
        try:
            made = await self._make()
            with self._lock:
                if self._number == number:
                    self._held = made
            return made[0]
        finally:
            with self._lock:
                if self._number == number:
                    self._flight = None
