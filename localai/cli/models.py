"""`localai models`: which models are there, and how is one loaded or unloaded by hand?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, body_of, connect
from localai.cli.follow import finish, follow, timeout_option
from localai.cli.nodes import find, nodes_of
from localai.cli.options import with_settings
from localai.cli.output import echo, echo_coloured, output_option, print_json, state_style, table
from localai.cli.retry import hold_s_of
from localai.settings import Settings

_wait_option = click.option("--wait", is_flag=True, help="Wait for the end of the job, and show how far it is.")


@click.group()
def command() -> None:
    """Show models, load one before anybody asks it something, or unload it everywhere."""


@command.command("list")
@output_option
@with_settings("client")
def list_models(settings: Settings, output: str) -> None:
    """List the models of the server with their state."""
    answer = connect(settings).get("/api/models")
    if output == "json":
        print_json(answer)
        return
    columns = {
        "NAME": lambda model: model.get("name"),
        "STATE": _state,
        "BACKEND": lambda model: model.get("backend"),
        "NODES": _nodes,
        "DESCRIPTION": lambda model: model.get("description"),
    }
    echo_coloured(table(answer["models"], columns, {"STATE": state_style}))
    for problem in answer.get("problems") or ():
        echo(f"{problem.get('file')}: {problem.get('error')}", err=True)


@command.command()
@click.argument("model")
@_wait_option
@timeout_option
@output_option
@with_settings("client")
def load(settings: Settings, model: str, wait: bool, timeout: float | None, output: str) -> None:
    """Load MODEL, as its first request would.

    Without --wait the command ends at once and names the job.
    """
    client = connect(settings)
    response = client.send("POST", "/backend/load", json={"model": model})
    if (hold_s := hold_s_of(response)) is not None:
        echo(f"the failed load holds the model for {hold_s} s more; `localai jobs retry {model}` waits", err=True)
    answer = body_of(response)
    loading = None if answer.get("loaded") else answer.get("job_id")
    _end(client, answer, loading if wait else None, timeout, output)


@command.command()
@click.argument("model")
@click.option("--node", metavar="NAME|ID", help="Unload it on this node only.")
@click.option("--force", is_flag=True, help="Do not wait for running requests: they are cut, with an error.")
@_wait_option
@timeout_option
@output_option
@with_settings("client")
def unload(
    settings: Settings, model: str, *, node: str | None, force: bool, wait: bool, timeout: float | None, output: str
) -> None:
    """Unload MODEL on every node, and cancel a load of it.

    Running requests may finish within LOCALAI_UNLOAD_TIMEOUT (5 minutes) of the server; then they are cut. With --force
    they are cut at once, also if an unload waits for them already. The next request loads the model again. A model that
    is not loaded is no error.
    """
    client = connect(settings)
    forced = {"force": True} if force else {}
    if node is None:
        answer = client.post("/backend/shutdown", {"model": model, **forced})
    else:
        at = quote(str(find(nodes_of(client), node)["id"]), safe="")
        answer = client.post(f"/api/nodes/{at}/models/unload", {"model_name": model, **forced})
    _end(client, answer, answer.get("job_id") if wait else None, timeout, output)


def _end(client: Client, answer: Mapping[str, Any], job_id: str | None, timeout: float | None, output: str) -> None:
    """Follow the job where there is one to wait for, else print the answer."""
    if job_id is not None:
        finish(follow(client, job_id, timeout), output)
    elif output == "json":
        print_json(answer)
    else:
        echo(str(answer.get("message")))
        if answer.get("job_id") and not answer.get("loaded"):
            echo(f"job {answer['job_id']}")


def _state(model: Mapping[str, Any]) -> str:
    """The word that the page of the models uses."""
    if model.get("disabled"):
        return "disabled"
    if model.get("state") == "failed":
        if model.get("quarantined"):
            return "quarantined"
        if (model.get("loading") or {}).get("cancel_requested"):
            return "cancelled"
    return str(model.get("state"))


def _nodes(model: Mapping[str, Any]) -> str:
    replicas = model.get("replicas") or ()
    if replicas:
        return ", ".join(str(replica.get("node")) for replica in replicas)
    return str((model.get("loading") or {}).get("node") or "")
