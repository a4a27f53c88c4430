"""One loaded model of llama.cpp, and what can be asked of it."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Callable
from typing import Any

import backend_pb2
import parameters
import serving
import xllamacpp
from loop_watch import LoopWatch

OnChunk = Callable[[dict[str, Any]], bool]
TOKENIZE_LIMIT_S = 60


class LoadFailed(Exception):
    """The model cannot be loaded; the reason is among the last lines of standard error."""


class Refused(Exception):
    """The engine answered with an error: an HTTP-like code and a text."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class Engine:
    """A loaded model. Calls may run side by side; the model is freed when the last one has ended."""

    def __init__(self, options: backend_pb2.ModelOptions) -> None:
        """Load. Raises LoadFailed or parameters.BadOption."""
        self._embeds = options.Embeddings
        self._watch = LoopWatch(self._ask_loop, serving.give_up, parameters.sampler_limit_s(options))
        self._start(parameters.parameters(options))
        if options.Embeddings and not self._pools():
            # A text model's file names no pooling; averaging is what one vector for a text means there.
            self._server = None
            self._start(parameters.parameters(options, pooling="mean"))

    def _start(self, params: xllamacpp.CommonParams) -> None:
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise LoadFailed(f"llama.cpp could not load {params.model.path}: {error}") from None
        self._key = params.api_keys[0]
        # Its loop answers this. An engine that is dropped before its loop runs waits for the end of it for ever.
        self._server.handle_metrics()

    def _ask_loop(self) -> None:
        self._server.handle_metrics()

    def _pools(self) -> bool:
        try:
            self.embed("a")
        except Refused:
            return False
        return True

    def generate(self, body: dict[str, Any], on_chunk: OnChunk) -> None:
        """Run one streamed request; ``on_chunk`` returns True to stop it at once. Raises Refused."""
        refused: list[Refused] = []

        def received(chunk: dict[str, Any]) -> bool:
            answer.saw(chunk)
            if "error" in chunk:
                refused.append(_refused(chunk))
                return True
            return on_chunk(chunk)

        watch = self._watch.during(body)
        handle = self._server.handle_chat_completions if "messages" in body else self._server.handle_completions
        try:
            with watch as answer:
                handle(body, received)
        except (RuntimeError, ValueError) as error:  # what the engine raises for a body it cannot read
            raise Refused(400, str(error)) from None
        if refused:
            raise refused[0]

    def embed(self, text: str | list[int]) -> tuple[list[float], int]:
        """The vector of a text or of token ids, and how many tokens that were. Raises Refused."""
        if not self._embeds:
            raise Refused(501, "the config of this model does not say `embeddings: true`")
        answer = self._server.handle_embeddings({"input": text})
        if "error" in answer:
            raise _refused(answer)
        return answer["data"][0]["embedding"], answer["usage"]["prompt_tokens"]

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text, the model's own first token included."""
        address = urllib.parse.urlsplit(self._server.listening_address).netloc
        connection = http.client.HTTPConnection(address, timeout=TOKENIZE_LIMIT_S)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request("POST", "/tokenize", json.dumps({"content": text, "add_special": True}), headers)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            raise _refused(answer)
        return list(answer["tokens"])


def _refused(answer: dict[str, Any]) -> Refused:
    error = answer["error"]
    return Refused(int(error.get("code", 500)), str(error.get("message", error)))
