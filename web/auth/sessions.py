"""What does a browser show instead of the key? A signed value that ends with its time, or with the key it came from.

A session has no row: every frontend with the same key believes the same value. The secret of a value is made from the
key, so a changed key ends all sessions of the old one, on every frontend. A session that a person ends gets a row that
every frontend reads (docs/decisions/0020-ended-sessions.md).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Protocol

from flask import Flask, current_app
from itsdangerous import BadSignature, TimestampSigner

from web.identity import Keys

COOKIE = "session"
CSRF_HEADER = "X-CSRF-Token"
#: A working day: whoever signs in in the morning is not asked again before the evening.
SESSION_S = 12 * 3600
#: Clocks of two frontends differ by less: a session that one of them began is not refused by a slower one.
AHEAD_S = 300
#: Longer than any value of ours; a cookie of another program is not hashed to its end.
_LONGEST = 200
_NAME = "localai.sessions"


class Ended(Protocol):
    """Knows the sessions that a person ended."""

    def end(self, value: str) -> None: ...
    def is_ended(self, value: str) -> bool: ...


class Sessions:
    """Begins sessions and recognises them."""

    def __init__(self, keys: Keys, ended: Ended, *, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._ended, self._clock = keys, ended, clock

    def begin(self, key: str) -> str | None:
        """The value of a new session; None where the key is not accepted."""
        secret = self._keys.secret_of(key)
        return None if secret is None else self._signer(secret).sign(secrets.token_urlsafe(12)).decode()

    def key_name(self, value: str | None) -> str:
        """The short digest of the key that a session came from; empty for no session."""
        secret = self._secret(value)
        return "" if secret is None else self._keys.name_of(secret)

    def end(self, value: str) -> None:
        """No frontend accepts this session any more, nor a copy of its value. Raises StorageUnavailable."""
        if self._secret(value) is not None:
            self._ended.end(value)

    def accept(self, value: str | None) -> bool:
        """Whether this is a session that has neither ended nor lost its key."""
        return self._secret(value) is not None

    def csrf_token(self, value: str | None) -> str:
        """What a write of this session must show in a header; empty for no session."""
        secret = self._secret(value)
        if value is None or secret is None:
            return ""
        return hmac.new(secret, b"csrf\0" + value.encode(), hashlib.sha256).hexdigest()

    def may_write(self, value: str, shown: str) -> bool:
        """Whether a header holds the token of this session."""
        wanted = self.csrf_token(value)
        return bool(wanted) and hmac.compare_digest(wanted.encode(), shown.encode("utf-8", "replace"))

    def _secret(self, value: str | None) -> bytes | None:
        if not value or len(value) > _LONGEST or not value.isascii():
            return None
        found = None
        for secret in self._keys.secrets():
            try:
                _, begun = self._signer(secret).unsign(value, return_timestamp=True)
            except BadSignature:
                continue
            if -AHEAD_S <= self._clock() - begun.timestamp() < SESSION_S + 1:
                found = secret
        return None if found is None or self._ended.is_ended(value) else found

    def _signer(self, secret: bytes) -> TimestampSigner:
        return _Signer(secret, self._clock)


class _Signer(TimestampSigner):
    """The signer with a clock that a test can move."""

    def __init__(self, secret: bytes, clock: Callable[[], float]) -> None:
        super().__init__(secret, salt=b"localai.session", key_derivation="hmac", digest_method=hashlib.sha256)
        self._clock = clock

    def get_timestamp(self) -> int:
        return int(self._clock())


def install(app: Flask, sessions: Sessions) -> None:
    """Make these the sessions of an app."""
    app.extensions[_NAME] = sessions


def sessions() -> Sessions:
    """The sessions of the request under way."""
    found = current_app.extensions[_NAME]
    assert isinstance(found, Sessions)
    return found
