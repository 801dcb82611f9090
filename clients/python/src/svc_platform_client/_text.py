"""Text of files and peers: what a terminal would obey or not show is written as JSON escapes it."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Controls, what turns the direction of text, halves of characters, and separators that end a line."""


def visible_line(text: str) -> str:
    """One line that steers no terminal (RFC 8259 section 7): JSON within it stays the same JSON."""
    return "".join(_escaped(it) if unicodedata.category(it) in _UNSEEN else it for it in text)


def is_visible(text: str) -> bool:
    """Whether all of it is shown as it is: required of names, such as references of keys."""
    return visible_line(text) == text


def _escaped(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(data[at : at + 2], 'big'):04x}" for at in range(0, len(data), 2))
