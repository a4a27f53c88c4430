"""What a completion request may hold: a parameter is used, refused with a reason, or known to change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, pre_load

from localai.errors import BadInput
from localai.inference.convert import Sampling
from web import limits
from web.schemas.fields import Entries, Number, Switch, load
from web.schemas.sampling import SamplingFields, grammar, model_name, sampling_of, stop_of

#: Parameters that would change the answer and are not offered: the values that change nothing, and what to do instead.
_NOT_OFFERED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "echo": ((None, False), "put the prompt before the text"),
    "suffix": ((None, ""), "only what follows the prompt is written"),
    "best_of": ((None, 1), "a model answers once for each prompt"),
    "n": ((None, 1), "a model answers once for each prompt"),
    "logprobs": ((None,), "use /v1/chat/completions"),
    "response_format": ((None, {"type": "text"}), "use `grammar`, or /v1/chat/completions"),
    "backend": ((None, ""), "a model's config names its backend"),
}


class _StreamOptions(Schema):
    include_usage = Switch(load_default=False)


class _Completion(SamplingFields):
    model = model_name()
    prompt = fields.Raw(required=True)
    stream = Switch(allow_none=True, load_default=False)
    stream_options = fields.Nested(_StreamOptions, unknown=EXCLUDE, allow_none=True, load_default=None)
    grammar = grammar()
    logit_bias = Entries(Number(), limits.LOGIT_BIAS, allow_none=True, load_default=None)

    @pre_load
    def refuse_what_is_not_offered(self, body: Mapping[str, Any], **_: Any) -> Mapping[str, Any]:
        for name, (harmless, instead) in _NOT_OFFERED.items():
            # To Python 1, 1.0 and true are the same, and for this they are.
            if body.get(name) not in harmless:
                raise ValidationError(f"not offered: {instead}", name)
        return body


_SCHEMA = _Completion()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionCall:
    """One request to go on with a text, or with each of several, checked."""

    model: str
    prompts: Sequence[str]
    sampling: Sampling
    stop: Sequence[str]
    grammar: str
    logit_bias: Mapping[str, Any]
    stream: bool
    include_usage: bool


def read_completion(body: Mapping[str, Any]) -> CompletionCall:
    """The request in a body. Raises BadInput that names the field, the value and what would be accepted."""
    data = load(_SCHEMA, body)
    return CompletionCall(
        model=data["model"],
        prompts=_prompts(data["prompt"]),
        sampling=sampling_of(data, data["max_tokens"]),
        stop=stop_of(data),
        grammar=data["grammar"] or "",
        logit_bias=data["logit_bias"] or {},
        stream=bool(data["stream"]),
        include_usage=bool((data["stream_options"] or {}).get("include_usage")),
    )


def _prompts(given: Any) -> Sequence[str]:
    if isinstance(given, str):
        return (_prompt("prompt", given),)
    # Each is an answer of its own, and a caller waits for all of them.
    most = limits.PROMPTS.most
    if isinstance(given, list) and len(given) > most:
        raise BadInput("prompt", len(given), f"a text, or a list of 1 to {most} texts")
    if not isinstance(given, list) or not given:
        raise BadInput("prompt", given, f"a text, or a list of 1 to {most} texts")
    return tuple(_prompt(f"prompt[{place}]", item) for place, item in enumerate(given))


def _prompt(name: str, given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise BadInput(name, given, "a text that is not empty; tokens are not read")
    return given
