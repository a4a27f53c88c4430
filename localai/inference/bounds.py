"""Bounds of what one request or config may cost an engine that other requests share: its stack, memory and time.

The native parsers and samplers of an engine take any input and cannot be interrupted, so the input is bounded before
they see it. The web process checks requests, the reader of configs checks configs, and the built-in backends check each
call: a copy of this file lies in their folders. So it imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Longest text of a grammar. Parsed by recursion, and each rule is a list of 8 bytes for a character.
GRAMMAR_BYTES = 64 * 1024
#: Brackets of a grammar inside each other. llama.cpp ended at 30,000 of them, and each is a frame of its stack.
GRAMMAR_NESTING = 256
#: Alternatives of a grammar. The sampler compares each token with each of them: 1,000 cost it 0.5 s for a token.
GRAMMAR_ALTERNATIVES = 1_000
#: Optional parts in a row, which the backend counts: that takes half a second for the largest grammar. 50 cost
#: llama.cpp 0.2 s for a token of its answer, 100 cost 2 s, and 200 minutes.
GRAMMAR_OPTIONAL = 32

#: Values of a JSON schema, at any depth.
SCHEMA_NODES = 5_000
#: Values of all `enum` lists of a JSON schema.
SCHEMA_ENUM_VALUES = 1_000
#: Lists and objects of a JSON schema inside each other.
SCHEMA_NESTING = 128
#: Characters of all names and texts of a JSON schema.
SCHEMA_CHARACTERS = 256 * 1024
#: Brackets of a regular expression of a JSON schema inside each other, and its characters.
PATTERN_NESTING, PATTERN_CHARACTERS = 64, 4_096

#: Tokens that `repeat_last_n` and `n_keep` look back. The sampler keeps a ring of that many: 2**31 take 8.6 GB.
LAST_TOKENS = 65_536
#: Tokens for each token of an answer whose probability is reported.
TOP_LOGPROBS = 20
#: Tokens of a context and of a batch. The longest context that any model was trained for is 10 million.
CONTEXT_TOKENS = 16 * 1024 * 1024
#: Threads and slots of a model process.
THREADS, PARALLEL = 1_024, 256

_OPENING = "([{"


class OutOfBounds(ValueError):
    """A value is outside its bound; the text says what would be accepted."""


def check_grammar(text: str) -> None:
    """Raises OutOfBounds if a grammar costs too much to parse or to sample with."""
    size = len(text.encode())
    if size > GRAMMAR_BYTES:
        raise OutOfBounds(f"{size} bytes; accepted: at most {GRAMMAR_BYTES} bytes")
    _check_nesting(text, GRAMMAR_NESTING)
    alternatives = text.count("|") + 1
    if alternatives > GRAMMAR_ALTERNATIVES:
        raise OutOfBounds(f"{alternatives} alternatives; accepted: at most {GRAMMAR_ALTERNATIVES}")


def check_schema(schema: object) -> None:
    """Raises OutOfBounds if a JSON schema costs too much to turn into a grammar, or to sample with."""
    values = characters = 0
    for nodes, (key, value, depth) in enumerate(_nodes(schema), 1):
        if nodes > SCHEMA_NODES:
            raise OutOfBounds(f"more than {SCHEMA_NODES} values; accepted: at most {SCHEMA_NODES}")
        if depth > SCHEMA_NESTING:
            raise OutOfBounds(f"nested more than {SCHEMA_NESTING} deep; accepted: at most {SCHEMA_NESTING}")
        characters += len(key) + (len(value) if isinstance(value, str) else 0)
        if characters > SCHEMA_CHARACTERS:
            raise OutOfBounds(f"more than {SCHEMA_CHARACTERS} characters; accepted: at most {SCHEMA_CHARACTERS}")
        if key == "enum" and isinstance(value, list):
            values += len(value)
            if values > SCHEMA_ENUM_VALUES:
                raise OutOfBounds(f"{values} values of `enum`; accepted: at most {SCHEMA_ENUM_VALUES}")
        for pattern in _patterns(key, value):
            _check_pattern(pattern)


def _nodes(schema: object) -> Iterator[tuple[str, Any, int]]:
    """Each value of a schema with its name and depth. Without recursion: any depth can be read."""
    waiting: list[tuple[str, Any, int]] = [("", schema, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        yield key, value, depth
        if isinstance(value, Mapping):
            waiting.extend((str(name), inner, depth + 1) for name, inner in value.items())
        elif isinstance(value, list):
            waiting.extend(("", inner, depth + 1) for inner in value)


def _patterns(key: str, value: Any) -> Iterable[str]:
    """The regular expressions that a field of a schema holds."""
    if key == "pattern" and isinstance(value, str):
        return (value,)
    return map(str, value) if key == "patternProperties" and isinstance(value, Mapping) else ()


def _check_pattern(pattern: str) -> None:
    if len(pattern) > PATTERN_CHARACTERS:
        raise OutOfBounds(f"a `pattern` of {len(pattern)} characters; accepted: at most {PATTERN_CHARACTERS}")
    _check_nesting(pattern, PATTERN_NESTING)


def _check_nesting(text: str, most: int) -> None:
    """Brackets inside quotes count too: the parsers of the engines differ in what they take for a quote."""
    depth = 0
    for bracket in re.finditer(r"[(\[{)\]}]", text):
        depth = depth + 1 if bracket[0] in _OPENING else max(depth - 1, 0)
        if depth > most:
            raise OutOfBounds(f"more than {most} brackets inside each other; accepted: at most {most}")
