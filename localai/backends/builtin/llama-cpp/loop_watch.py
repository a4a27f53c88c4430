"""The end of a process whose engine stands still in the sampler of one constrained answer.

A grammar decides how long the engine works for one token, in native code that nothing can interrupt, and in the one
loop that serves all requests of the process. Their clients would wait for minutes or hours. If the loop answers nothing
for a limit, this process ends: the agent reports it, its requests fail at once, and the next request loads the model.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: From one answer of the loop to the next question.
_INTERVAL_S = 1.0

#: What of a request makes a grammar.
_CONSTRAINTS = ("grammar", "response_format", "tools")


class Answer:
    """One answer under way, and whether the engine reads its prompt at the moment."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.constrained = any(name in body for name in _CONSTRAINTS)
        self.reads_prompt = False

    def saw(self, chunk: dict[str, Any]) -> None:
        """Note how far the engine is; the first chunk comes when the sampler is set up, before the prompt is read."""
        progress = chunk.get("prompt_progress")
        self.reads_prompt = progress is not None and progress["processed"] < progress["total"]


class _Asking:
    """What the two threads of one watch know."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        #: Since when the loop owes an answer; None while it does not.
        self.asked_at: float | None = None


class LoopWatch:
    """Asks the loop again and again while constrained answers are under way.

    A batch of a long prompt may take minutes on a slow machine, so the loop is not judged while any prompt is read.
    """

    def __init__(self, ask: Callable[[], object], give_up: Callable[[str], None], limit_s: float) -> None:
        self._ask, self._give_up, self._limit_s = ask, give_up, limit_s
        self._lock = threading.Lock()
        self._answers: set[Answer] = set()
        self._running = False

    @contextmanager
    def during(self, body: dict[str, Any]) -> Iterator[Answer]:
        """Watch the loop inside the block if the request constrains its answer."""
        answer = Answer(body)
        with self._lock:
            self._answers.add(answer)
            start = answer.constrained and not self._running
            self._running = self._running or start
        if start:
            threading.Thread(target=self._run, name="loop-watch", daemon=True).start()
        try:
            yield answer
        finally:
            with self._lock:
                self._answers.discard(answer)

    def _run(self) -> None:
        asking = _Asking()
        threading.Thread(target=self._ask_on, args=(asking,), name="loop-asker", daemon=True).start()
        since = time.monotonic()
        while not asking.ended.wait(_INTERVAL_S):
            now, asked_at = time.monotonic(), asking.asked_at
            with self._lock:
                judged = asked_at is not None and not any(answer.reads_prompt for answer in self._answers)
            if not judged or asked_at is None:
                since = now
            elif now - max(since, asked_at) > self._limit_s:
                self._give_up(
                    f"the grammar of a request has held the engine for {self._limit_s:g} s; this process ends, because "
                    "it serves nothing else meanwhile"
                )

    def _ask_on(self, asking: _Asking) -> None:
        """Ask the loop until no constrained answer is under way."""
        try:
            while self._goes_on():
                asking.asked_at = time.monotonic()
                self._ask()
                asking.asked_at = None
                time.sleep(_INTERVAL_S)
        finally:
            asking.ended.set()

    def _goes_on(self) -> bool:
        with self._lock:
            self._running = any(answer.constrained for answer in self._answers)
            return self._running
