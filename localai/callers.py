"""Who asked for what this thread or greenlet does: set by the web process for each request, written into job events."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass

#: So many hex digits of a SHA-256 tell the keys of one server apart, and are no key.
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request and the key that it showed."""

    #: The address; behind a trusted proxy the one that the proxy names.
    client: str
    #: The first digits of the key's SHA-256: `printf %s "$KEY" | sha256sum | cut -c1-8`.
    key: str

    def to_json(self) -> dict[str, str]:
        """Fields of an event."""
        return {"client": self.client, "key": self.key}


_caller: ContextVar[Caller | None] = ContextVar("localai_caller", default=None)


def begin(caller: Caller | None) -> None:
    """A request begins, or the key of one is known now."""
    _caller.set(caller)


def current() -> Caller | None:
    """The caller, where a request with an admin key is under way."""
    return _caller.get()


def key_name(key: str) -> str:
    """The short digest under which a key stands in logs and events."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
