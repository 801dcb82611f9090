"""One call: bounded in time, tried again where that may help, and its refusal read."""

import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import TypeVar

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

Answer = TypeVar("Answer")
Detail = TypeVar("Detail")

CALL_TIMEOUT_SECONDS = 30  # covers all attempts
BASE_DELAY_SECONDS = 0.25
MAX_DELAY_SECONDS = 4.0


def call(method: Callable[..., Answer], request: object, *, once: bool = False) -> Answer:
    """Makes the call. With `once` it carries an idempotency key: however often it is sent, it is recorded once."""
    metadata = (("idempotency-key", str(uuid.uuid4())),) if once else ()
    deadline = time.monotonic() + CALL_TIMEOUT_SECONDS
    bound = BASE_DELAY_SECONDS
    while True:
        try:
            return method(request, timeout=deadline - time.monotonic(), metadata=metadata)
        except grpc.RpcError as error:
            pause = retry_delay(error) + random.uniform(0, bound)
            if not may_retry(error) or time.monotonic() + pause > deadline:
                raise
            print(f"{error.details()}; trying again in {pause:.2f} s", file=sys.stderr)
            time.sleep(pause)
            bound = min(2 * bound, MAX_DELAY_SECONDS)


def may_retry(error: grpc.RpcError) -> bool:
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return retry_delay(error) > 0
    return error.code() is grpc.StatusCode.UNAVAILABLE


def retry_delay(error: grpc.RpcError) -> float:
    """Seconds from google.rpc.RetryInfo; 0 where the service does not say."""
    info = detail(error, error_details_pb2.RetryInfo)
    return info.retry_delay.ToTimedelta().total_seconds() if info else 0.0


def detail(error: grpc.RpcError, kind: type[Detail]) -> Detail | None:
    status = rpc_status.from_call(error)
    for packed in status.details if status else ():
        found = kind()
        if packed.Unpack(found):
            return found
    return None


ADVICE = {
    "missing_scope": "ask the issuer for these scopes too: {missing_scopes}",
    "proof_of_possession_failed": "the token is bound to another client certificate than the one presented, "
    "or the service does not trust it",
    "invalid_token": "the service does not take tokens of this issuer, or for this audience",
}


def describe(error: grpc.RpcError) -> str:
    """What is wrong, for a person, with the id to name when asking the operator."""
    lines = [f"{error.code().name}: {error.details()}"]
    info = detail(error, error_details_pb2.ErrorInfo)
    if info:
        lines.append(f"reason: {info.reason}")
        if info.reason in ADVICE:
            lines.append(ADVICE[info.reason].format(**info.metadata))
        lines.append(f"request id: {info.metadata['request_id']}")
    broken = detail(error, error_details_pb2.BadRequest)
    for violation in broken.field_violations if broken else ():
        lines.append(f"{violation.field}: {violation.description}")
    return "\n  ".join(lines)
