"""Whole numbers in the text of clients: Python refuses to read more than 4,300 digits, and rows hold 64 bits."""

from __future__ import annotations

#: A bigint column.
BIGINT = 2**63 - 1
_DIGITS = len(str(BIGINT))


def whole_number(text: str, most: int = BIGINT) -> int | None:
    """The number of plain decimal digits, ``most`` if it is larger; None if the text is none."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return most if len(digits) > _DIGITS else min(int(digits or "0"), most)
