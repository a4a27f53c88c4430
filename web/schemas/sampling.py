"""The fields that every request for text shares: which model, how tokens are drawn, where the answer ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from localai.errors import BadInput
from localai.inference import bounds
from localai.inference.convert import Sampling
from web import limits
from web.schemas.fields import Switch, number, whole


def model_name() -> fields.String:
    """The name of a model, which every request must carry."""
    return fields.String(required=True, validate=validate.Length(1, 512))


class SamplingFields(Schema):
    """How tokens are drawn and where the answer ends."""

    stop = fields.Raw(allow_none=True, load_default=None)

    temperature = number(0, 2)
    top_p = number(0, 1)
    top_k = whole(0)
    min_p = number(0, 1)
    typical_p = number(0, 1)
    seed = whole()
    max_tokens = whole(0)
    repeat_penalty = number(0, 100)
    repeat_last_n = whole(-1, bounds.LAST_TOKENS)
    frequency_penalty = number(-2, 2)
    presence_penalty = number(-2, 2)
    mirostat = whole(0, 2)
    mirostat_eta = number(0, 100)
    mirostat_tau = number(0, 100)
    ignore_eos = Switch(allow_none=True, load_default=None)
    n_keep = whole(-1, bounds.LAST_TOKENS)


def grammar() -> fields.String:
    """A grammar that an engine can take in, and sample with, beside its other requests."""

    def check(text: str) -> None:
        try:
            bounds.check_grammar(text)
        except bounds.OutOfBounds as error:
            raise ValidationError(str(error)) from None

    return fields.String(validate=check, allow_none=True, load_default=None)


def check_schema(name: str, schema: Any) -> None:
    """Raises BadInput if a JSON schema is more than an engine can take in beside its other requests."""
    try:
        bounds.check_schema(schema)
    except bounds.OutOfBounds as error:
        text = f"{name}: this JSON schema cannot be used: {error}"
        raise BadInput(name, schema, str(error), text) from None


def sampling_of(data: Mapping[str, Any], max_tokens: int | None) -> Sampling:
    """The values of a loaded body; the token limit has a name of its own in each dialect."""
    names = Sampling.__dataclass_fields__.keys() - {"max_tokens"}
    return Sampling(max_tokens=max_tokens, **{name: data[name] for name in names})


def stop_of(data: Mapping[str, Any]) -> Sequence[str]:
    """The texts at which an answer ends. Raises BadInput."""
    stop = data["stop"]
    if stop is None:
        return ()
    texts = [stop] if isinstance(stop, str) else stop
    if isinstance(texts, list) and len(texts) > limits.STOP.most:
        raise BadInput("stop", len(texts), f"at most {limits.STOP.most} texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise BadInput("stop", stop, "a text, or a list of texts")
    return tuple(texts)
