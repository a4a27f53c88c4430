"""`localai jobs`: what is being done, what was done, and why did it fail?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import connect
from localai.cli.follow import finish, follow, timeout_option
from localai.cli.options import with_settings
from localai.cli.output import cell, details, output_option, print_json, size, state_style, table
from localai.settings import Settings

_FIELDS = (
    "id",
    "kind",
    "subject",
    "slot",
    "state",
    "phase",
    "node_name",
    "owner",
    "generation",
    "attempts",
    "message",
    "error_cause",
    "error",
    "stop_state",
    "stop_deadline",
    "hold_until",
    "created_at",
    "started_at",
    "finished_at",
)


@click.group()
def command() -> None:
    """Show loads, installs and everything else that is done as a job."""


@command.command("list")
@click.option("--state", help="Only jobs in this state: queued, running, succeeded, failed, cancelled.")
@click.option("--kind", help="Only jobs of this kind, such as model.load.")
@click.option("--subject", help="Only jobs about this model, backend or node.")
@click.option("--node", help="Only jobs on the node with this id.")
@click.option("--limit", type=click.IntRange(1), help="At most so many, the newest first.")
@click.option("--before", metavar="NEXT", help="The next page: what the last one ended with.")
@output_option
@with_settings("client")
def list_jobs(settings: Settings, output: str, **filters: Any) -> None:
    """List jobs, the newest first."""
    answer = connect(settings).get("/api/jobs", **filters)
    if output == "json":
        print_json(answer)
        return
    click.echo(
        table(
            answer["jobs"],
            {
                "ID": lambda job: job.get("id"),
                "KIND": lambda job: job.get("kind"),
                "SUBJECT": lambda job: job.get("subject"),
                "STATE": lambda job: job.get("state"),
                "PHASE": lambda job: job.get("phase") if job.get("finished_at") is None else None,
                "PROGRESS": progress,
                "NODE": lambda job: job.get("node_name"),
                "CREATED": lambda job: job.get("created_at"),
                "ERROR": lambda job: job.get("error") or job.get("error_cause"),
            },
            {"STATE": state_style},
        )
    )
    if answer.get("next"):
        click.echo(f"\nThere are more: --before {answer['next']}")


@command.command("show")
@click.argument("job_id", metavar="ID")
@output_option
@with_settings("client")
def show_job(settings: Settings, job_id: str, output: str) -> None:
    """Show one job: its row, its events and its child jobs."""
    job = connect(settings).get(f"/api/jobs/{quote(job_id, safe='')}")
    if output == "json":
        print_json(job)
        return
    click.echo(details(job, _FIELDS))
    if progress(job) != "-":
        click.echo(f"progress  {progress(job)}")
    for child in job.get("children") or ():
        told = child.get("error") or child.get("phase")
        click.echo(f"child  {child.get('id')}  {child.get('kind')}  {child.get('state')}  {cell(told)}")
    click.echo("\nevents")
    for event in job.get("events") or ():
        click.echo("  " + _event(event))


@command.command("watch")
@click.argument("job_id", metavar="ID")
@timeout_option
@output_option
@with_settings("client")
def watch_job(settings: Settings, job_id: str, timeout: float | None, output: str) -> None:
    """Wait for the end of one job, and show how far it is.

    The exit code says how it ended. With -o json the ended job is printed as `jobs show` prints it.
    """
    finish(follow(connect(settings), job_id, timeout), output)


def progress(job: Mapping[str, Any]) -> str:
    """How far a job's bytes are, in words."""
    done, total = job.get("bytes_done"), job.get("bytes_total")
    if not isinstance(total, int) or total <= 0 or not isinstance(done, int):
        return "-"
    if job.get("state") == "succeeded":
        return size(total)
    return f"{min(100, done * 100 // total)} % of {size(total)}"


def _event(event: Mapping[str, Any]) -> str:
    words = [event.get("at"), event.get("event"), event.get("state"), event.get("phase")]
    words += [f"{name}={cell(event[name])}" for name in ("actor", "detail") if event.get(name)]
    return "  ".join(str(word) for word in words if word)
