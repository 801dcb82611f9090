"""
What of answers, requests and artifacts must be what of their records: `record-relations.json`, a table that the
packages of all languages share, and that the build puts beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from typing import Any

from ._texts import Json

TABLE: dict[str, Any] = json.loads(files(__package__).joinpath("record-relations.json").read_bytes())


class Absent(Enum):
    """What is not there; it is like nothing else, not even null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
Value = Json | Absent
Path = Sequence[str]


def path_of(text: str) -> Path:
    return tuple(text.split("."))


def at(value: Value, path: Path) -> Value:
    for member in path:
        value = value.get(member, ABSENT) if isinstance(value, dict) else ABSENT
    return value


def same(one: Value, other: Value) -> bool:
    """Whether two JSON values are equal; Python alone takes true for 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other


def is_within(some: Value, others: Value) -> bool:
    """Whether both are lists, and the second has every item of the first."""
    if not isinstance(some, list) or not isinstance(others, list):
        return False
    return all(any(same(item, other) for other in others) for item in some)


@dataclass(frozen=True)
class Row:
    member: Path
    holds: Callable[[Value], bool]
    """Whether this is the row that counts for the record."""
    expected: Callable[[Value], Value]


def _condition(spec: Mapping[str, Any]) -> Callable[[Value], bool]:
    conditions = [(path_of(one["at"]), one.get("is", ABSENT)) for one in spec.get("when", [])]

    def holds(record: Value) -> bool:
        found = ((at(record, path), wanted) for path, wanted in conditions)
        return all(value is not ABSENT and (wanted is ABSENT or same(value, wanted)) for value, wanted in found)

    return holds


def _expression(spec: Mapping[str, Any]) -> Callable[[Value], Value]:
    if "value" in spec:
        constant: Json = spec["value"]
        return lambda _: constant
    if "list" in spec:
        items = [(_condition(item), _expression(item)) for item in spec["list"]]

        def listed(record: Value) -> Value:
            values = (express(record) for holds, express in items if holds(record))
            return [value for value in values if not isinstance(value, Absent)]

        return listed
    [name] = {"at", "has", "count"} & spec.keys()
    path, instead = path_of(spec[name]), spec.get("else", ABSENT)

    def found(record: Value) -> Value:
        value = at(record, path)
        if name == "has":
            return value is not ABSENT
        if name == "count":
            return len(value) if isinstance(value, list | dict) else ABSENT
        return instead if value is ABSENT else value

    return found


def _rows(table: Sequence[Mapping[str, Any]], route: str) -> Sequence[Row]:
    return [
        Row(path_of(spec["member"]), _condition(spec), _expression(spec))
        for spec in table
        if route in spec.get("of", [route])
    ]


ANSWER = {route: _rows(TABLE["answer"], route) for route in TABLE["routes"]}
WHOAMI = {route: _rows(TABLE["whoami"], route) for route in TABLE["routes"]}


def differences(rows: Sequence[Row], said: Json, record: Json, parts: Sequence[str] | None = None) -> Iterator[str]:
    """Members of what is said that are not what the record says; with `parts`, those of these parts alone."""
    decided: set[Path] = set()
    for row in rows:
        is_told = parts is None or row.member[0] in parts
        if is_told and row.member not in decided and row.holds(record):
            decided.add(row.member)
            if not same(at(said, row.member), row.expected(record)):
                yield ".".join(row.member)
