"""How is a job followed to its end, and what does the end say?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, ServerError
from localai.cli.exit_codes import ExitCode
from localai.cli.job_progress import describe, key_of
from localai.cli.line import Line, on_terminal
from localai.cli.output import echo, print_json
from localai.settings import parse_duration

#: How often the job is looked at. One answer holds the row and its children, so nothing is lost between two looks.
_INTERVAL_S = 0.5
#: A server that is started again is back within this.
_AWAY_S = 60.0

timeout_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--timeout",
    metavar="DURATION",
    callback=lambda _context, _parameter, text: _duration(text),
    help="Wait no longer than this, such as 90s or 10m. The job goes on. [default: no limit]",
)


def follow(
    client: Client,
    job_id: str,
    timeout_s: float | None,
    *,
    over: Callable[[Mapping[str, Any]], bool] = lambda job: bool(job.get("finished_at")),
    pause: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Mapping[str, Any]:
    """The job when it is ``over``, which is when it has ended; meanwhile one line on standard error says how far it is.

    A server that is away for a moment is asked again. Raises ServerError, also when the time is over.
    """
    line = Line(sys.stderr, changing=on_terminal())
    began = answered = clock()
    job: Mapping[str, Any] = {}
    try:
        while True:
            try:
                job = client.get(f"/api/jobs/{quote(job_id, safe='')}")
                answered = clock()
            except ServerError as error:
                if not error.passing or clock() - answered > _AWAY_S:
                    raise
                line.show("away", "the server does not answer; asking again")
            else:
                if over(job):
                    return job
                line.show(key_of(job), describe(job, bar=line.changing))
            left = None if timeout_s is None else began + timeout_s - clock()
            if left is not None and left <= 0:
                raise ServerError(_not_done(job, job_id), code=ExitCode.TIMED_OUT)
            (pause or time.sleep)(_INTERVAL_S if left is None else min(_INTERVAL_S, left))
    finally:
        line.close()


def finish(job: Mapping[str, Any], output: str, done: str | None = None) -> None:
    """Print the end of a job, in the words of ``done`` where it succeeded. Raises ServerError with its cause else."""
    if output == "json":
        print_json(job)
    if job.get("state") != "succeeded":
        raise ServerError(f"{_named(job)} {_bad_end(job)}; `localai jobs show {job.get('id')}` tells more")
    if output != "json":
        where = f" on {job['node_name']}" if job.get("node_name") not in (None, "", job.get("subject")) else ""
        echo(done or f"{_named(job)} succeeded{where}{_took(job)}")


def _duration(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} cannot be used; accepted: {error}", param_hint="--timeout") from None


def _named(job: Mapping[str, Any]) -> str:
    return f"{job.get('kind')} {job.get('subject')}"


def _bad_end(job: Mapping[str, Any]) -> str:
    if job.get("state") == "cancelled":
        return "was cancelled"
    return f"{job.get('state')}: {job.get('error') or job.get('error_cause')}"


def _took(job: Mapping[str, Any]) -> str:
    try:
        began, ended = (datetime.fromisoformat(str(job[name])) for name in ("created_at", "finished_at"))
    except (KeyError, ValueError):
        return ""
    return f" in {(ended - began).total_seconds():.1f} s"


def _not_done(job: Mapping[str, Any], job_id: str) -> str:
    how_far = f": {describe(job, bar=False)}" if job else ""
    return f"the time is over and the job goes on{how_far}; `localai jobs watch {job_id}` waits on"
