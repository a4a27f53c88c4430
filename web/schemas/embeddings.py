"""What an embeddings request may hold: one text or many, as text or as the model's own tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import Schema, fields, validate

from localai.errors import BadInput
from web import limits
from web.schemas.fields import load, whole
from web.schemas.sampling import model_name
from web.turns import Turns

_TOKENS = range(2**31)
#: Tokens that are checked between two turns of other requests.
_TURN_TOKENS = 4096

#: One input: a text, or the tokens of one.
Input = str | Sequence[int]


class _Embeddings(Schema):
    model = model_name()
    input = fields.Raw(required=True)
    encoding_format = fields.String(validate=validate.OneOf(("float", "base64")), allow_none=True, load_default="float")
    dimensions = whole(1)


_SCHEMA = _Embeddings()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsCall:
    """One request for vectors, checked."""

    model: str
    inputs: Sequence[Input]
    base64: bool
    #: How many numbers a vector must have; None where the caller takes what the model has.
    dimensions: int | None


def read_embeddings(body: Mapping[str, Any]) -> EmbeddingsCall:
    """The request in a body. Raises BadInput that names the field, the value and what would be accepted."""
    data = load(_SCHEMA, body)
    return EmbeddingsCall(
        model=data["model"],
        inputs=_inputs(data["input"]),
        base64=data["encoding_format"] == "base64",
        dimensions=data["dimensions"],
    )


def _inputs(given: Any) -> Sequence[Input]:
    if isinstance(given, str) or _is_tokens(given):
        return (_input("input", given),)
    if not isinstance(given, list) or not given:
        raise BadInput("input", given, "a text, a list of texts, a list of tokens, or a list of such lists")
    most = limits.INPUTS.most  # as in the original API; each is a call of its own
    if len(given) > most:
        text = f"input: {len(given)} inputs are too many for one request; accepted: 1 to {most}"
        raise BadInput("input", len(given), f"1 to {most} inputs", text)
    return tuple(_input(f"input[{place}]", item) for place, item in enumerate(given))


def _is_tokens(given: Any) -> bool:
    """Whether a list means one input: its first item is a number."""
    return isinstance(given, list) and bool(given) and isinstance(given[0], int | float)


def _input(name: str, given: Any) -> Input:
    if isinstance(given, str) and given:
        return given
    if not _is_tokens(given):
        raise BadInput(name, given, "a text that is not empty, or a list of tokens that is not empty")
    turns = Turns()
    for place, token in enumerate(given):
        if not place % _TURN_TOKENS:
            turns.give()
        if isinstance(token, bool) or not isinstance(token, int) or token not in _TOKENS:
            raise BadInput(f"{name}[{place}]", token, "the number of a token, from 0")
    return tuple(given)
