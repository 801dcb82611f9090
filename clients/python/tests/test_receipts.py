"""What holds of every receipt: a good one verifies, and nothing that was changed in it does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import Signer, b64, canonical, consistency, entry, receipt_of, root_of

from svc_platform_client import ReceiptRefused, VerifiedReceipt, continues, v1, verify_receipt
from svc_platform_client.receipts._texts import parse_canonical

SIGNER = Signer(bytes(32))
STRANGER = Signer(bytes([1]) * 32)
RETIRED = f"{SIGNER.log_key}@8"

sizes = st.integers(1, 40)
TEXTS = ("record_id", "log_origin", "leaf_hash", "proof", "leaf", "opening", "record")


@st.composite
def receipts(draw: st.DrawFn, may_be_brief: bool = True) -> v1.Receipt:
    size = draw(sizes)
    brief = may_be_brief and draw(st.booleans())
    return receipt_of(SIGNER, size, draw(st.integers(0, size - 1)), brief)


@given(receipts())
def test_a_receipt_verifies_and_says_what_it_shows(receipt: v1.Receipt) -> None:
    shown = verify_receipt(receipt, SIGNER.log_key)
    assert (shown.log_origin, shown.leaf_index, shown.tree_size) == (
        SIGNER.origin,
        receipt.leaf_index,
        receipt.tree_size,
    )
    if receipt.HasField("record"):
        assert shown.record is not None
        assert shown.record["record_id"] == receipt.record_id
    else:
        assert shown.record is None


@settings(max_examples=300)
@given(receipts(may_be_brief=False), st.sampled_from(TEXTS), st.data())
def test_no_character_can_be_changed(receipt: v1.Receipt, member: str, data: st.DataObject) -> None:
    text: str = getattr(receipt, member)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("A1-/+=\n aZ\u2014{") | st.characters(exclude_categories=["Cs"]))
    changed = v1.Receipt()
    changed.CopyFrom(receipt)
    kind = data.draw(st.sampled_from(["replace", "insert", "delete"]))
    rest = text[at:] if kind == "insert" else text[at + 1 :]
    made = text[:at] + ("" if kind == "delete" else other) + rest
    setattr(changed, member, made)
    if made == text:
        return
    with pytest.raises(ReceiptRefused):
        verify_receipt(changed, SIGNER.log_key)


@given(receipts(), st.sampled_from(["leaf_index", "tree_size"]), st.integers(-(2**63), 2**63 - 1))
def test_no_number_can_be_changed(receipt: v1.Receipt, member: str, number: int) -> None:
    if getattr(receipt, member) == number:
        return
    setattr(receipt, member, number)
    with pytest.raises(ReceiptRefused):
        verify_receipt(receipt, SIGNER.log_key)


@given(receipts(may_be_brief=False), st.sets(st.sampled_from(["leaf", "opening", "record"]), min_size=1, max_size=2))
def test_no_part_can_be_left_out(receipt: v1.Receipt, left_out: set[str]) -> None:
    for member in left_out:
        receipt.ClearField(member)
    with pytest.raises(ReceiptRefused):
        verify_receipt(receipt, SIGNER.log_key)


@given(receipts(may_be_brief=False), st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_stands_in_a_receipt_is_refused_and_nothing_else_happens(receipt: v1.Receipt, junk: bytes) -> None:
    for member in TEXTS:
        changed = v1.Receipt()
        changed.CopyFrom(receipt)
        for text in (b64(junk), junk.decode("utf-8", "replace")):
            setattr(changed, member, text)
            with pytest.raises(ReceiptRefused):
                verify_receipt(changed, SIGNER.log_key)


def test_only_a_trusted_key_counts() -> None:
    receipt = receipt_of(SIGNER, 9, 3)
    with pytest.raises(ReceiptRefused, match="not signed by a trusted key"):
        verify_receipt(receipt, STRANGER.log_key)
    with pytest.raises(ReceiptRefused, match="not signed by a trusted key"):
        verify_receipt(receipt, [])
    assert verify_receipt(receipt, [STRANGER.log_key, SIGNER.log_key]).leaf_index == 3


def test_a_retired_key_counts_for_the_trees_from_before() -> None:
    assert verify_receipt(receipt_of(SIGNER, 8, 3), RETIRED).tree_size == 8
    with pytest.raises(ReceiptRefused, match="retired"):
        verify_receipt(receipt_of(SIGNER, 9, 3), RETIRED)


def test_a_key_counts_for_its_own_log_alone() -> None:
    other = Signer(bytes(32), "logs.example.com/another")
    with pytest.raises(ReceiptRefused):
        verify_receipt(receipt_of(SIGNER, 5, 1), other.log_key)


@pytest.mark.parametrize("key", ["", "a+b+c", SIGNER.log_key[:-4], SIGNER.log_key + "@", SIGNER.log_key + "@x", "@"])
def test_what_is_no_key_is_said_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="log key"):
        verify_receipt(receipt_of(SIGNER, 1, 0), key)


@given(st.integers(0, 40), sizes, st.data())
def test_logs_that_only_grew_continue(first: int, more: int, data: st.DataObject) -> None:
    leaves = [entry(number)[0] for number in range(first + more)]
    heads = [VerifiedReceipt("log", 0, size, root_of(leaves[:size]), None) for size in (first, first + more)]
    path = consistency(leaves, first) if first > 0 else []
    proof = "".join(f"{b64(value)}\n" for value in path)
    assert continues(heads[0], heads[1], proof)
    assert first == 0 or not continues(heads[1], heads[0], proof)
    if path:
        broken = list(path)
        at = data.draw(st.integers(0, len(path) - 1))
        broken[at] = bytes(byte ^ 1 for byte in broken[at])
        assert not continues(heads[0], heads[1], "".join(f"{b64(value)}\n" for value in broken))
    assert not continues(heads[0], heads[1], proof + "not a hash\n")
    rewritten = VerifiedReceipt("log", 0, first + more, root_of([b"other", *leaves[1:]]), None)
    assert first == 0 or not continues(heads[0], rewritten, proof)


values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcXYZ_09", max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_canonical_json_is_read(value: Any) -> None:
    assert parse_canonical(canonical(value)) == value


NOT_CANONICAL = """
{
{"a":1,"a":1}
{"b":1,"a":1}
{"a": 1}
1.0
1e2
-0
NaN
1e999
"\\u0041"
"\\u0000"
"\\ud800"
9007199254740993
""".splitlines()


@pytest.mark.parametrize("text", [*NOT_CANONICAL, "[" * 33 + "]" * 33, "[" * 100_000, "\ufeff1", "9" * 5000])
def test_what_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(ReceiptRefused):
        parse_canonical(text.encode())
