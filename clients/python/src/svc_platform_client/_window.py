"""What a stream has taken and the service has not acknowledged. Code that shares one between threads locks it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import grpc

from .bulk_v1 import EventItem, EventResult, RegistrationItem, RegistrationResult
from .errors import PlatformError
from .receipts import receipt_of

DEFAULT_MAX_ITEMS = 256
DEFAULT_MAX_BYTES = 256 * 1024
MAX_OWNERS = 1_000
"""How many of the latest records may answer no other item: as many as a bulk call has items."""

Item = TypeVar("Item", bound=EventItem | RegistrationItem)
Result = TypeVar("Result", bound=EventResult | RegistrationResult)
Result_co = TypeVar("Result_co", bound=EventResult | RegistrationResult, covariant=True)
Result_contra = TypeVar("Result_contra", bound=EventResult | RegistrationResult, contravariant=True)


@dataclass(frozen=True)
class Bounds:
    """Of what is not acknowledged. One item alone may always go."""

    max_items: int
    max_bytes: int

    def __post_init__(self) -> None:
        if self.max_items < 1 or self.max_bytes < 1:
            raise ValueError("max_unacknowledged_items and max_unacknowledged_bytes must be at least 1")


class Promise(Protocol[Result_contra]):
    """A future of either kind."""

    def done(self) -> bool: ...
    def set_result(self, result: Result_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Acknowledgement(Protocol[Result_co]):
    @property
    def sequence(self) -> int: ...
    @property
    def result(self) -> Result_co: ...


@dataclass(frozen=True)
class Pending(Generic[Item, Result]):
    sequence: int
    item: Item
    size: int
    promise: Promise[Result]
    sent_at: float
    """When its record can have been made at the earliest, in seconds of `time.time`."""


class Window(Generic[Item, Result]):
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._pending: list[Pending[Item, Result]] = []
        """In the order in which they were taken."""
        self._bytes = 0
        self._next_sequence = 0
        self._sent = 0
        """How many of them were sent on the connection in use."""
        self._owners: OrderedDict[tuple[str, int], str] = OrderedDict()
        """Places of the latest records in their logs, and the key of the item that each answers."""

    def __len__(self) -> int:
        return len(self._pending)

    def items(self) -> list[Item]:
        return [pending.item for pending in self._pending]

    def promises(self) -> list[Promise[Result]]:
        return [pending.promise for pending in self._pending]

    def has_room(self, size: int) -> bool:
        if not self._pending:
            return True
        return len(self._pending) < self._bounds.max_items and self._bytes + size <= self._bounds.max_bytes

    def add(self, item: Item, size: int, promise: Promise[Result], sent_at: float) -> None:
        self._pending.append(Pending(self._next_sequence, item, size, promise, sent_at))
        self._next_sequence += 1
        self._bytes += size

    def rewind(self) -> None:
        """On another connection all that is here is sent again."""
        self._sent = 0

    def has_unsent(self) -> bool:
        return self._sent < len(self._pending)

    def take_unsent(self) -> Pending[Item, Result]:
        """The next one to send, of which there is one."""
        taken = self._pending[self._sent]
        self._sent += 1
        return taken

    def acknowledge(
        self, acknowledgements: Iterable[Acknowledgement[Result]]
    ) -> list[tuple[Pending[Item, Result], Result]]:
        """
        What is acknowledged is here no more; it must be the first that were sent. Where one of them cannot be, none of
        them is taken for it: raises PlatformError.
        """
        settled: list[tuple[Pending[Item, Result], Result]] = []
        for at, one in enumerate(acknowledgements):
            if at >= self._sent or self._pending[at].sequence != one.sequence:
                raise violation(f"acknowledged {one.sequence}, which was not the next")
            if one.result.idempotency_key != self._pending[at].item.idempotency_key:
                raise violation(f"acknowledged {one.sequence} by another idempotency key")
            if not self._owns_record(one.result):
                raise violation(f"acknowledged {one.sequence} with the record of another item")
            settled.append((self._pending[at], one.result))
        del self._pending[: len(settled)]
        self._sent -= len(settled)
        self._bytes -= sum(pending.size for pending, _ in settled)
        return settled

    def _owns_record(self, result: Result) -> bool:
        """Items may ask the same, so that a record does not tell whose it is. Those with one key have one record."""
        receipt = receipt_of(result)
        if receipt is None:
            return True
        place = receipt.log_origin, receipt.leaf_index
        owner = self._owners.setdefault(place, result.idempotency_key)
        if len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)
        return owner == result.idempotency_key


def violation(what: str) -> PlatformError:
    return PlatformError(grpc.StatusCode.INTERNAL, f"the service broke the protocol of streams: it {what}")
