"""One answer under way: how chunks of the engine become replies of a call, and how a cancel reaches the engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import backend_pb2
import replies
from engine import Engine


class Generation:
    """The engine pushes chunks from a thread of its own, the call takes replies. ``gone``: the call has ended."""

    def __init__(self, engine: Engine, body: dict[str, Any], gone: threading.Event, done: Callable[[], None]) -> None:
        self.finish_reason = ""
        self._engine, self._body, self._gone, self._done = engine, body, gone, done
        self._replies: queue.SimpleQueue[backend_pb2.Reply | Exception | None] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[backend_pb2.Reply]:
        threading.Thread(target=self._run, name="generation").start()
        while (item := self._replies.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def _run(self) -> None:
        end: Exception | None = None
        try:
            if not self._gone.is_set():
                self._engine.generate(self._body, self._take)
        except Exception as error:  # noqa: BLE001  whatever it is, the call must end with it
            end = error
        finally:
            self._done()
            self._replies.put(end)

    def _take(self, chunk: dict[str, Any]) -> bool:
        self.finish_reason = replies.finish_reason(chunk) or self.finish_reason
        part = replies.reply(chunk)
        if part is not None:
            self._replies.put(part)
        return self._gone.is_set()
