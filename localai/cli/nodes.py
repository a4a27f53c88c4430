"""`localai nodes`: which machines run models, and who lets one in?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, ServerError, connect
from localai.cli.options import with_settings
from localai.cli.output import output_option, print_json, size, table
from localai.settings import Settings


@click.group()
def command() -> None:
    """Show the machines that run models, and approve new ones."""


@command.command("list")
@output_option
@with_settings("client")
def list_nodes(settings: Settings, output: str) -> None:
    """List the nodes with their state and what they have left."""
    nodes = _nodes(connect(settings))
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
        )
    )


@command.command()
@click.argument("node", metavar="NAME|ID")
@output_option
@with_settings("client")
def approve(settings: Settings, node: str, output: str) -> None:
    """Let a node that registered get work."""
    client = connect(settings)
    found = find(_nodes(client), node)
    answer = client.post(f"/api/nodes/{quote(str(found['id']), safe='')}/approve")
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"Node {found.get('name')} is approved.")


def _nodes(client: Client) -> list[Mapping[str, Any]]:
    return list(client.get("/api/nodes"))


def find(nodes: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The node of that id or name. Raises ServerError with the names there are."""
    for node in nodes:
        if wanted in (node.get("id"), node.get("name")):
            return node
    names = ", ".join(str(node.get("name")) for node in nodes) or "none"
    raise ServerError(f"no node is called {wanted!r}; registered: {names}")
