"""Control characters of foreign text are shown and not obeyed."""

from __future__ import annotations

import json

import pytest

from localai.escapes import encodable, escaped, escaped_json

pytestmark = pytest.mark.unit

EVERY = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
]


@pytest.mark.parametrize("sign", EVERY, ids=[f"U+{ord(sign):04X}" for sign in EVERY])
def test_every_control_character_is_shown_as_its_escape(sign: str) -> None:
    one_line = escaped(f"a{sign}b", lines=False)
    assert one_line.isprintable() and one_line.startswith("a\\") and one_line.endswith("b")
    assert escaped(f"a{sign}b") == (f"a{sign}b" if sign in "\n\t" else one_line)


@pytest.mark.parametrize("text", ["", "plain", "größe 模型 שלום سلام", "👩‍💻 e\u0301", "می‌خواهم", "C:\\new", "a - b"])
def test_text_of_every_language_stays_as_it_is(text: str) -> None:
    assert escaped(text) == escaped(text, lines=False) == encodable(text) == escaped_json(text) == text


def test_a_surrogate_that_no_output_can_encode_is_shown_or_replaced() -> None:
    assert escaped("a\ud800b") == "a\\ud800b"
    assert encodable("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"


def test_escaped_json_has_the_same_value_and_no_control_character() -> None:
    value = {"name": "".join(EVERY), "list": ["\ud800", "größe"]}
    text = escaped_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(text) == value
    assert all(line.isprintable() for line in text.split("\n")) and "größe" in text
