"""POST /v1/completions: have a replica go on with a text as it is, whole or streamed; no template, no system prompt."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flask import Blueprint, Response, jsonify, request

from localai import logs
from localai.errors import CallCancelled, LocalAIError
from localai.ids import new_id
from localai.inference.convert import ChatRequest, Message, predict_options
from localai.inference.streams import AnswerReader, Totals, whole
from localai.models.config import ModelConfig
from protos import backend_pb2
from web.access import Access, open_to
from web.body import read_json_object, takes
from web.client_watch import ClientWatch, LentWatch, Watch
from web.cold_stream import wants_loading
from web.errors import stream_body
from web.fan_out import side_by_side
from web.openai.answers import DONE, Head, sse, usage_of
from web.openai.defaults import chat_defaults
from web.openai.models import usable_config, with_model
from web.openai.responses import cold_stream, named
from web.request_log import note, request_id
from web.schemas.completions import CompletionCall, read_completion
from web.services import services
from web.serving import Answer, AnswerStream, Tell
from web.sse import stream as stream_events
from web.usecases import Use

log = logs.get(__name__)

blueprint = Blueprint("openai_completions", __name__)

#: Prompts of one request that are answered at once; streamed ones are answered one after another.
WIDTH = 4

Options = backend_pb2.PredictOptions


@blueprint.post("/v1/completions")
@blueprint.post("/completions")
@blueprint.post("/v1/engines/<path:engine>/completions")
@open_to(Access.USER)
@takes(None)
def completions(engine: str = "") -> Response:
    call = read_completion(with_model(read_json_object(), engine))
    note(model=call.model)
    config = usable_config(call.model, Use.TEXT)
    wanted = completion_options(call, config, request_id())
    head = Head(id=new_id(), created=int(time.time()), model=call.model)
    answering = _Answering(head, wanted, timings="Extra-Usage" in request.headers, include_usage=call.include_usage)
    watch = ClientWatch.of(request.environ)
    if call.stream:
        return _streamed(answering, config, watch)
    serving = services().serving

    def ask(options: Options, watch: Watch) -> Answer:
        return serving.predict(config, options, watch)

    with watch:
        answers = side_by_side(wanted, ask, watch, width=WIDTH)
    return named(jsonify(_whole(answering, answers)), answers[0].node_id)


def completion_options(call: CompletionCall, config: ModelConfig, correlation_id: str) -> Sequence[Options]:
    """The options of one call for each prompt, without `ModelIdentity`: only the chosen replica knows it."""
    defaults = replace(chat_defaults(config), use_tokenizer_template=False, system_prompt="")
    requests = (
        ChatRequest(
            # Without a template, one message is the prompt as it is.
            messages=(Message(role="user", content=prompt),),
            sampling=call.sampling,
            stop=call.stop,
            grammar=call.grammar,
            logit_bias=call.logit_bias,
            correlation_id=correlation_id,
        )
        for prompt in call.prompts
    )
    return [predict_options(wanted, defaults) for wanted in requests]


@dataclass(frozen=True, slots=True)
class _Answering:
    """What an answer needs to know of its request."""

    head: Head
    wanted: Sequence[Options]
    timings: bool
    include_usage: bool

    def body(self, choices: Sequence[dict[str, Any]], totals: Iterable[Totals]) -> dict[str, Any]:
        usage = usage_of(_sum(totals), timings=self.timings)
        return {**self.head.of("text_completion"), "choices": list(choices), "usage": usage}


def _whole(answering: _Answering, answers: Sequence[Answer]) -> dict[str, Any]:
    choices, totals = [], []
    for index, (options, answer) in enumerate(zip(answering.wanted, answers, strict=True)):
        reader = AnswerReader()
        part = whole([reader.read(answer.reply), reader.rest()])
        choices.append(_choice(index, part.content, reader.finish_reason(answer.finish_reason, options.Tokens)))
        totals.append(reader.usage())
    return answering.body(choices, totals)


class _InTurn:
    """The streams of several prompts, each opened when the one before has ended; the first is open already."""

    def __init__(
        self, wanted: Sequence[Options], first: AnswerStream, open_stream: Callable[[Options], AnswerStream]
    ) -> None:
        self._wanted, self._now, self._open = wanted, first, open_stream
        self.node_id = first.node_id

    def __iter__(self) -> Iterator[tuple[Options, AnswerStream]]:
        yield self._wanted[0], self._now
        for options in self._wanted[1:]:
            self._now.close()
            self._now = self._open(options)
            yield options, self._now

    def close(self) -> None:
        """End the stream that is open."""
        self._now.close()


def _streamed(answering: _Answering, config: ModelConfig, watch: ClientWatch) -> Response:
    serving, shows_loading = services().serving, wants_loading(config)
    lent, wanted = LentWatch(watch), answering.wanted

    def in_turn(first: AnswerStream, watch: Watch) -> _InTurn:
        return _InTurn(wanted, first, lambda options: serving.stream(config, options, watch))

    first: AnswerStream | None
    try:
        if shows_loading:
            first = serving.warm_stream(config, wanted[0], lent)
        else:
            first = serving.stream(config, wanted[0], lent)
    except BaseException:
        watch.close()
        raise
    if first is None:

        def open_first(tell: Tell, watch: Watch) -> _InTurn:
            return in_turn(serving.told_stream(config, wanted[0], watch, tell), watch)

        return cold_stream(open_first, watch, partial(_events, answering))
    streams = in_turn(first, lent)

    def close() -> None:
        try:
            streams.close()
        finally:
            watch.close()

    return named(stream_events(_events(answering, streams), watch, close), streams.node_id)


def _events(answering: _Answering, streams: _InTurn) -> Generator[bytes]:
    """Every event carries the counters so far, over all prompts."""
    totals: list[Totals] = []
    try:
        for index, (options, stream) in enumerate(streams):
            reader = AnswerReader()
            totals.append(reader.totals)
            for reply in stream:
                if part := reader.read(reply):
                    yield sse(answering.body([_choice(index, part.content, None)], totals))
            reason = reader.finish_reason(stream.finish_reason(), options.Tokens)
            reader.usage()
            yield sse(answering.body([_choice(index, reader.rest().content, reason)], totals))
        yield (sse(answering.body([], totals)) if answering.include_usage else b"") + DONE
    except CallCancelled:
        raise  # the response cuts the stream
    except LocalAIError as error:
        log.warning("a streamed answer broke: %s", error.message)
        yield sse(stream_body(error)) + DONE


def _choice(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _sum(totals: Iterable[Totals]) -> Totals:
    found = Totals()
    for one in totals:
        found.prompt_tokens += one.prompt_tokens
        found.completion_tokens += one.completion_tokens
        found.timing_prompt_processing += one.timing_prompt_processing
        found.timing_token_generation += one.timing_token_generation
    return found
