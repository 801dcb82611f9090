"""
Protects or opens many small objects. Each is a separate operation in a thread; all share the service's bulk calls.

An answer belongs to an item only by its content. Question, answer and receipt of each item are compared as for a single
call; a record that answers two items is refused here, because two items may ask the same.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import grpc

from .. import bulk_v1, v1
from ..errors import CODES, PlatformError
from ..receipts import receipt_of
from ._operation import Context
from ._platform import Platform
from .errors import EnforcementError

_MAX_ITEMS = 256
"""Of a call. Smaller calls let the service answer one while this process works on another."""
_Q = TypeVar("_Q")
_I = TypeVar(
    "_I", bulk_v1.ProtectionPlanItem, bulk_v1.KeyAccessPlanItem, bulk_v1.RegistrationResult, bulk_v1.EventResult
)
_R = TypeVar("_R", bulk_v1.RegistrationResult, bulk_v1.EventResult)


class BulkCalls(Protocol):
    """The bulk calls of a `PlatformClient`, whose option `receipts` is `whole`."""

    def plan_protections(self, request: bulk_v1.PlanProtectionsRequest, /) -> bulk_v1.PlanProtectionsResponse: ...

    def plan_key_accesses(self, request: bulk_v1.PlanKeyAccessesRequest, /) -> bulk_v1.PlanKeyAccessesResponse: ...

    def register_artifacts(self, request: bulk_v1.RegisterArtifactsRequest, /) -> bulk_v1.RegisterArtifactsResponse: ...

    def record_events(self, request: bulk_v1.RecordEventsRequest, /) -> bulk_v1.RecordEventsResponse: ...


def shared_context(context: Context, client: BulkCalls) -> Context:
    """The context of one call with many items."""
    platform = _BulkPlatform(context.platform, client)
    return replace(context, platform=platform, spool=context.spool.through(platform))


class _BulkPlatform:
    """The bulk calls as single ones, for the items of one `protect_many` or `open_many`."""

    def __init__(self, single: Platform, client: BulkCalls) -> None:
        self.capabilities, self.bootstrap = single.capabilities, single.bootstrap
        owners: dict[str, str] = {}

        def plans(keyed: Sequence[tuple[str, v1.PlanProtectionRequest]]) -> Sequence[bulk_v1.ProtectionPlanItem]:
            items = [question for _, question in keyed]
            return client.plan_protections(bulk_v1.PlanProtectionsRequest(items=items)).items

        def key_accesses(keyed: Sequence[tuple[str, v1.PlanKeyAccessRequest]]) -> Sequence[bulk_v1.KeyAccessPlanItem]:
            items = [question for _, question in keyed]
            return client.plan_key_accesses(bulk_v1.PlanKeyAccessesRequest(items=items)).items

        def registrations(
            keyed: Sequence[tuple[str, v1.RegisterArtifactRequest]],
        ) -> Sequence[bulk_v1.RegistrationResult]:
            items = [bulk_v1.RegistrationItem(idempotency_key=key, registration=it) for key, it in keyed]
            return client.register_artifacts(bulk_v1.RegisterArtifactsRequest(items=items)).items

        def events(keyed: Sequence[tuple[str, v1.RecordEvidenceRequest]]) -> Sequence[bulk_v1.EventResult]:
            items = [bulk_v1.EventItem(idempotency_key=key, event=it) for key, it in keyed]
            return client.record_events(bulk_v1.RecordEventsRequest(items=items)).items

        self._plans, self._key_accesses = _SharedCalls(plans, owners), _SharedCalls(key_accesses, owners)
        self._registrations, self._events = _SharedCalls(registrations, owners), _SharedCalls(events, owners)

    def plan_protection(self, request: v1.PlanProtectionRequest, /) -> bulk_v1.ProtectionPlanItem:
        return self._plans.ask(request, str(uuid.uuid4()))

    def plan_key_access(self, request: v1.PlanKeyAccessRequest, /) -> bulk_v1.KeyAccessPlanItem:
        return self._key_accesses.ask(request, str(uuid.uuid4()))

    def register_artifact(
        self, request: v1.RegisterArtifactRequest, /, *, idempotency_key: str
    ) -> bulk_v1.RegistrationResult:
        return _of_key(self._registrations.ask(request, idempotency_key), idempotency_key)

    def record_evidence(self, request: v1.RecordEvidenceRequest, /, *, idempotency_key: str) -> bulk_v1.EventResult:
        return _of_key(self._events.ask(request, idempotency_key), idempotency_key)


class _SharedCalls(Generic[_Q, _I]):
    """Questions of one kind. Those that arrive while a call is under way share the next one."""

    def __init__(self, send: Callable[[Sequence[tuple[str, _Q]]], Sequence[_I]], owners: dict[str, str]) -> None:
        self._send: Callable[[Sequence[tuple[str, _Q]]], Sequence[_I]] = send
        self._owners = owners
        """Of each record that answered an item: the item's key."""
        self._waiting: list[tuple[str, _Q, Future[_I]]] = []
        self._guard, self._sending = threading.Lock(), threading.Lock()

    def ask(self, question: _Q, key: str) -> _I:
        answer: Future[_I] = Future()
        with self._guard:
            self._waiting.append((key, question, answer))
        while not answer.done():
            with self._sending:
                if not answer.done():
                    with self._guard:
                        batch, self._waiting = self._waiting[:_MAX_ITEMS], self._waiting[_MAX_ITEMS:]
                    self._send_batch(batch)
        return answer.result()

    def _send_batch(self, batch: Sequence[tuple[str, _Q, Future[_I]]]) -> None:
        """A call whose body the service finds too large becomes two."""
        try:
            items = self._send([(key, question) for key, question, _ in batch])
            if len(items) > len(batch):
                raise _not_answered("the answer has more items than were asked")
            ids = [receipt.record_id if (receipt := receipt_of(item)) else "" for item in items]
            owners = [self._owners.setdefault(found, batch[at][0]) for at, found in enumerate(ids)]
            doubled = {found for at, found in enumerate(ids) if owners[at] != batch[at][0]}
        except BaseException as error:
            if isinstance(error, PlatformError) and error.reason == "body_too_large" and len(batch) > 1:
                half = (len(batch) + 1) // 2
                self._send_batch(batch[:half])
                self._send_batch(batch[half:])
                return
            for _, _, answer in batch:
                answer.set_exception(error)
            return
        for at, (_, _, answer) in enumerate(batch):
            try:
                item = _answered(items[at] if at < len(items) else None)
                if ids[at] in doubled:
                    raise _not_answered("the record answers another item too")
                answer.set_result(item)
            except Exception as error:
                answer.set_exception(error)


def _answered(item: Any) -> Any:
    """Raises the error of the single call if the item was refused."""
    if item is not None and item.HasField("error"):
        refused = item.error
        wait = float(refused.retry_after_seconds) if refused.HasField("retry_after_seconds") else None
        code = CODES.get(refused.code, grpc.StatusCode.UNKNOWN)
        raise PlatformError(code, refused.message, reason=refused.reason, retry_after=wait)
    if item is None or item.outcome != bulk_v1.ITEM_OUTCOME_ANSWERED:
        raise _not_answered("the answer has nothing for this item")
    return item


def _of_key(item: _R, idempotency_key: str) -> _R:
    if item.idempotency_key != idempotency_key:
        raise _not_answered("the answer is of another idempotency key")
    return item


def _not_answered(why: str) -> EnforcementError:
    return EnforcementError("unavailable", f"the platform gave no valid answer: {why}")
