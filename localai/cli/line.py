"""How does one line on a terminal change while somebody waits, and what is written where there is no terminal?"""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TextIO

from localai.escapes import escaped


def on_terminal() -> bool:
    """Whether a person watches: a result that goes into a file or a pipe has no changing line beside it."""
    return sys.stdout.isatty() and sys.stderr.isatty()


class Line:
    """One line that is written over on a terminal; elsewhere one line for each new ``key``. For several threads."""

    def __init__(self, stream: TextIO, *, changing: bool) -> None:
        self._stream, self._changing = stream, changing
        self._lock = threading.Lock()
        self._key = ""
        self._width = 0
        self._closed = False

    @property
    def changing(self) -> bool:
        return self._changing

    def show(self, key: str, text: str) -> None:
        """Replace what the line says; nothing after `close`."""
        text = escaped(text, lines=False)
        with self._lock:
            if self._closed:
                return
            if self._changing:
                # A line that wraps could not be written over.
                text = text[: max(20, shutil.get_terminal_size().columns - 1)]
                self._stream.write("\r" + text.ljust(self._width))
                self._width = len(text)
            elif key != self._key:
                self._stream.write(text + "\n")
            self._key = key
            self._stream.flush()

    def close(self) -> None:
        """Take the line away, so that other text can stand there."""
        with self._lock:
            self._closed = True
            if self._width:
                self._stream.write("\r" + " " * self._width + "\r")
                self._stream.flush()
