"""Receipts that the service made, and what was made of them: shared with the clients of every other language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict, ParseError
from hypothesis import given
from hypothesis import strategies as st

from svc_platform_client import ReceiptRefused, VerifiedReceipt, continues, v1, verify_receipt

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "conformance/vectors/receipts.json").read_text("utf-8")
)
GOOD = {vector["name"]: vector for vector in VECTORS["receipts"] if "refused" not in vector}
BAD = [vector for vector in VECTORS["receipts"] if "refused" in vector]


def receipt_of(vector: dict[str, Any]) -> v1.Receipt:
    return ParseDict(vector["receipt"], v1.Receipt())


def verify(vector: dict[str, Any]) -> VerifiedReceipt:
    return verify_receipt(receipt_of(vector), vector["log_key"])


@pytest.mark.parametrize("vector", GOOD.values(), ids=list(GOOD))
def test_holds(vector: dict[str, Any]) -> None:
    assert verify(vector).tree_size == vector["receipt"]["tree_size"]


@pytest.mark.parametrize("vector", BAD, ids=[f"{vector['name']}: {vector['refused']}" for vector in BAD])
def test_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises((ReceiptRefused, ParseError)):  # a member more is no message at all
        verify(vector)


@pytest.mark.parametrize("vector", VECTORS["consistency"], ids=[str(i) for i in range(len(VECTORS["consistency"]))])
def test_continues(vector: dict[str, Any]) -> None:
    earlier, later = (verify(GOOD[vector[name]]) for name in ("earlier", "later"))
    assert continues(earlier, later, vector["proof"]) == vector["continues"]


@given(st.sampled_from([vector for vector in GOOD.values() if "record" in vector["receipt"]]), st.data())
def test_no_character_can_be_changed(vector: dict[str, Any], data: st.DataObject) -> None:
    receipt = receipt_of(vector)
    member = data.draw(st.sampled_from(["record_id", "log_origin", "leaf_hash", "leaf", "opening", "record"]))
    text: str = getattr(receipt, member)
    at = data.draw(st.integers(0, len(text) - 1))
    made = text[:at] + data.draw(st.sampled_from(["", "A", "1", "/", "="])) + text[at + 1 :]
    if made == text:
        return
    setattr(receipt, member, made)
    with pytest.raises(ReceiptRefused):
        verify_receipt(receipt, vector["log_key"])
