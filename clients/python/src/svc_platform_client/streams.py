"""Streams of events and registrations, which go on where a connection ended."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import TracebackType
from typing import Generic

from . import v1
from ._replies import run
from ._shipping import Payload, Shipping
from ._window import Item, Result
from .bulk_v1 import EventItem, EventResult, RegistrationItem, RegistrationResult


class ItemStream(Generic[Payload, Item, Result]):
    """
    Ships items as long as it is not closed, over one connection after the other: where one ends, whatever the service
    has not acknowledged is sent again on the next, in the same order and under the same keys, after pauses and as often
    as `Options.retry` says; each acknowledgement restarts the count.

    If that does not help, every waiting future gets the error, and so does each later send or close.
    It may be shared by threads, and used as a context manager: it is closed at its end, or aborted by an exception.
    """

    def __init__(self, shipping: Shipping[Payload, Item, Result]) -> None:
        self._shipping = shipping

    def __enter__(self) -> ItemStream[Payload, Item, Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def send(self, payload: Payload, idempotency_key: str | None = None) -> Future[Result]:
        """
        Takes an item, and blocks while too much is not acknowledged. The future has its result once the item is durable
        or refused for good (`outcome` says which), or ReceiptRefused, with the result in `answer`. Its callbacks run
        where acknowledgements are read: none of them may wait for the stream.

        All connections send it under one idempotency key: the given one, or one that is made. Raises PlatformError
        where the stream is over or closed.
        """
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()  # what was taken cannot be taken back
        run(self._shipping.send(payload, idempotency_key, future))
        return future

    def close(self) -> None:
        """Sends no more, and blocks until all is acknowledged. Raises PlatformError where the stream is over before."""
        run(self._shipping.close())

    def abort(self) -> None:
        """Ends the stream at once. Futures that wait get PlatformError, CANCELLED."""
        self._shipping.abort()

    def unacknowledged(self) -> list[Item]:
        """What was taken and is not acknowledged, with its keys, in order: to be kept by a program that stops."""
        return self._shipping.unacknowledged()


class AsyncItemStream(Generic[Payload, Item, Result]):
    """`ItemStream`, awaited. It belongs to one event loop."""

    def __init__(self, shipping: Shipping[Payload, Item, Result]) -> None:
        self._shipping = shipping

    async def __aenter__(self) -> AsyncItemStream[Payload, Item, Result]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            self.abort()

    async def send(self, payload: Payload, idempotency_key: str | None = None) -> asyncio.Future[Result]:
        """As `ItemStream.send`: resolves once the item is taken, with a future of its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        # The closer of the stream gets its error; not every caller also wants it of each item.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        await self._shipping.send(payload, idempotency_key, future)
        return future

    async def close(self) -> None:
        """As `ItemStream.close`."""
        await self._shipping.close()

    def abort(self) -> None:
        """As `ItemStream.abort`."""
        self._shipping.abort()

    def unacknowledged(self) -> list[Item]:
        """As `ItemStream.unacknowledged`."""
        return self._shipping.unacknowledged()


EventStream = ItemStream[v1.RecordEvidenceRequest, EventItem, EventResult]
RegistrationStream = ItemStream[v1.RegisterArtifactRequest, RegistrationItem, RegistrationResult]
AsyncEventStream = AsyncItemStream[v1.RecordEvidenceRequest, EventItem, EventResult]
AsyncRegistrationStream = AsyncItemStream[v1.RegisterArtifactRequest, RegistrationItem, RegistrationResult]
