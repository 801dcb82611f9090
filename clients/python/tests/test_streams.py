"""Streams go on where a connection ended, lose nothing, and tell when they cannot. Each test asks both clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from bulk_service import Request, Response, Script, StreamService, acknowledged, answering, cut_after, each, streaming
from logs import Signer, receipt_of

from svc_platform_client import (
    AsyncPlatformClient,
    Options,
    PlatformClient,
    PlatformError,
    ReceiptRefused,
    Retry,
    _setup,
    bulk_v1,
    v1,
)

Code = grpc.StatusCode
ANSWERED, REFUSED = bulk_v1.ITEM_OUTCOME_ANSWERED, bulk_v1.ITEM_OUTCOME_REFUSED
EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first frame of a server of HTTP/2."""
QUICK = Retry(max_attempts=3, initial_backoff=0.01, max_backoff=0.02)


def event(number: int) -> v1.RecordEvidenceRequest:
    return v1.RecordEvidenceRequest(
        event_type=v1.EVIDENCE_EVENT_TYPE_PROTECT,
        workload=v1.WorkloadDescriptor(application="payroll"),
        resource=v1.ResourceDescriptor(kind="invoice", id=str(number)),
    )


@dataclass
class Shipped:
    results: list[bulk_v1.EventResult | Exception] = field(default_factory=list)
    error: Exception | None = None
    unacknowledged: list[bulk_v1.EventItem] = field(default_factory=list)


def ship_blocking(url: str, count: int, options: Options, bounds: dict[str, int], tokens: Any = None) -> Shipped:
    shipped = Shipped()
    with PlatformClient(url, options=options, tokens=tokens) as client:
        stream = client.open_event_stream(**bounds)
        futures = []
        try:
            for number in range(count):
                futures.append(stream.send(event(number), f"key-{number}"))
            stream.close()
        except PlatformError as error:
            shipped.error = error
        for future in futures:
            failure = future.exception(10)
            shipped.results.append(future.result() if failure is None else failure)  # type: ignore[arg-type]
        shipped.unacknowledged = stream.unacknowledged()
    return shipped


def ship_awaited(url: str, count: int, options: Options, bounds: dict[str, int], tokens: Any = None) -> Shipped:
    async def work() -> Shipped:
        shipped = Shipped()
        async with AsyncPlatformClient(url, options=options, tokens=tokens) as client:
            stream = client.open_event_stream(**bounds)
            futures = []
            try:
                for number in range(count):
                    futures.append(await stream.send(event(number), f"key-{number}"))
                await stream.close()
            except PlatformError as error:
                shipped.error = error
            results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 10)
            shipped.results = results  # type: ignore[assignment]
            shipped.unacknowledged = stream.unacknowledged()
        return shipped

    return asyncio.run(work())


Ship = Callable[..., Shipped]


@pytest.fixture(params=[ship_blocking, ship_awaited], ids=["blocking", "awaited"])
def ship(request: pytest.FixtureRequest) -> Ship:
    chosen: Ship = request.param

    def shipped(service: StreamService, count: int, retry: Retry = QUICK, **more: Any) -> Shipped:
        options = Options(retry=retry, **more.get("options", {}))
        with streaming(service) as url:
            return chosen(url, count, options, more.get("bounds", {}), more.get("tokens"))

    return shipped


def outcomes(shipped: Shipped) -> list[int]:
    assert shipped.error is None
    assert shipped.unacknowledged == []
    return [result.outcome for result in shipped.results if isinstance(result, bulk_v1.EventResult)]


def test_items_are_numbered_from_0_and_each_gets_its_result(ship: Ship) -> None:
    service = StreamService()
    shipped = ship(service, 300)
    assert outcomes(shipped) == [ANSWERED] * 300
    assert service.sequences() == [list(range(300))]
    keys = [result.idempotency_key for result in shipped.results if isinstance(result, bulk_v1.EventResult)]
    assert keys == [f"key-{number}" for number in range(300)]


def test_a_refused_item_is_a_result(ship: Ship) -> None:
    assert outcomes(ship(StreamService(answering(outcome=REFUSED)), 2)) == [REFUSED, ANSWERED]


def ends(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    yield acknowledged(next(requests))
    next(requests)


@pytest.mark.parametrize(
    "cut",
    [
        cut_after(2, Code.UNAVAILABLE, "overloaded"),
        cut_after(2, Code.DEADLINE_EXCEEDED, "request_timeout"),
        cut_after(2, Code.RESOURCE_EXHAUSTED, "rate_limited", 0.01),
        cut_after(2, Code.UNAUTHENTICATED, "expired_token"),
        ends,
    ],
    ids=["unavailable", "idle", "quota", "expired_token", "ended well"],
)
def test_after_a_cut_what_was_not_acknowledged_is_sent_again_in_order_under_its_keys(ship: Ship, cut: Script) -> None:
    service = StreamService(cut, cut)
    assert outcomes(ship(service, 20)) == [ANSWERED] * 20
    assert len(service.seen) == 3
    acknowledged_on = -1
    for sequences in service.sequences():
        assert sequences == sorted(sequences)
        assert sequences[0] > acknowledged_on
        acknowledged_on = sequences[0]
    assert service.keys() == {number: {f"key-{number}"} for number in range(20)}


def test_an_expired_token_is_replaced(ship: Ship) -> None:
    tokens = iter(["first", "second"])
    service = StreamService(cut_after(0, Code.UNAUTHENTICATED, "expired_token"))
    assert outcomes(ship(service, 1, tokens=lambda: next(tokens))) == [ANSWERED]
    assert [metadata["authorization"] for metadata in service.metadata] == ["Bearer first", "Bearer second"]


def test_connections_without_an_acknowledgement_are_counted_and_the_error_is_everybodys(ship: Ship) -> None:
    cut = cut_after(0, Code.UNAVAILABLE, "store_unavailable")
    waits: list[float] = []
    retry = Retry(3, 0.01, 0.02, lambda error, pause: waits.append(pause))
    service = StreamService(*[cut] * 5)
    shipped = ship(service, 3, retry)
    assert len(service.seen) == 3
    assert len(waits) == 2
    assert isinstance(shipped.error, PlatformError)
    assert (shipped.error.code, shipped.error.reason) == (Code.UNAVAILABLE, "store_unavailable")
    assert [item.idempotency_key for item in shipped.unacknowledged][: len(shipped.results)] == [
        f"key-{number}" for number in range(len(shipped.results))
    ]
    assert all(result is shipped.error for result in shipped.results)


def test_an_acknowledgement_starts_the_count_anew(ship: Ship) -> None:
    cuts = [cut_after(count, Code.UNAVAILABLE, "overloaded") for count in (0, 0, 1, 0, 0, 1, 0, 0)]
    assert outcomes(ship(StreamService(*cuts), 10)) == [ANSWERED] * 10


def test_a_pause_is_never_shorter_than_told(ship: Ship) -> None:
    waits: list[float] = []
    retry = Retry(3, 0.0, 0.0, lambda error, pause: waits.append(pause))
    ship(StreamService(cut_after(0, Code.RESOURCE_EXHAUSTED, "rate_limited", 0.25)), 1, retry)
    assert waits == [0.25]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (cut_after(1, Code.PERMISSION_DENIED, "missing_scope"), Code.PERMISSION_DENIED),
        (cut_after(1, Code.UNAUTHENTICATED, "invalid_token"), Code.UNAUTHENTICATED),
        (cut_after(1, Code.INVALID_ARGUMENT, "invalid_request"), Code.INVALID_ARGUMENT),
        (cut_after(1, Code.RESOURCE_EXHAUSTED, "rate_limited"), Code.RESOURCE_EXHAUSTED),
    ],
)
def test_what_trying_again_does_not_help_ends_the_stream(ship: Ship, script: Script, code: grpc.StatusCode) -> None:
    service = StreamService(script)
    shipped = ship(service, 3)
    assert len(service.seen) == 1
    assert isinstance(shipped.error, PlatformError)
    assert shipped.error.code is code
    assert isinstance(shipped.results[0], bulk_v1.EventResult)
    assert next(item.idempotency_key for item in shipped.unacknowledged) == "key-1"


def twice(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    first = next(requests)
    yield acknowledged(first)
    yield acknowledged(first)
    yield from each(requests, context)


def twice_at_once(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    first = next(requests)
    yield acknowledged(first, first)
    yield from each(requests, context)


@pytest.mark.parametrize(
    ("script", "left"),
    [
        (answering(sequence=7), "key-0"),
        (answering(sequence=-1), "key-0"),
        (answering(key="another"), "key-0"),
        (twice_at_once, "key-0"),
        (twice, "key-1"),
    ],
    ids=["unknown", "negative", "another key", "twice at once", "twice"],
)
def test_an_acknowledgement_of_nothing_that_waits_ends_the_stream(ship: Ship, script: Script, left: str) -> None:
    service = StreamService(script)
    shipped = ship(service, 2)
    assert isinstance(shipped.error, PlatformError)
    assert shipped.error.code is Code.INTERNAL
    assert len(service.seen) == 1
    assert next(item.idempotency_key for item in shipped.unacknowledged) == left


SIZE_BYTES = bulk_v1.EventItem(idempotency_key="key-0", event=event(0)).ByteSize()


@pytest.mark.parametrize("bounds", [{"max_unacknowledged_items": 3}, {"max_unacknowledged_bytes": 4 * SIZE_BYTES - 1}])
def test_callers_are_held_back_while_too_much_is_not_acknowledged(ship: Ship, bounds: dict[str, int]) -> None:
    most = 0

    def in_batches(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
        nonlocal most
        waiting: list[Request] = []
        for request in requests:
            waiting.append(request)
            most = max(most, len(waiting))
            if len(waiting) == 3:
                yield acknowledged(*waiting)
                waiting.clear()

    # If more were sent than there is room for, no acknowledgement would come.
    assert outcomes(ship(StreamService(in_batches), 9, bounds=bounds)) == [ANSWERED] * 9
    assert most == 3


def test_one_item_alone_may_always_go(ship: Ship) -> None:
    assert outcomes(ship(StreamService(), 3, bounds={"max_unacknowledged_bytes": 1})) == [ANSWERED] * 3


def with_receipt(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    for request in requests:
        response = acknowledged(request)
        result = response.items[0].result
        result.ingestion.accepted = True
        result.ingestion.receipt.CopyFrom(receipt_of(SIGNER, 5, request.sequence, brief=True))
        yield response


SIGNER = Signer(bytes(32))


def test_receipts_are_verified_where_log_keys_are_known(ship: Ship) -> None:
    options = {"log_keys": [SIGNER.log_key]}
    assert outcomes(ship(StreamService(with_receipt), 2, options=options)) == [ANSWERED] * 2
    options = {"log_keys": [Signer(bytes(31) + b"\1").log_key]}
    shipped = ship(StreamService(with_receipt), 2, options=options)
    assert shipped.error is None
    assert [type(result) for result in shipped.results] == [ReceiptRefused] * 2
    refused = shipped.results[0]
    assert isinstance(refused, ReceiptRefused)
    assert isinstance(refused.answer, bulk_v1.EventResult)


def test_the_receipts_that_are_wanted_are_asked_for(ship: Ship) -> None:
    service = StreamService()
    ship(service, 1, options={"receipts": "none"})
    assert service.metadata[0]["x-svc-receipt"] == "none"


def idle_end(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    yield acknowledged(next(requests))
    context.abort(Code.DEADLINE_EXCEEDED, "idle")


def test_an_idle_stream_that_was_ended_opens_again_with_the_next_item() -> None:
    service = StreamService(idle_end, idle_end)
    with streaming(service) as url, PlatformClient(url, options=Options(retry=Retry(1))) as client:
        with client.open_event_stream() as stream:
            for number in range(3):
                assert stream.send(event(number)).result(10).outcome == ANSWERED
        assert service.sequences() == [[0], [1], [2]]
        with pytest.raises(PlatformError, match="closed"):
            stream.send(event(3))


def test_an_item_without_a_key_is_given_one() -> None:
    service = StreamService(cut_after(0, Code.UNAVAILABLE, "overloaded"))
    with streaming(service) as url, PlatformClient(url, options=Options(retry=QUICK)) as client:
        with client.open_event_stream() as stream:
            result = stream.send(event(0)).result(10)
        assert service.keys() == {0: {result.idempotency_key}}
        assert len(result.idempotency_key) == 36
        with pytest.raises(ValueError, match="visible"):
            stream.send(event(0), "not visible")


def silent(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    for _ in requests:
        yield from ()


def test_a_service_that_is_gone_without_a_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_setup, "PING_AFTER_MS", 50)
    monkeypatch.setattr(_setup, "PING_TIMEOUT_MS", 50)
    options = Options(retry=Retry(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with PlatformClient(url, options=options) as client:
            stream = client.open_event_stream()
            result = stream.send(event(0))
            connection, _ = server.accept()
            with connection:
                connection.sendall(EMPTY_SETTINGS)
                failure = result.exception(10)
        assert isinstance(failure, PlatformError)
        assert failure.code is Code.UNAVAILABLE
        assert len(stream.unacknowledged()) == 1


def test_abort_ends_the_stream_at_once_and_all_who_are_held_back() -> None:
    service = StreamService(silent)
    with streaming(service) as url, PlatformClient(url) as client:
        stream = client.open_event_stream(max_unacknowledged_items=1)
        future = stream.send(event(0), "key-0")
        held: list[Any] = []

        def send() -> None:
            try:
                stream.send(event(1))
            except PlatformError as error:
                held.append(error.code)

        thread = threading.Thread(target=send)
        thread.start()
        stream.abort()
        thread.join(10)
        assert held == [Code.CANCELLED]
        assert isinstance(future.exception(10), PlatformError)
        assert [item.idempotency_key for item in stream.unacknowledged()] == ["key-0"]
        stream.close()


def test_abort_awaited() -> None:
    async def work(url: str) -> None:
        async with AsyncPlatformClient(url) as client:
            stream = client.open_event_stream(max_unacknowledged_items=1)
            future = await stream.send(event(0), "key-0")
            held = asyncio.ensure_future(stream.send(event(1)))
            await asyncio.sleep(0)
            stream.abort()
            for waiting in (future, held):
                with pytest.raises(PlatformError, match="aborted"):
                    await asyncio.wait_for(waiting, 10)
            assert [item.idempotency_key for item in stream.unacknowledged()] == ["key-0"]
            await stream.close()

    with streaming(StreamService(silent)) as url:
        asyncio.run(work(url))


def test_the_end_of_the_client_is_the_end_of_its_streams() -> None:
    async def awaited(url: str) -> Awaitable[bulk_v1.EventResult]:
        async with AsyncPlatformClient(url) as client:
            return await client.open_event_stream().send(event(0))

    async def work(url: str) -> None:
        with pytest.raises(PlatformError):
            await asyncio.wait_for(await awaited(url), 10)

    with streaming(StreamService(silent, silent)) as url:
        with PlatformClient(url) as client:
            future = client.open_event_stream().send(event(0))
        assert isinstance(future.exception(10), PlatformError)
        asyncio.run(work(url))


def test_the_error_of_a_source_of_tokens_ends_the_stream(ship: Ship) -> None:
    def tokens() -> str:
        raise LookupError("no token today")

    with streaming(StreamService()) as url, PlatformClient(url, tokens=tokens) as client:
        stream = client.open_event_stream()
        with pytest.raises(LookupError):
            stream.send(event(0)).result(10)
        with pytest.raises(LookupError):
            stream.close()


def test_items_that_were_changed_since_go_as_they_were_sent() -> None:
    service = StreamService(cut_after(0, Code.UNAVAILABLE, "overloaded"))
    with streaming(service) as url, PlatformClient(url, options=Options(retry=QUICK)) as client:
        with client.open_event_stream() as stream:
            given = event(0)
            stream.send(given)
            given.resource.id = "another"
        assert {request.item.event.resource.id for seen in service.seen for request in seen} == {"0"}
