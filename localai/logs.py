"""How a log line looks: one line, `key=value` fields, secrets never."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from localai.escapes import CONTROLS

_CONTEXT: ContextVar[dict[str, object] | None] = ContextVar("log_fields", default=None)
#: `scheme://user:password@` and bearer tokens.
_SECRETS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=[Bb]earer )\S+")
#: What would end a line, or drive the terminal of whoever reads it.
_CONTROL = re.compile(f"[{CONTROLS}]")
#: A value with one of these is quoted, or it would read as more than one field.
_ODD = re.compile(f'[\\s"{CONTROLS}]')
#: Longest texts in a line, in characters: a client chooses paths and names, and must not choose the size of a log.
FIELD_LIMIT, MESSAGE_LIMIT, TRACEBACK_LIMIT = 400, 2_000, 16_000


class _Formatter(logging.Formatter):
    """One line is written for each request, so what costs is done only where it is needed."""

    #: The last second that was written, and its text.
    _last = (0, "")
    #: Fields of every line.
    always: Mapping[str, object] = MappingProxyType({})

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        last = self._last
        if last[0] != (second := int(record.created)):
            last = self._last = (second, time.strftime(self.default_time_format, self.converter(second)))
        return f"{last[1]},{record.msecs:03.0f}"

    def format(self, record: logging.LogRecord) -> str:
        return _without_secrets(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Message and fields are one line, whoever wrote the texts in them; only a traceback has more."""
        record.message = _cut(record.message, MESSAGE_LIMIT)
        text = _one_line(super().formatMessage(record))
        fields = {**self.always, **(_CONTEXT.get() or {})}
        fields.update(getattr(record, "fields", {}))
        return " ".join((text, *(f"{key}={_value(value)}" for key, value in fields.items())))

    def formatException(self, ei: Any) -> str:
        """The middle is left out of a long one: its end names the error."""
        text = super().formatException(ei)
        if len(text) <= TRACEBACK_LIMIT:
            return text
        text, half = _without_secrets(text), TRACEBACK_LIMIT // 2
        return f"{text[:half]}…(+{max(0, len(text) - 2 * half)})…{text[-half:]}"


def _cut(text: str, limit: int) -> str:
    """The beginning of a long text, and how many characters follow.

    Secrets are removed before the cut: no pattern would find half of one.
    """
    if len(text) <= limit:
        return text
    text = _without_secrets(text)
    return f"{text[:limit]}…(+{len(text) - limit})" if len(text) > limit else text


def _without_secrets(text: str) -> str:
    return _SECRETS.sub("***", text) if "://" in text or "earer " in text else text


def _value(value: object) -> str:
    text = _cut(str(value), FIELD_LIMIT)
    if not _ODD.search(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_one_line(escaped)}"'


def _one_line(text: str) -> str:
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def configure(level: str, process: str, instance_id: str = "") -> None:
    """Send log lines of this process to standard error. Each has ``instance_id`` where one is given."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Formatter(f"%(asctime)s %(levelname)s {process} %(name)s: %(message)s")
    formatter.always = {"instance_id": instance_id} if instance_id else {}
    handler.setFormatter(formatter)
    # What no line shows is not looked up: the caller's place and thread. gunicorn's own lines show the process.
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("httpx2", "httpcore2", "alembic", "nats", "dramatiq.worker", "waitress"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def get(name: str) -> logging.Logger:
    """The logger of a module."""
    return logging.getLogger(name)


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Add fields to every line logged inside the block."""
    token = _CONTEXT.set({**(_CONTEXT.get() or {}), **fields})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def fields(**values: object) -> dict[str, dict[str, object]]:
    """The `extra` argument that adds fields to one line: `log.info("taken", extra=fields(job_id=...))`."""
    return {"fields": values}
