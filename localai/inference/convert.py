"""How a chat request becomes the options of one call: the request's values win over the model's defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localai.inference import zeros
from protos import backend_pb2

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn. None is "not given"; zero is a value (see `zeros`)."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    #: Tokens to answer at most; 0 has no limit but the context.
    max_tokens: int | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    mirostat: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None
    ignore_eos: bool | None = None
    n_keep: int | None = None


#: What applies where neither the request nor the model's config says otherwise.
GENERAL = Sampling(
    temperature=0.9,
    top_p=0.95,
    top_k=0,
    min_p=0.0,
    typical_p=1.0,
    seed=-1,
    max_tokens=0,
    repeat_penalty=0.0,
    repeat_last_n=0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    mirostat=0,
    mirostat_eta=0.1,
    mirostat_tau=5.0,
    ignore_eos=False,
    n_keep=0,
)

_FIELDS = {
    "temperature": "Temperature",
    "top_p": "TopP",
    "top_k": "TopK",
    "min_p": "MinP",
    "typical_p": "TypicalP",
    "seed": "Seed",
    "max_tokens": "Tokens",
    "repeat_penalty": "Penalty",
    "repeat_last_n": "Repeat",
    "frequency_penalty": "FrequencyPenalty",
    "presence_penalty": "PresencePenalty",
    "mirostat": "Mirostat",
    "mirostat_eta": "MirostatETA",
    "mirostat_tau": "MirostatTAU",
    "ignore_eos": "IgnoreEOS",
    "n_keep": "NKeep",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation; `tool_calls` are those of the OpenAI API."""

    role: str
    content: str = ""
    name: str = ""
    tool_call_id: str = ""
    reasoning: str = ""
    tool_calls: Sequence[Json] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDefaults:
    """What a model's config says about every chat with it."""

    sampling: Sampling = GENERAL
    system_prompt: str = ""
    stopwords: Sequence[str] = ()
    #: Whether the process applies the template that came with the model; else it gets one joined prompt.
    use_tokenizer_template: bool = True
    #: Whether the backend carries llama.cpp.
    llama: bool = False
    grammar: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One chat request, checked, in the words of the backend protocol rather than of one API."""

    messages: Sequence[Message]
    sampling: Sampling = field(default_factory=Sampling)
    stop: Sequence[str] = ()
    tools: Sequence[Json] = ()
    #: `auto`, `required` or the object that names one function; None where the request says nothing.
    tool_choice: str | Json | None = None
    #: `json_object` or `json_schema` as the OpenAI API writes it.
    response_format: Json | None = None
    grammar: str = ""
    logprobs: bool = False
    top_logprobs: int = 0
    logit_bias: Json = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    correlation_id: str = ""


def merged(*layers: Sampling) -> dict[str, Any]:
    """Each value from the first layer that has one, None if no layer has it."""
    found: dict[str, Any] = {}
    for name in _FIELDS:
        found[name] = next((value for layer in layers if (value := getattr(layer, name)) is not None), None)
    return found


def predict_options(request: ChatRequest, defaults: ChatDefaults) -> backend_pb2.PredictOptions:
    """The options of a call, without `ModelIdentity`: only the chosen replica knows it."""
    given = merged(request.sampling, defaults.sampling)
    sampling = merged(request.sampling, defaults.sampling, GENERAL) | zeros.encoded(given, llama=defaults.llama)
    options = backend_pb2.PredictOptions(
        PromptCacheAll=True,
        StopPrompts=[*defaults.stopwords, *request.stop],
        Grammar=request.grammar or defaults.grammar,
        CorrelationId=request.correlation_id,
        **{_FIELDS[name]: value for name, value in sampling.items()},
    )
    messages = _with_system_prompt(request.messages, defaults.system_prompt)
    if defaults.use_tokenizer_template:
        options.UseTokenizerTemplate = True
        options.Messages.extend(_message(message) for message in messages)
    else:
        options.Prompt = "\n".join(message.content for message in messages)
    _add_tools(options, request)
    _add_logprobs(options, request)
    options.Metadata.update(defaults.metadata)
    options.Metadata.update(request.metadata)
    if request.response_format is not None:
        options.Metadata["response_format"] = _text(request.response_format)
    return options


def _with_system_prompt(messages: Sequence[Message], prompt: str) -> Sequence[Message]:
    if not prompt or any(message.role in ("system", "developer") for message in messages):
        return messages
    return (Message(role="system", content=prompt), *messages)


def _message(message: Message) -> backend_pb2.Message:
    return backend_pb2.Message(
        role=message.role,
        content=message.content,
        name=message.name,
        tool_call_id=message.tool_call_id,
        reasoning_content=message.reasoning,
        tool_calls=_text(message.tool_calls) if message.tool_calls else "",
    )


def _add_tools(options: backend_pb2.PredictOptions, request: ChatRequest) -> None:
    if not request.tools:
        return
    options.Tools = _text(request.tools)
    if request.tool_choice is not None:
        options.ToolChoice = _text(request.tool_choice)


def _add_logprobs(options: backend_pb2.PredictOptions, request: ChatRequest) -> None:
    if request.logprobs:
        options.Logprobs, options.TopLogprobs = 1, request.top_logprobs
    if request.logit_bias:
        options.LogitBias = _text(request.logit_bias)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
