"""Merkle trees of RFC 6962 section 2.1, and the proofs of RFC 9162 section 2.1."""

from collections.abc import Sequence
from hashlib import sha256


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\0" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def leads_to_root(leaf: bytes, index: int, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """RFC 9162 section 2.1.3.2."""
    if index >= size:
        return False
    node, last, value = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            value = node_hash(sibling, value)
            while not node & 1 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            value = node_hash(value, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and value == root


def is_continued(
    first_size: int, first_root: bytes, second_size: int, second_root: bytes, path: Sequence[bytes]
) -> bool:
    """RFC 9162 section 2.1.4.2. Every tree continues the empty one."""
    if first_size == second_size:
        return first_root == second_root and not path
    if first_size == 0:
        return first_root == sha256(b"").digest() and not path
    if not 0 < first_size < second_size or not path:
        return False
    # Step 2: where the first tree is a whole subtree, its root begins the path.
    nodes = list(path) if first_size & (first_size - 1) else [first_root, *path]
    first, last = first_size - 1, second_size - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    old = new = nodes[0]
    for sibling in nodes[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not first & 1 and first != 0:
                first, last = first >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        first, last = first >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root
