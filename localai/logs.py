"""How a log line looks: one line, `key=value` fields, secrets never."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CONTEXT: ContextVar[dict[str, object] | None] = ContextVar("log_fields", default=None)
#: `scheme://user:password@` and bearer tokens.
_SECRETS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=[Bb]earer )\S+")


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = dict(_CONTEXT.get() or {})
        fields.update(getattr(record, "fields", {}))
        text = super().format(record)
        if fields:
            text += " " + " ".join(f"{key}={_value(value)}" for key, value in fields.items())
        return _SECRETS.sub("***", text)


def _value(value: object) -> str:
    text = str(value)
    return f'"{text}"' if re.search(r"\s", text) else text


def configure(level: str, process: str) -> None:
    """Send log lines of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(f"%(asctime)s %(levelname)s {process} %(name)s: %(message)s"))
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
