"""What does the client of a stream read while the model loads: how far the load is, as comments, until the first token.

A thread opens the stream, and the request's own greenlet says what it hears of it. Lines that begin with a colon are
comments of server-sent events: clients of any dialect pass over them.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any, Generic, Protocol, TypeVar

from flask import request

from localai import logs
from localai.errors import BadInput, CallCancelled, LocalAIError, ModelLoading
from localai.loads.attempts import Status
from localai.models.config import ModelConfig
from web.account import CANCELLED, LOADING, current_account, outcome_of
from web.client_watch import Watch
from web.errors import row_of
from web.fan_out import SharedWatch
from web.serving import Tell
from web.sse import KEEP_ALIVE

log = logs.get(__name__)

HEADER = "X-LocalAI-Loading"
#: A comment comes at least this often.
SAY_S = 3.0
#: What is known by then (a held model, too many waiters) still has a status of its own; then the stream begins.
FIRST_WORD_S = 0.5


class Stream(Protocol):
    """An answer under way."""

    def close(self) -> None: ...


S = TypeVar("S", bound=Stream)


def wants_loading(config: ModelConfig) -> bool:
    """Whether the stream asked for shows the load of its model. Raises BadInput that names the header."""
    wanted = request.headers.get(HEADER)
    if wanted is None:
        return config.stream_loading
    match wanted.strip().lower():
        case "stream":
            return True
        case "off":
            return False
    raise BadInput(HEADER, wanted, "stream, or off")


def comment(loading: dict[str, Any]) -> bytes:
    """One line that says how far a load is. ASCII, because some clients take more than a line feed for a line's end."""
    return b": loading " + json.dumps(loading, separators=(",", ":")).encode() + b"\n\n"


class ColdStream(Generic[S]):
    """A stream whose model loads: `begin`, then `events` as the body of the response, then `close`, which it needs in
    any case. `open_stream` blocks until the first reply has come, and tells what it waits for."""

    def __init__(self, open_stream: Callable[[Tell, Watch], S], watch: Watch, *, say_s: float = SAY_S) -> None:
        self._open_stream, self._watch, self._say_s = open_stream, watch, say_s
        self._account = current_account()
        self._leavers, self._watching = SharedWatch(), ExitStack()
        #: Comments; then that the stream is open, or why it is not.
        self._news: queue.SimpleQueue[bytes | S | LocalAIError] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._opened: S | None = None
        self._closed = False
        self._first: bytes | S | None = None

    def begin(self) -> None:
        """Open the stream in the background. Raises what is known at once: it has a status of its own."""
        self._watching.enter_context(self._watch.during(self._leavers.leave))
        # A thread begins without the values of its maker: what the call counts belongs to the request's account.
        threading.Thread(target=copy_context().run, args=(self._open,), name="cold-stream", daemon=True).start()
        try:
            self._first = self._next(FIRST_WORD_S)
        except BaseException:
            self.close()
            raise
        self._account.early = True
        self._account.outcome = CANCELLED  # until the end was read

    def events(
        self, answer: Callable[[S], Iterable[bytes]], refuse: Callable[[LocalAIError], bytes]
    ) -> Generator[bytes]:
        """Comments until the first token, then the answer, or the error that ends the stream."""
        try:
            opened = yield from self._comments()
        except CallCancelled:
            raise  # the response cuts the stream
        except LocalAIError as error:
            log.warning("a stream ends without an answer: %s", error.message)
            self._account.outcome = LOADING if isinstance(error, ModelLoading) else outcome_of(row_of(error).status)
            yield refuse(error)
            return
        self._account.at_first_token()
        yield from answer(opened)

    def close(self) -> None:
        """End what is under way: the wait, the call, the watching."""
        with self._lock:
            self._closed = True
        self._leavers.leave()
        try:
            if self._opened is not None:
                self._opened.close()
        finally:
            self._watching.close()
            self._watch.close()

    def _comments(self) -> Generator[bytes, None, S]:
        said, news = KEEP_ALIVE, self._first
        while news is None or isinstance(news, bytes):
            said = news or said
            yield said
            news = self._next(self._say_s)
        return news

    def _next(self, limit_s: float) -> bytes | S | None:
        """The next news, None where there is none in time. Raises why the stream cannot be opened."""
        try:
            news = self._news.get(timeout=limit_s)
        except queue.Empty:
            return None
        if isinstance(news, LocalAIError):
            raise news
        return news

    # In the thread

    def _open(self) -> None:
        try:
            opened = self._open_stream(self._tell, self._leavers)
        except LocalAIError as error:
            self._news.put(error)
        except Exception:
            log.exception("a stream could not be opened")
            self._news.put(LocalAIError())
        except BaseException:  # the end of this greenlet
            self._news.put(CallCancelled())
            raise
        else:
            self._hand_over(opened)

    def _tell(self, status: Status | None) -> None:
        # The load is over: what is waited for then is the model.
        self._news.put(KEEP_ALIVE if status is None else comment(status.to_json()))

    def _hand_over(self, opened: S) -> None:
        with self._lock:
            if not self._closed:
                self._opened = opened
                self._news.put(opened)
                return
        opened.close()
