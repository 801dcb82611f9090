"""Texts of which there is exactly one for each value."""

from __future__ import annotations

import base64
import datetime
import json
import re
from typing import NoReturn

import rfc8785

from ..errors import ReceiptRefused

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 32

Json = None | bool | float | str | list["Json"] | dict[str, "Json"]


def require(holds: object, problem: str) -> None:
    if not holds:
        raise ReceiptRefused(problem)


def parse_base64(text: str) -> bytes | None:
    """Padded standard base64 (RFC 4648 section 4); None for any text that is not the only one of its bytes."""
    try:
        decoded = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        return None
    return decoded if base64.b64encode(decoded).decode("ascii") == text else None


def parse_decimal(text: str) -> int | None:
    if not re.fullmatch(r"0|[1-9][0-9]{0,15}", text, re.ASCII):
        return None
    number = int(text)
    return number if number <= MAX_SAFE_INTEGER else None


def is_moment(value: object) -> bool:
    """RFC 3339 with milliseconds, in UTC: only then do texts compare as times do."""
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    if not isinstance(value, str) or not re.fullmatch(form, value, re.ASCII):
        return False
    try:
        # Python's calendar begins with the year 1; the year 0 is a leap year like 2000.
        year = "2000" if value.startswith("0000") else value[:4]
        datetime.datetime.strptime(year + value[4:], "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return False
    return int(value[17:19]) < 60


def is_well_formed(text: str) -> bool:
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def parse_canonical(data: bytes) -> Json:
    """The value of canonical JSON (RFC 8785), its numbers as the doubles that it takes them for."""
    try:
        value: Json = json.loads(
            data.decode("utf-8"), parse_int=float, parse_float=float, parse_constant=refuse_constant
        )
        require_plain(value)
        same = rfc8785.dumps(value) == data
    except (ValueError, RecursionError, OverflowError) as error:  # rfc8785's errors are of the first kind
        raise ReceiptRefused("is not canonical JSON") from error
    require(same, "is not canonical JSON")
    return value


def canonical(value: Json) -> bytes:
    return rfc8785.dumps(value)


def refuse_constant(_: str) -> NoReturn:
    raise ValueError("not JSON")


def require_plain(value: Json, depth: int = 0) -> None:
    """No U+0000, and at most 32 levels."""
    if isinstance(value, str):
        require("\0" not in value and is_well_formed(value), "holds text that is not well-formed, or U+0000")
    elif isinstance(value, list | dict):
        require(depth < MAX_DEPTH, "is nested too deep")
        for item in value if isinstance(value, list) else [*value, *value.values()]:
            require_plain(item, depth + 1)
