"""Which command joins a machine to this cluster? Shown to people, so it holds no secret."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from localai.nodes.host_rules import is_loopback
from localai.settings import Settings, default_state_dir

#: The gRPC port of a second worker beside one with the usual ports.
_SECOND_PORT = 23051


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """How a worker is started."""

    command: str
    #: The servers listen on this machine only: no other machine can join.
    only_here: bool


def join(settings: Settings, server: str) -> Join:
    """The command for a machine that joins; ``server`` is the URL under which this frontend was asked."""
    if any(_is_here(url) for url in (settings.broker_url, settings.nats_url, server) if url):
        folder = settings.state_dir or default_state_dir()
        words = ["--state-dir", str(folder), "--node-name", "second"]
        words += ["--addr", f"127.0.0.1:{_SECOND_PORT}", "--data-path", str(folder / "worker-2")]
        return Join(command=_lines(words), only_here=True)
    words = ["--register-to", server, "--broker-url", without_secret(settings.broker_url)]
    if settings.nats_url:
        words += ["--nats-url", without_secret(settings.nats_url)]
    if settings.registration_token:
        words += ["--registration-token", "<token>"]
    return Join(command=_lines(words), only_here=False)


def without_secret(url: str) -> str:
    """A URL whose password or token is left to the reader, and its user: a worker has another than a frontend."""
    parts = urlsplit(url)
    who, at, host = parts.netloc.rpartition("@")
    if not at:
        return url
    user, colon, _ = who.partition(":")
    shown = f"{'<user>' if user else ''}:<password>" if colon else "<token>"
    return parts._replace(netloc=f"{shown}@{host}").geturl()


def _lines(words: Iterable[str]) -> str:
    """The command with one option a line."""
    given = iter(words)
    options = [f"{name} {_quoted(value)}" for name, value in zip(given, given, strict=True)]
    return " \\\n  ".join(["localai worker", *options])


def _quoted(value: str) -> str:
    return value if "<" in value else shlex.quote(value)


def _is_here(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
