"""Bodies of the largest size, each of a shape that is dear to read, to count, to parse, to check or to refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from web import limits

#: LOCALAI_UPLOAD_LIMIT by default.
SIZE = 15 * 1024 * 1024
CHAT, EMBEDDINGS, RERANK, COMPLETIONS = "/v1/chat/completions", "/v1/embeddings", "/v1/rerank", "/v1/completions"
LOGIN = "/api/auth/token-login"


@dataclass(frozen=True, slots=True)
class Shape:
    """One body. ``chunk`` is the size of its chunks; 0 sends it with its length."""

    name: str
    path: str
    make: Callable[[str], bytes]
    chunk: int = 0


def shapes() -> Iterator[Shape]:
    """Every shape; `make` takes the name of a model that answers."""
    for name, item in _REPEATED.items():
        yield Shape(f"messages: {name}", CHAT, lambda model, item=item: _chat(model, b"[" + _fill(item) + b"1]"))  # type: ignore[misc]
    yield Shape("fields of many names", CHAT, lambda model: b"{" + _named(SIZE // 12) + b"}")
    yield Shape("one name again and again", CHAT, lambda model: b"{" + _fill(b'"a":1,') + b'"b":1}')
    yield Shape(
        "lists inside each other", CHAT, lambda model: _chat(model, b"[" * (SIZE // 2) + b"]" * (SIZE // 2 - 200))
    )
    for name, text in _TEXTS.items():
        yield Shape(f"a text of {name}", CHAT, lambda model, text=text: _chat(model, _message(text)))  # type: ignore[misc]
    for name, data in _NO_JSON.items():
        yield Shape(f"no JSON: {name}", CHAT, lambda model, data=data: _fill(data, SIZE))  # type: ignore[misc]
    yield Shape("everything up to its limit", CHAT, lambda model: _padded(_largest(model)))
    yield Shape("everything up to its limit, one text broken", CHAT, lambda model: _padded(_largest(model), b"\\u0000"))
    yield Shape("values up to the limit that say nothing", CHAT, lambda model: _padded(_unknown(model)))
    yield Shape("names up to the limit", CHAT, lambda model: b"{" + _named(limits.NAMES.most - 10) + b"}")
    yield Shape("tokens up to the limit", EMBEDDINGS, lambda model: _padded(_tokens(model)))
    yield Shape("one list of tokens", EMBEDDINGS, lambda model: _padded({"model": model, "input": [7] * 399_000}))
    yield Shape(
        "a wrong token at the end", EMBEDDINGS, lambda model: _dumped({"model": model, "input": [7] * 399_000 + [-1]})
    )
    yield Shape("documents up to the limit", RERANK, lambda model: _dumped(_documents(model)))
    yield Shape("prompts up to the limit", COMPLETIONS, lambda model: _dumped(_prompts(model)))
    yield Shape("chunks of one byte", CHAT, lambda model: _chat(model, _message(b"x")), 1)
    yield Shape(
        "as many chunks as may be", CHAT, lambda model: _chat(model, _message(b"x")), SIZE // limits.CHUNKS.most + 20
    )
    yield Shape("chunks of one byte at the sign-in", LOGIN, lambda model: b'{"token": "' + _fill(b"x") + b'"}', 1)


_REPEATED = {
    "numbers": b"1,",
    "fractions": b"1.5,",
    "long numbers": b"1" * 128 + b",",
    "longer numbers": b"1" * 4000 + b",",
    "empty lists": b"[],",
    "empty objects": b"{},",
    "objects": b'{"a":{"b":[1]}},',
    "empty texts": b'"",',
    "messages": b'{"role":"user","content":"x"},',
    "wrong messages": b'{"role":"x","content":"x"},',
    "nothing": b"null,",
}
_TEXTS = {
    "letters": b"a",
    "letters of two bytes": "é".encode(),
    "emoji": "\U0001f600".encode(),
    "line feeds": b"\\n",
    "backslashes": b"\\\\",
    "quotes": b'\\"',
    "escaped letters": b"\\u00e9",
    "escaped emoji": b"\\ud83d\\ude00",
    "half emoji": b"\\ud83d",
    "NUL": b"\\u0000",
    "brackets": b"[",
    "digits": b"1",
    "a table": b"1,2.5,[x],{y: z}\\n",
}
_NO_JSON = {
    "spaces": b" ",
    "quotes": b'"',
    "backslashes": b"\\",
    "closing brackets": b"]",
    "commas": b",",
    "broken UTF-8": b"\xff",
    "NUL": b"\0",
    "line feeds": b"\n",
    "letters": b"Infinity",
}


def _fill(item: bytes, size: int = SIZE - 300) -> bytes:
    return item * (size // len(item))


def _named(count: int) -> bytes:
    return b",".join(b'"%d":0' % place for place in range(count))


def _chat(model: str, messages: bytes) -> bytes:
    return b'{"model":%b,"messages":%b}' % (json.dumps(model).encode(), messages)


def _message(text: bytes) -> bytes:
    return b'[{"role":"user","content":"%b"}]' % _fill(text)


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _padded(value: Mapping[str, Any], begin: bytes = b"") -> bytes:
    """The body with a text beside, so that it has the largest size."""
    data = _dumped(value)
    return data[:-1] + b',"user":"' + begin + b"x" * (SIZE - len(data) - len(begin) - 10) + b'"}'


def _largest(model: str) -> dict[str, Any]:
    """Every list of a chat as long as it may be, and as much inside as the structure may hold."""
    parameters = {f"p{place}": {"type": "string"} for place in range(2)}
    tool = {"type": "function", "function": {"name": "f", "description": "x" * 5000, "parameters": parameters}}
    message = {"role": "user", "content": [{"type": "text", "text": "x" * 1000}], "name": "x"}
    return {
        "model": model,
        "messages": [message] * limits.MESSAGES.most,
        "tools": [tool] * limits.TOOLS.most,
        "stop": ["x"] * limits.STOP.most,
        "logit_bias": {str(place): 1.5 for place in range(limits.LOGIT_BIAS.most)},
        "metadata": {str(place): "x" * 1000 for place in range(limits.METADATA.most)},
        "max_tokens": 1,
    }


def _unknown(model: str) -> dict[str, Any]:
    objects = [{f"n{place}": place * 1.5} for place in range(limits.CONTAINERS.most - 200)]
    return {
        "model": model,
        "messages": [{"role": "user", "content": "x"}],
        "unknown": objects,
        "numbers": [place * 1.1 for place in range(limits.VALUES.most - 2 * len(objects) - 1000)],
        "max_tokens": 1,
    }


def _tokens(model: str) -> dict[str, Any]:
    each = limits.VALUES.most // limits.INPUTS.most - 3
    return {"model": model, "input": [list(range(each))] * limits.INPUTS.most}


def _documents(model: str) -> dict[str, Any]:
    text = "x" * (SIZE // limits.DOCUMENTS.most - 20)
    return {"model": model, "query": "q", "documents": [{"text": text}] * limits.DOCUMENTS.most}


def _prompts(model: str) -> dict[str, Any]:
    text = "x" * (SIZE // limits.PROMPTS.most - 20)
    return {"model": model, "prompt": [text] * limits.PROMPTS.most, "max_tokens": 1}
