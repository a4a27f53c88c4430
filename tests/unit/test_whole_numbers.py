"""Whole numbers in the text of a client: any number of digits is read, and nothing else is a number."""

from __future__ import annotations

import pytest

from localai.whole_numbers import BIGINT, whole_number

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(BIGINT), BIGINT),
        (str(BIGINT + 1), BIGINT),
        ("9" * 5000, BIGINT),
        ("0" * 5000 + "12", 12),
        *((text, None) for text in ("", "-1", "+1", " 1", "1 ", "1_0", "1.0", "1e3", "²", "٣", "x", "0x1")),
    ],
)
def test_a_number_is_digits_and_no_larger_than_a_row_can_hold(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_number_is_no_larger_than_what_is_said() -> None:
    assert [whole_number(text, 10) for text in ("9", "10", "11", "9" * 5000)] == [9, 10, 10, 10]
