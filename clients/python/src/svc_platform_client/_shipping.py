"""
Streams that resume: what the service has not acknowledged when a connection ends is sent again on the next one, in the
same order and under the same keys. One coroutine works while there is a connection, or something to send.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import grpc

from . import _methods as methods
from . import bulk_v1, v1
from ._bulk import payload_of, require_item_receipt
from ._calls import Attempts, Calls, made_key, may_retry, sent_with
from ._methods import Method
from ._replies import Reply
from ._runtime import Flight, Runtime
from ._stream_calls import StreamCall
from ._window import Bounds, Item, Promise, Result, Window
from .errors import Metadata, PlatformError, ReceiptRefused

Payload = TypeVar("Payload", bound=v1.RecordEvidenceRequest | v1.RegisterArtifactRequest)


@dataclass(frozen=True)
class Kind(Generic[Payload, Item]):
    """What is shipped."""

    method: Method[Any, Any]
    item: Callable[[str, Payload], Item]
    request: Callable[[int, Item], Any]


EVENTS: Kind[v1.RecordEvidenceRequest, bulk_v1.EventItem] = Kind(
    methods.STREAM_EVENTS,
    lambda key, event: bulk_v1.EventItem(idempotency_key=key, event=event),
    lambda sequence, item: bulk_v1.StreamEventsRequest(sequence=sequence, item=item),
)
REGISTRATIONS: Kind[v1.RegisterArtifactRequest, bulk_v1.RegistrationItem] = Kind(
    methods.STREAM_REGISTRATIONS,
    lambda key, registration: bulk_v1.RegistrationItem(idempotency_key=key, registration=registration),
    lambda sequence, item: bulk_v1.StreamRegistrationsRequest(sequence=sequence, item=item),
)


class Shipping(Generic[Payload, Item, Result]):
    def __init__(self, runtime: Runtime[Any], calls: Calls, kind: Kind[Payload, Item], bounds: Bounds) -> None:
        self._runtime = runtime
        self._calls = calls
        self._kind = kind
        self._signal = runtime.signal()
        self._window: Window[Item, Result] = Window(bounds)
        self._is_working = False
        self._flight: Flight[None] | None = None
        self._is_settling = False
        """Whether callers are being told what was acknowledged."""
        self._is_closing = False
        self._failure: BaseException | None = None
        """Why the stream is over."""
        self._is_aborted = False
        self._call: StreamCall[Any] | None = None
        self._connection = 0
        """Of the stream in use, counted from 1; what serves another one is at its end."""
        self._attempts = 0
        """Connections since the last acknowledgement."""
        self._not_before = 0.0
        """When the next connection may be opened, in seconds of `time.monotonic`."""

    async def send(self, payload: Payload, idempotency_key: str | None, promise: Promise[Result]) -> None:
        """Takes an item, whose result the promise gets. Waits until there is room for it."""
        item = self._kind.item(made_key(idempotency_key), payload)
        size = item.ByteSize()
        async with self._signal.turn():
            with self._signal:
                self._require_open()
                await self._signal.wait(lambda: self._failure is not None or self._window.has_room(size))
                self._require_open()
                self._window.add(item, size, promise, sent_with(idempotency_key))
                self._signal.changed()
                if not self._is_working:
                    self._is_working = True
                    # An event loop does not keep what runs in it.
                    self._flight = self._runtime.start(self._work)

    async def close(self) -> None:
        async with self._signal.turn():
            with self._signal:
                self._is_closing = True
                self._signal.changed()
                await self._signal.wait(lambda: self._failure is not None or self._is_drained())
                if self._failure is None:
                    # The service ends its direction once ours is ended.
                    ended = await self._signal.wait(lambda: not self._is_working, self._calls.options.deadline)
                    if not ended and self._call is not None:
                        self._call.cancel()
                elif not self._is_aborted:
                    raise self._failure

    def abort(self) -> None:
        with self._signal:
            self._is_aborted = self._failure is None
            if self._call is not None:
                self._call.cancel()
        self._give_up(PlatformError(grpc.StatusCode.CANCELLED, "the stream was aborted"))

    def unacknowledged(self) -> list[Item]:
        with self._signal:
            return self._window.items()

    def _require_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closing:
            raise PlatformError(grpc.StatusCode.CANCELLED, "the stream is closed")

    def _is_drained(self) -> bool:
        return not self._window and not self._is_settling

    def _give_up(self, failure: BaseException) -> None:
        with self._signal:
            if self._failure is not None:
                return
            self._failure = failure
            promises = self._window.promises()
            self._signal.changed()
        # What hangs on a promise may use the stream, and so finds it unlocked.
        for promise in promises:
            if not promise.done():
                promise.set_exception(failure)

    async def _work(self) -> None:
        try:
            while await self._has_work():
                self._after(await self._connect())
        except Exception as failure:  # such as the error of a program's own source of tokens
            self._give_up(failure)
        except BaseException:
            self._give_up(PlatformError(grpc.StatusCode.CANCELLED, "what the stream ran in has ended"))
            raise

    async def _has_work(self) -> bool:
        """Whether a connection is to be opened, once it may be. Else the next item starts the work again."""
        with self._signal:
            if self._failure is None and self._window:
                pause = self._not_before - time.monotonic()
                await self._signal.wait(lambda: self._failure is not None, max(0.0, pause))
            if self._failure is None and self._window:
                return True
            self._is_working = False
            self._signal.changed()
            return False

    async def _connect(self) -> PlatformError | None:
        """Ships until the connection ends. Resolves with why it ended; None where the service ended it well."""
        options = self._calls.options
        self._attempts += 1
        # The deadline is that of its token; a token that has expired is replaced on the next connection.
        metadata = self._calls.wanted_receipts()
        attempts = Attempts(time.monotonic() + options.deadline, metadata, may_replace_token=False)
        try:
            await self._calls.attempt(self._kind.method.path, self._ship, attempts)
        except PlatformError as error:
            return error
        return None

    def _after(self, failure: PlatformError | None) -> None:
        """Decides when the next connection may be opened, or that the stream is over."""
        with self._signal:
            is_idle = not self._window
        if is_idle and (failure is None or may_resume(failure)):
            self._attempts = 0
            self._not_before = time.monotonic() + ((failure and failure.retry_after) or 0.0)
            return
        error = failure or PlatformError(
            grpc.StatusCode.UNAVAILABLE, "the service ended the stream before it had acknowledged all of it"
        )
        retry = self._calls.options.retry
        if not may_resume(error) or self._attempts >= retry.max_attempts:
            self._give_up(error)
            return
        bound = min(retry.max_backoff, retry.initial_backoff * 2.0 ** max(0, self._attempts - 1))
        pause = (error.retry_after or 0.0) + random.uniform(0.0, bound)
        if retry.on_retry is not None:
            retry.on_retry(error, pause)
        self._not_before = time.monotonic() + pause

    async def _ship(self, channel: Any, metadata: Metadata) -> Reply[bool]:
        with self._signal:
            self._connection += 1
            self._window.rewind()
            send = partial(self._next, self._connection)
            try:
                call = self._runtime.stream(channel, self._kind.method, send, metadata)
            except ValueError as closed:
                raise PlatformError(grpc.StatusCode.CANCELLED, "the client is closed") from closed
            self._call = call
            if self._failure is not None:
                call.cancel()
        try:
            while (answer := await call.read()) is not None:
                self._acknowledge(answer.items)
            return await call.reply()
        finally:
            call.cancel()
            with self._signal:
                self._connection += 1
                self._call = None
                self._signal.changed()

    async def _next(self, connection: int) -> Any:
        with self._signal:
            await self._signal.wait(
                lambda: (
                    self._connection != connection
                    or self._window.has_unsent()
                    or (self._is_closing and self._is_drained())
                )
            )
            if self._connection != connection or not self._window.has_unsent():
                return None
            pending = self._window.take_unsent()
            return self._kind.request(pending.sequence, pending.item)

    def _acknowledge(self, acknowledgements: Any) -> None:
        with self._signal:
            settled = self._window.acknowledge(acknowledgements)
            if settled:
                self._attempts = 0
            self._is_settling = True
        for pending, result in settled:
            if pending.promise.done():  # its awaiter left
                continue
            try:
                if self._calls.are_verified():
                    request = payload_of(pending.item)
                    require_item_receipt(self._calls, request, result, None, pending.sent_at)
                pending.promise.set_result(result)
            except ReceiptRefused as refused:
                refused.answer = result
                pending.promise.set_exception(refused)
        with self._signal:
            self._is_settling = False
            self._signal.changed()


def may_resume(error: PlatformError) -> bool:
    """Also where the service ended a stream that was idle, or whose token had expired."""
    is_ended = error.code is grpc.StatusCode.DEADLINE_EXCEEDED or error.reason == "expired_token"
    return is_ended or may_retry(error)
