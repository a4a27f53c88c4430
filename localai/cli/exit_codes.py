"""Which exit code says what became of a command? Scripts rely on them; `docs/reference/cli.md` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """What a finished command answers to the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_REACHABLE = 3
    NOT_FOUND = 4
    TIMED_OUT = 5
    NOT_ALLOWED = 6
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.DONE: "done; where a job was waited for, it succeeded",
    ExitCode.FAILED: "failed, with the reason on standard error; a job that was waited for failed or was cancelled",
    ExitCode.USAGE: "the command line or a setting cannot be used",
    ExitCode.NOT_REACHABLE: "the server, or the worker behind it, does not answer",
    ExitCode.NOT_FOUND: "nothing of that name or id",
    ExitCode.TIMED_OUT: "the wait is over and the job is not; the job goes on",
    ExitCode.NOT_ALLOWED: "no key, a wrong one, or one that may not do this",
    ExitCode.INTERRUPTED: "Ctrl-C; what was begun goes on",
}


def of_status(status: int) -> ExitCode:
    """The exit code for a refused request."""
    match status:
        case 400 | 413 | 422:
            return ExitCode.USAGE
        case 401 | 403:
            return ExitCode.NOT_ALLOWED
        case 404:
            return ExitCode.NOT_FOUND
        case 502 | 504:
            return ExitCode.NOT_REACHABLE
        case _:
            return ExitCode.FAILED
