"""`localai nodes`: which machines run models, who lets one in, and how is one taken out of use?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, ServerError, connect
from localai.cli.exit_codes import ExitCode
from localai.cli.follow import finish, follow, timeout_option
from localai.cli.options import with_settings
from localai.cli.output import details, echo, echo_coloured, moment, output_option, print_json, size, state_style, table
from localai.settings import Settings, parse_duration

_wait_option = click.option("--wait", is_flag=True, help="Wait for the end of the job, and show what is left.")


@click.group()
def command() -> None:
    """Show the machines that run models; invite, approve, drain, resume and remove them."""


@command.command("list")
@output_option
@with_settings("client")
def list_nodes(settings: Settings, output: str) -> None:
    """List the nodes with their state and what they have left."""
    nodes = nodes_of(connect(settings))
    if output == "json":
        print_json(nodes)
        return
    echo_coloured(
        table(
            nodes,
            {
                "NAME": lambda node: node.get("name"),
                "STATUS": _status,
                "MODELS": lambda node: node.get("model_count"),
                "FREE RAM": lambda node: size(node.get("available_ram")),
                "FREE VRAM": lambda node: size(node.get("available_vram")),
                "FREE DISK": lambda node: size(node.get("available_disk")),
                "ADDRESS": lambda node: node.get("address"),
                "ID": lambda node: node.get("id"),
            },
            {"STATUS": state_style},
        )
    )


@command.command()
@click.argument("node", metavar="NAME|ID")
@output_option
@with_settings("client")
def show(settings: Settings, node: str, output: str) -> None:
    """Show one node: what it is, what it has left, and its replicas."""
    client = connect(settings)
    found = find(nodes_of(client), node)
    replicas = client.get(f"/api/nodes/{quote(str(found['id']), safe='')}/models")
    if output == "json":
        print_json({**found, "models": replicas})
        return
    echo_coloured(details(_described(found), list(_described(found))))
    for line in _warnings(found):
        echo(line)
    echo()
    echo_coloured(table(replicas, _REPLICA_COLUMNS, {"STATE": state_style}) if replicas else "no replicas")
    if since := found.get("silent_since"):
        echo(f"takes no orders since {moment(since)}; check LOCALAI_BROKER_URL of its worker")
    for kept in found.get("quarantined") or ():
        failed = f"its last {kept.get('failures')} loads failed with {kept.get('cause')}"
        echo(f"in quarantine: {kept.get('model')}, {failed}; `localai jobs retry {kept.get('model')}` lifts it")


@command.command()
@click.argument("node", metavar="NAME|ID")
@output_option
@with_settings("client")
def approve(settings: Settings, node: str, output: str) -> None:
    """Let a node that registered get work."""
    client = connect(settings)
    found = find(nodes_of(client), node)
    answer = client.post(f"/api/nodes/{quote(str(found['id']), safe='')}/approve")
    if output == "json":
        print_json(answer)
    else:
        echo(f"Node {found.get('name')} is approved.")


@command.command()
@click.argument("name", metavar="NAME")
@click.option("--expires", metavar="DURATION", default="1h", show_default=True, help="Time in which the worker joins.")
@output_option
@with_settings("client")
def invite(settings: Settings, name: str, expires: str, output: str) -> None:
    """Make a token with which one worker joins as NAME, approved.

    It takes the place of LOCALAI_REGISTRATION_TOKEN on that worker, is of use to the worker that shows it first and to
    no other one, and is shown once. A newer token for the same name replaces an unused one.
    """
    try:
        seconds = int(parse_duration(expires))
    except ValueError as error:
        raise click.BadParameter(f"{expires!r} is no duration such as 30m or 24h", param_hint="--expires") from error
    answer = connect(settings).post("/api/node-invitations", {"name": name, "expires_in": seconds})
    if output == "json":
        print_json(answer)
        return
    joined, until = answer.get("name"), moment(answer.get("expires_at"))
    echo(f"Node {joined} may join until {until}. On its machine, beside the URLs of frontends, queue and bus:")
    echo()
    echo(f"  export LOCALAI_REGISTRATION_TOKEN={answer.get('token')}")
    echo(f"  localai worker --node-name {joined}")


@command.command()
@click.argument("node", metavar="NAME|ID")
@click.option("--force", is_flag=True, help="Do not wait for running requests: they are cut, with an error.")
@_wait_option
@timeout_option
@output_option
@with_settings("client")
def drain(settings: Settings, node: str, *, force: bool, wait: bool, timeout: float | None, output: str) -> None:
    """Take a node out of use: no new work, its loads are cancelled, its models are unloaded.

    Running requests may finish within LOCALAI_UNLOAD_TIMEOUT (5 minutes) of the server; then, or at once with --force,
    they are cut. The node stays out of use, also when its worker is started again, until `localai nodes resume`.
    """
    client, found = _found(settings, node)
    answer = client.post(f"{_at(found)}/drain", {"force": True} if force else None)
    name = found.get("name")
    done = f"Node {name} is drained: no model process of this server runs there."
    _end(client, answer, f"Node {name} is draining.", wait=wait, timeout=timeout, output=output, done=done)


@command.command()
@click.argument("node", metavar="NAME|ID")
@output_option
@with_settings("client")
def resume(settings: Settings, node: str, output: str) -> None:
    """Let a drained node get work again; a drain or removal under way is called off.

    What was being unloaded there is unloaded; the next requests load it again.
    """
    client, found = _found(settings, node)
    answer = client.post(f"{_at(found)}/resume")
    said = f"Node {found.get('name')} may get work again."
    _end(client, {**answer, "job_id": None}, said, wait=False, timeout=None, output=output)


@command.command()
@click.argument("node", metavar="NAME|ID")
@click.option("--force", is_flag=True, help="At once: requests under way there are cut when its worker learns of it.")
@_wait_option
@timeout_option
@output_option
@with_settings("client")
def remove(settings: Settings, node: str, *, force: bool, wait: bool, timeout: float | None, output: str) -> None:
    """Drain a node, and then forget it with its credential.

    A worker that still runs there ends with exit code 5; started again it joins as a new node, which waits for
    approval. A node that is offline is removed at once. `localai nodes resume` calls a removal off while it waits.
    """
    client, found = _found(settings, node)
    answer = client.delete(_at(found), force="true" if force else None)
    gone = answer.get("message") == "node deregistered"
    said = f"Node {found.get('name')} is {'removed' if gone else 'being removed'}."
    done = f"Node {found.get('name')} is removed."
    _end(client, answer, said, wait=wait and not gone, timeout=timeout, output=output, done=done)


def _found(settings: Settings, node: str) -> tuple[Client, Mapping[str, Any]]:
    client = connect(settings)
    return client, find(nodes_of(client), node)


def _at(node: Mapping[str, Any]) -> str:
    return f"/api/nodes/{quote(str(node['id']), safe='')}"


def _end(
    client: Client,
    answer: Mapping[str, Any],
    said: str,
    *,
    wait: bool,
    timeout: float | None,
    output: str,
    done: str | None = None,
) -> None:
    """Follow the job where it is to be waited for and say ``done`` at its good end, else print the answer."""
    if wait and answer.get("job_id"):
        finish(follow(client, str(answer["job_id"]), timeout), output, done)
    elif output == "json":
        print_json(answer)
    else:
        echo(said)
        if answer.get("job_id"):
            echo(f"job {answer['job_id']}")


_REPLICA_COLUMNS = {
    "MODEL": lambda replica: replica.get("model_name"),
    "REPLICA": lambda replica: replica.get("replica_index"),
    "STATE": lambda replica: replica.get("state"),
    "BACKEND": lambda replica: replica.get("backend_type"),
    "ADDRESS": lambda replica: replica.get("address"),
    "SINCE": lambda replica: moment(replica.get("updated_at")),
}


def _described(node: Mapping[str, Any]) -> dict[str, Any]:
    """The fields a person looks at first, sizes in words."""

    def room(what: str) -> str:
        return f"{size(node.get(f'available_{what}'))} free of {size(node.get(f'total_{what}'))}"

    gpu = " ".join(str(node[name]) for name in ("gpu_vendor", "gpu_compute_capability") if node.get(name))
    labels = ", ".join(f"{name}={value}" for name, value in sorted((node.get("labels") or {}).items()))
    return {
        **{name: node.get(name) for name in ("name", "id")},
        "status": _status(node),
        **{name: node.get(name) for name in ("version", "address", "http_address")},
        "gpu": gpu,
        "vram": room("vram") if node.get("total_vram") else "",
        "ram": room("ram"),
        "disk": room("disk"),
        "reserved_vram": size(node.get("reserved_vram")) if node.get("reserved_vram") else "",
        "cpu": f"{node.get('cpu_logical_cores')} cores, {node.get('cpu_usage_percent')} % used"
        if node.get("cpu_logical_cores")
        else "",
        "labels": labels,
        "drain": _drain(node),
        "max_replicas_per_model": node.get("max_replicas_per_model"),
        **{name: moment(node[name]) for name in ("last_heartbeat", "created_at") if node.get(name)},
    }


def _warnings(node: Mapping[str, Any]) -> list[str]:
    """What an administrator has to decide about the identity of the node."""
    lines = []
    if node.get("pending_reason"):
        lines.append(f"pending again: {node['pending_reason']}; `localai nodes approve {node.get('name')}` lets it in")
    refused = node.get("refused_registration")
    if refused:
        lines.append(f"a registration was refused {moment(refused.get('at'))}: {refused.get('reason')}")
    return lines


def _status(node: Mapping[str, Any]) -> str:
    """The status; `drained` once the drain has ended and no replica is left, which is when one may reboot."""
    over = node.get("status") == "draining" and not node.get("drain") and not node.get("model_count")
    return "drained" if over else str(node.get("status"))


def _drain(node: Mapping[str, Any]) -> str:
    job = node.get("drain")
    if not job:
        return ""
    what = "being removed" if job.get("removing") else "being drained"
    return f"{what}, job {job.get('job_id')}" + (f": {job['message']}" if job.get("message") else "")


def nodes_of(client: Client) -> list[Mapping[str, Any]]:
    """Every node of the server."""
    return list(client.get("/api/nodes"))


def find(nodes: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The node of that id or name. Raises ServerError with the names there are."""
    for key in ("id", "name"):  # a node that is named like the id of another one is not found in its place
        for node in nodes:
            if node.get(key) == wanted:
                return node
    names = ", ".join(str(node.get("name")) for node in nodes) or "none"
    raise ServerError(f"no node is called {wanted!r}; registered: {names}", code=ExitCode.NOT_FOUND)
