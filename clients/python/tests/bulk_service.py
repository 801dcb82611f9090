"""The bulk services in memory: what a test's script says becomes of each connection of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from svc_platform_client import bulk_v1

Request = bulk_v1.StreamEventsRequest
Response = bulk_v1.StreamEventsResponse
Script = Callable[[Iterator[Request], grpc.ServicerContext], Iterator[Response]]
EVENTS = "/platform.bulk.v1.BulkStreamService/StreamEvents"


def acknowledged(*requests: Request, **changes: Any) -> Response:
    """All of them, with what a test changes about it."""
    response = Response()
    for request in requests:
        outcome = changes.get("outcome", bulk_v1.ITEM_OUTCOME_ANSWERED)
        key = changes.get("key", request.item.idempotency_key)
        result = bulk_v1.EventResult(outcome=outcome, idempotency_key=key)
        response.items.add(sequence=changes.get("sequence", request.sequence), result=result)
    return response


def refuse(context: grpc.ServicerContext, code: grpc.StatusCode, reason: str, wait: float | None = None) -> None:
    details = [Packed()]
    details[0].Pack(ErrorInfo(reason=reason, metadata={"request_id": "r-1"}))
    if wait is not None:
        details.append(Packed())
        details[1].Pack(RetryInfo(retry_delay=Duration(nanos=round(wait * 1e9))))
    number: int = code.value[0]
    status = Status(code=number, message="no", details=details).SerializeToString()
    context.set_trailing_metadata((("grpc-status-details-bin", status),))
    context.abort(code, "no")


def each(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
    """Acknowledges each item alone."""
    for request in requests:
        yield acknowledged(request)


def cut_after(count: int, code: grpc.StatusCode, reason: str, wait: float | None = None) -> Script:
    """Acknowledges so many, takes another one, and ends the stream."""

    def script(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
        for number, request in enumerate(requests):
            if number == count:
                break
            yield acknowledged(request)
        refuse(context, code, reason, wait)

    return script


def answering(**changes: Any) -> Script:
    """Answers the first item with what a test changes about its acknowledgement."""

    def script(requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
        yield acknowledged(next(requests), **changes)
        yield from each(requests, context)

    return script


class StreamService:
    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        """Of the connections, one after the other; those that have none acknowledge each item."""
        self.seen: list[list[Request]] = []
        """What came on each connection."""
        self.metadata: list[dict[str, str | bytes]] = []

    def serve(self, requests: Iterator[Request], context: grpc.ServicerContext) -> Iterator[Response]:
        script = self.scripts.pop(0) if self.scripts else each
        seen: list[Request] = []
        self.seen.append(seen)
        self.metadata.append(dict(context.invocation_metadata()))

        def noted() -> Iterator[Request]:
            for request in requests:
                seen.append(request)
                yield request

        return script(noted(), context)

    def sequences(self) -> list[list[int]]:
        return [[request.sequence for request in seen] for seen in self.seen]

    def keys(self) -> dict[int, set[str]]:
        """Under which keys each item came, by its sequence."""
        keys: dict[int, set[str]] = {}
        for request in (request for seen in self.seen for request in seen):
            keys.setdefault(request.sequence, set()).add(request.item.idempotency_key)
        return keys


@contextmanager
def served(*handlers: tuple[str, grpc.RpcMethodHandler[Any, Any]]) -> Iterator[str]:
    """Methods by their paths, at the URL that is given."""

    class Router(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
            return dict(handlers).get(details.method)

    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((Router(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def streaming(service: StreamService) -> Iterator[str]:
    handler = grpc.stream_stream_rpc_method_handler(service.serve, Request.FromString, Response.SerializeToString)
    with served((EVENTS, handler)) as url:
        yield url
