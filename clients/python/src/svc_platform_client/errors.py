"""What goes wrong, the same for both clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from ._text import visible_line

Detail = TypeVar("Detail", bound=Message)
Metadata = Sequence[tuple[str, str | bytes]]


@dataclass(frozen=True)
class Violation:
    """A rule that a member of the request breaks."""

    field: str
    """Path of the member, such as `attributes[3].value`."""
    rule: str
    message: str


class PlatformError(Exception):
    """A call without an answer. What broke on the way is its `__cause__`."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        request_id: str = "",
        missing_scopes: Sequence[str] = (),
        violations: Sequence[Violation] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        """From the service's closed list, such as `missing_scope`; empty where the service never answered."""
        self.request_id = request_id
        """To name when asking the operator."""
        self.missing_scopes = tuple(missing_scopes)
        self.violations = tuple(violations)
        self.retry_after = retry_after
        """Seconds to wait before trying again, where the service says so."""

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        request_id = f"; request id: {self.request_id}" if self.request_id else ""
        return visible_line(f"{self.code.name}{reason}: {self.message}{request_id}")


class ReceiptRefused(Exception):
    """A receipt does not show what it says. `answer` is what came with it, where a call was made."""

    answer: Message | None = None


class NotPermitted(Exception):
    """A decision that denies, or that demands what this program cannot do."""

    def __init__(self, reasons: Sequence[str], unknown_obligations: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        """Ids of the policies that decided."""
        self.unknown_obligations = tuple(unknown_obligations)
        why = f"obligations not understood: {', '.join(unknown_obligations)}" if unknown_obligations else "denied"
        super().__init__(visible_line(f"{why} ({', '.join(reasons)})" if reasons else why))


def read_refusal(code: grpc.StatusCode, message: str, metadata: Metadata) -> PlatformError:
    """The error of a call's status and its details (`grpc-status-details-bin`)."""
    status = Status()
    for name, value in metadata:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            try:
                status = Status.FromString(value)
            except DecodeError:  # a proxy wrote it; the status alone counts then
                status = Status()
    info = detail(status, ErrorInfo) or ErrorInfo()
    broken = detail(status, BadRequest) or BadRequest()
    retry = detail(status, RetryInfo)
    return PlatformError(
        # A stream that is reset is a failure on the way; gRPC has other codes for some of its reasons.
        grpc.StatusCode.UNAVAILABLE if not status.details and "RST_STREAM" in message else code,
        message,
        reason=info.reason,
        request_id=info.metadata.get("request_id", ""),
        missing_scopes=info.metadata.get("missing_scopes", "").split(),
        violations=[Violation(v.field, v.reason, v.description) for v in broken.field_violations],
        retry_after=max(0.0, retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9) if retry else None,
    )


CODES = {code.name.lower(): code for code in grpc.StatusCode} | {"canceled": grpc.StatusCode.CANCELLED}
# As gRPC reads the status of an answer that is not gRPC (grpc/doc/http-grpc-status-mapping.md).
CODES_OF_HTTP = {
    400: grpc.StatusCode.INTERNAL,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.UNIMPLEMENTED,
    **dict.fromkeys((429, 502, 503, 504), grpc.StatusCode.UNAVAILABLE),
}


def rest_refusal(status: int, answer: Mapping[str, Any]) -> PlatformError:
    """The error of a JSON route. What has no envelope comes from something between here and the service."""
    error = answer.get("error")
    code = CODES.get(str(error.get("code"))) if isinstance(error, dict) else None
    if code is None or not isinstance(error, dict):
        message = f"HTTP {status} without an answer of the platform"
        return PlatformError(CODES_OF_HTTP.get(status, grpc.StatusCode.UNKNOWN), message)
    wait = error.get("retry_after_seconds")
    return PlatformError(
        code,
        str(error.get("message", "")),
        reason=str(error.get("reason", "")),
        request_id=str(error.get("request_id", "")),
        retry_after=float(wait) if isinstance(wait, int | float) else None,
    )


def detail(status: Status, kind: type[Detail]) -> Detail | None:
    for packed in status.details:
        found = kind()
        try:
            if packed.Unpack(found):
                return found
        except DecodeError:
            continue
    return None
