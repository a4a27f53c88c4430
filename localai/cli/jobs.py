"""`localai jobs`: what is being done, what was done, and why did it fail?"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent
from typing import Any
from urllib.parse import quote

import click

from localai.cli import retry
from localai.cli.client import connect
from localai.cli.follow import finish, follow, timeout_option
from localai.cli.options import with_settings
from localai.cli.output import (
    details,
    echo,
    echo_coloured,
    facts,
    moment,
    output_option,
    print_json,
    short,
    size,
    state_style,
    table,
)
from localai.jobs.kinds import MODEL_LOAD, MODEL_UNLOAD
from localai.settings import Settings

_FIELDS = (
    "id",
    "kind",
    "about",
    "slot",
    "state",
    "phase",
    "node_name",
    "owner",
    "generation",
    "attempts",
    "adoptions",
    "progress",
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
_TIMES = ("stop_deadline", "hold_until", "created_at", "started_at", "finished_at")


@click.group()
def command() -> None:
    """Show loads, installs and everything else that is done as a job, and end one."""


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
    echo_coloured(
        table(
            answer["jobs"],
            {
                "ID": lambda job: job.get("id"),
                "KIND": lambda job: job.get("kind"),
                "SUBJECT": lambda job: job.get("about") or job.get("subject"),
                "STATE": lambda job: job.get("state"),
                "PHASE": _phase,
                "PROGRESS": progress,
                "NODE": lambda job: job.get("node_name"),
                "CREATED": lambda job: moment(job.get("created_at")),
                "ERROR": lambda job: job.get("error") or job.get("error_cause"),
            },
            {"STATE": state_style},
        )
    )
    if answer.get("next"):
        echo(f"\nThere are more: --before {answer['next']}")


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
    echo_coloured(details(_described(job), _FIELDS))
    if tail := (job.get("error_detail") or {}).get("stderr_tail"):
        echo("\nthe last words of the process\n" + indent(str(tail).rstrip(), "  "))
    if job.get("children"):
        echo_coloured("\nchildren\n" + indent(table(job["children"], _CHILD_COLUMNS, {"STATE": state_style}), "  "))
    echo_coloured("\nevents\n" + indent(table(_events(job), _EVENT_COLUMNS, whole={"FACTS"}), "  "))


@command.command("cancel")
@click.argument("job_id", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait until its worker has confirmed that nothing of it runs.")
@timeout_option
@output_option
@with_settings("client")
def cancel_job(settings: Settings, job_id: str, wait: bool, timeout: float | None, output: str) -> None:
    """Cancel a load, a fetch or an unload.

    The node of a load stops exactly what was started for it. Until its worker has confirmed that, or the hold is over,
    no other load of the model begins. A repeat sends the stop again, and never makes the hold longer.

    A cancelled unload cuts no request: its replicas get no new requests and stop when the running ones have ended.
    Drains and stops of processes go on until they are done: `localai nodes resume` ends a drain.
    """
    client = connect(settings)
    answer = client.post(f"/api/jobs/{quote(job_id, safe='')}/cancel")
    if wait and answer.get("state") == "stopping":
        follow(client, job_id, timeout, over=lambda job: job.get("stop_state") != "pending")
        answer = client.post(f"/api/jobs/{quote(job_id, safe='')}/cancel")
    if output == "json":
        print_json(answer)
        return
    name = f"{answer.get('kind')} {answer.get('subject')}"
    match answer.get("state"):
        case "stopped" if answer.get("kind") == MODEL_UNLOAD:
            echo(f"{name} is cancelled; replicas that it marked stop when their running requests have ended")
        case "stopped":
            echo(f"{name} is stopped")
        case "gone":
            echo(f"{name} has been cancelled; its worker is of a version that confirms no stop")
        case _:
            most = f"at the latest in {answer.get('retry_after')} s if its worker does not answer"
            echo(f"{name} is being stopped; usually within seconds, {most}")


@command.command("force")
@click.argument("job_id", metavar="ID")
@output_option
@with_settings("client")
def force_job(settings: Settings, job_id: str, output: str) -> None:
    """Do not wait for the running requests of an unload or a drain: cut them.

    Their clients get the error model_unloaded, and the processes are stopped.
    """
    answer = connect(settings).post(f"/api/jobs/{quote(job_id, safe='')}/force")
    if output == "json":
        print_json(answer)
    else:
        echo(f"{answer.get('kind')} {answer.get('subject')}: {answer.get('message')}")


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


command.add_command(retry.command)


def progress(job: Mapping[str, Any]) -> str:
    """How far a job's bytes are, in words."""
    done, total = job.get("bytes_done"), job.get("bytes_total")
    if not isinstance(total, int) or total <= 0 or not isinstance(done, int):
        return "-"
    if job.get("state") == "succeeded":
        return size(total)
    return f"{min(100, done * 100 // total)} % of {size(total)}"


def _described(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job with what people read: times of this zone, how far its bytes are."""
    far = progress(job)
    times = {name: moment(job[name]) for name in _TIMES if job.get(name)}
    about = job.get("about") or job.get("subject")
    return {**job, **times, "about": about, "phase": _phase(job), "progress": "" if far == "-" else far}


_CHILD_COLUMNS = {
    "ID": lambda job: job.get("id"),
    "KIND": lambda job: job.get("kind"),
    "SUBJECT": lambda job: job.get("about") or job.get("subject"),
    "STATE": lambda job: job.get("state"),
    "ERROR": lambda job: job.get("error") or job.get("error_cause"),
}
_EVENT_COLUMNS = {
    "AT": lambda event: moment(event.get("at"), exact=True),
    "MOVE": lambda event: str(event.get("event")).replace("_", " "),
    "STATE": lambda event: ", ".join(str(event[name]) for name in ("state", "phase") if event.get(name)),
    "BY": lambda event: short(event.get("actor")),
    "FACTS": lambda event: facts(_told(event.get("detail"))),
}


def _told(detail: Any) -> Any:
    """Without what is shown elsewhere, the last words of a process, and without the name of a rule of the code."""
    if not isinstance(detail, Mapping):
        return detail
    return {name: value for name, value in detail.items() if name not in ("stderr_tail", "by")}


def _phase(job: Mapping[str, Any]) -> Any:
    """Only a load has phases, and only until it ends."""
    return job.get("phase") if job.get("kind") == MODEL_LOAD and job.get("finished_at") is None else None


def _events(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Its moves; a phase says nothing of a job that has none."""
    events = job.get("events") or ()
    return [event if job.get("kind") == MODEL_LOAD else {**event, "phase": None} for event in events]
