"""Messages in the spelling of the JSON routes and of records: lowercase words, 64-bit integers as numbers."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ._relations import TABLE
from ._texts import Json

_REQUEST = TABLE["request"]
_ZERO_TIME = re.compile(r"0001-01-01[Tt]00:00:00(\.0+)?([Zz]|[+-]00:00)", re.ASCII)


def route_json(message: Message) -> dict[str, Json]:
    """An answer. Every member that is not optional is there."""
    return _members(message, is_request=False)


def recorded_form(request: Message) -> dict[str, Json]:
    """A request as records have it: an optional member that was sent empty is absent."""
    form = _members(request, is_request=True)
    for name in [*form]:
        is_empty = name in _REQUEST["left_out_if_empty"] and form[name] == []
        is_zero = name in _REQUEST["zero_time"] and _ZERO_TIME.fullmatch(str(form[name]))
        if is_empty or is_zero or name in _REQUEST["never_recorded"]:
            del form[name]
    return form


def _members(message: Message, is_request: bool) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if is_request and field.has_presence and _is_empty(field, value):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = dict(value)
        elif field.is_repeated:
            found[field.name] = [_one(field, item, is_request) for item in value]
        else:
            found[field.name] = _one(field, value, is_request)
    return found


def _is_empty(field: Any, value: object) -> bool:
    """Whether it is the empty text, or no word of an enumeration; a size of 0 is a size."""
    is_word = field.enum_type is not None
    return (is_word or field.type == FieldDescriptor.TYPE_STRING) and value in ("", 0)


def _one(field: Any, value: object, is_request: bool) -> Json:
    if isinstance(value, Message):
        return _members(value, is_request)
    if field.enum_type is not None and isinstance(value, int):
        return _word(field.enum_type, value)
    assert isinstance(value, str | bool | int | float)
    return value


def _word(words: Any, number: int) -> str:
    """Such as `tdf` for `ARTIFACT_PROFILE_TDF`; a number that this version does not know stays one."""
    prefix = str(words.values_by_number[0].name).removesuffix("UNSPECIFIED")
    found = words.values_by_number.get(number)
    return str(number) if found is None else str(found.name).removeprefix(prefix).lower()
