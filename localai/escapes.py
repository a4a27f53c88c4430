"""Characters of foreign text that a terminal would obey and not show, replaced by their escapes.

A name, a log line or an answer of a model may hold control characters: they move the cursor, rename the window or
answer in place of the keyboard. Bidirectional controls let a line read in another order than it stands.
"""

from __future__ import annotations

import re

#: C0, DEL, C1, line and paragraph separators, bidirectional controls, and surrogates, which no output can encode.
CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"

_ANY = re.compile(f"[{CONTROLS}]")
#: The same but for line feeds and tabs.
_BESIDE_LAYOUT = re.compile(f"(?![\n\t])[{CONTROLS}]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def escaped(text: str, *, lines: bool = True) -> str:
    """The text with each control character as ``\\x1b`` or ``\\u202e``; line feeds and tabs stay if ``lines``."""
    return (_BESIDE_LAYOUT if lines else _ANY).sub(_escape, text)


def escaped_json(text: str) -> str:
    """A JSON text of the same value without control characters, except for the line feeds between its parts."""
    return _BESIDE_LAYOUT.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def encodable(text: str) -> str:
    """The text with a replacement character for each surrogate."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()
