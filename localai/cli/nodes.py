"""`localai nodes`: which machines run models, and who lets one in?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, ServerError, connect
from localai.cli.exit_codes import ExitCode
from localai.cli.options import with_settings
from localai.cli.output import details, output_option, print_json, size, state_style, table
from localai.settings import Settings


@click.group()
def command() -> None:
    """Show the machines that run models, and approve new ones."""


@command.command("list")
@output_option
@with_settings("client")
def list_nodes(settings: Settings, output: str) -> None:
    """List the nodes with their state and what they have left."""
    nodes = nodes_of(connect(settings))
    if output == "json":
        print_json(nodes)
        return
    click.echo(
        table(
            nodes,
            {
                "NAME": lambda node: node.get("name"),
                "STATUS": lambda node: node.get("status"),
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
    click.echo(details(_described(found), list(_described(found))))
    click.echo()
    click.echo(table(replicas, _REPLICA_COLUMNS, {"STATE": state_style}) if replicas else "no replicas")


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
        click.echo(f"Node {found.get('name')} is approved.")


_REPLICA_COLUMNS = {
    "MODEL": lambda replica: replica.get("model_name"),
    "REPLICA": lambda replica: replica.get("replica_index"),
    "STATE": lambda replica: replica.get("state"),
    "BACKEND": lambda replica: replica.get("backend_type"),
    "ADDRESS": lambda replica: replica.get("address"),
    "SINCE": lambda replica: replica.get("updated_at"),
}


def _described(node: Mapping[str, Any]) -> dict[str, Any]:
    """The fields a person looks at first, sizes in words."""

    def room(what: str) -> str:
        return f"{size(node.get(f'available_{what}'))} free of {size(node.get(f'total_{what}'))}"

    gpu = " ".join(str(node[name]) for name in ("gpu_vendor", "gpu_compute_capability") if node.get(name))
    labels = ", ".join(f"{name}={value}" for name, value in sorted((node.get("labels") or {}).items()))
    return {
        **{name: node.get(name) for name in ("name", "id", "status", "version", "address", "http_address")},
        "gpu": gpu,
        "vram": room("vram") if node.get("total_vram") else "",
        "ram": room("ram"),
        "disk": room("disk"),
        "reserved_vram": size(node.get("reserved_vram")) if node.get("reserved_vram") else "",
        "cpu": f"{node.get('cpu_logical_cores')} cores, {node.get('cpu_usage_percent')} % used"
        if node.get("cpu_logical_cores")
        else "",
        "labels": labels,
        **{name: node.get(name) for name in ("max_replicas_per_model", "last_heartbeat", "created_at")},
    }


def nodes_of(client: Client) -> list[Mapping[str, Any]]:
    """Every node of the server."""
    return list(client.get("/api/nodes"))


def find(nodes: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The node of that id or name. Raises ServerError with the names there are."""
    for node in nodes:
        if wanted in (node.get("id"), node.get("name")):
            return node
    names = ", ".join(str(node.get("name")) for node in nodes) or "none"
    raise ServerError(f"no node is called {wanted!r}; registered: {names}", code=ExitCode.NOT_FOUND)
