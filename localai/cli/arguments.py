"""Secrets of the command line, removed from what `ps` and `/proc/<pid>/cmdline` show of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from localai.cli.options import SHORT_FLAGS
from localai.settings import Settings

#: Fields of /proc/<pid>/stat after the name of the program: addresses of the first and behind the last argument.
_ARG_START, _ARG_END = 48 - 3, 49 - 3


def secret_flags() -> frozenset[str]:
    """The flags whose value is a secret."""
    found = [(name, spec) for name, spec in Settings.specs() if spec.secret]
    return frozenset(
        flag for name, spec in found for flag in (SHORT_FLAGS.get(name), spec.flag, *spec.other_flags) if flag
    )


def hide_secrets() -> None:
    """Overwrite the values of secret flags in the argument area of this process.

    The values that the program uses are copies. Best effort: a system without /proc keeps showing them.
    """
    try:
        shown = Path("/proc/self/cmdline").read_bytes()
        spans = list(secret_spans(shown.split(b"\0"), secret_flags()))
        if not spans:
            return
        numbers = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        start, end = int(numbers[_ARG_START]), int(numbers[_ARG_END])
    except (OSError, ValueError, IndexError):
        return
    if not start or end - start < len(shown):
        return
    for offset, length in spans:
        ctypes.memset(start + offset, ord("*"), length)


def secret_spans(arguments: Sequence[bytes], flags: Collection[str]) -> Iterator[tuple[int, int]]:
    """Offset and length of each secret in the arguments, which lie one behind the other with a NUL between."""
    offset, follows = 0, False
    for argument in arguments:
        name, sign, value = argument.partition(b"=")
        if follows:
            yield offset, len(argument)
        elif sign and name.decode(errors="replace") in flags:
            yield offset + len(name) + 1, len(value)
        follows = not follows and argument.decode(errors="replace") in flags
        offset += len(argument) + 1
