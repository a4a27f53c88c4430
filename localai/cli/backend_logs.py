"""`localai logs`: what did the processes of a model write?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from localai.cli.client import Client, ServerError, connect
from localai.cli.exit_codes import ExitCode
from localai.cli.nodes import find, nodes_of
from localai.cli.options import with_settings
from localai.cli.output import output_option, print_json, print_json_line, write_foreign
from localai.cli.say import say
from localai.settings import Settings

_INTERVAL_S = 1.0
#: A model that is loaded on another node meanwhile is found after so many looks.
_LIST_NODES_EVERY = 10
#: So many loads of a model are looked through for the nodes it ran on.
_LOADS = 50

Page = Mapping[str, Any]


@click.command()
@click.argument("model")
@click.option("--node", metavar="NAME|ID", help="Only this node, also where no load of MODEL is known.")
@click.option("-n", "--lines", type=click.IntRange(0, 2000), default=100, show_default=True, help="Lines of each file.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
@output_option
@with_settings("client")
def command(settings: Settings, model: str, *, node: str | None, lines: int, follow: bool, output: str) -> None:
    """Print what the processes of MODEL wrote, on every node that loaded it.

    The output of a process that ended stays until the next one of the same replica starts, so that it says why a load
    failed. With -o json each part names its stream, and with --follow each answer is one line.
    """
    client = connect(settings)
    reading = _Reading(client, model, lines, find(nodes_of(client), node) if node is not None else None)
    if not follow:
        _print_all(model, reading.read(), output)
        return
    for page in reading.follow():
        _print_more(page, output)


class _Reading:
    """The logs of one model, node by node, each continued where the last answer ended."""

    def __init__(self, client: Client, model: str, lines: int, only: Mapping[str, Any] | None) -> None:
        self._client, self._model, self._lines = client, model, lines
        self._only = only
        self._cursors: dict[str, str] = {}

    def read(self) -> list[Page]:
        """What each node has now. Raises ServerError where none has anything."""
        nodes = self._nodes()
        pages: list[Page] = []
        errors: list[ServerError] = []
        for node_id, name in nodes.items():
            try:
                pages.append({"node": name, **self._ask(node_id)})
            except ServerError as error:
                errors.append(error)
        if not pages and errors:
            raise errors[0]
        for refused in errors:
            if refused.code is not ExitCode.NOT_FOUND:
                say(refused.message)
        return pages

    def follow(self) -> Iterator[Page]:
        """The same, and then what is written later. Ends with an error only where the first reading does."""
        yield from self.read()
        nodes, looks = self._nodes(), 0
        while True:
            time.sleep(_INTERVAL_S)
            looks += 1
            try:
                if looks % _LIST_NODES_EVERY == 0:
                    nodes = self._nodes()
                for node_id, name in nodes.items():
                    yield {"node": name, **self._ask(node_id)}
            except ServerError as error:
                if not (error.passing or error.code is ExitCode.NOT_FOUND):
                    raise

    def _ask(self, node_id: str) -> Page:
        path = f"/api/nodes/{quote(node_id, safe='')}/backend-logs/{quote(self._model, safe='')}"
        page: Page = self._client.get(path, lines=self._lines, after=self._cursors.get(node_id))
        self._cursors[node_id] = str(page.get("cursor") or "")
        return page

    def _nodes(self) -> dict[str, str]:
        """Id and name of the nodes that loaded the model, the newest load first."""
        if self._only is not None:
            return {str(self._only["id"]): str(self._only.get("name"))}
        loads = self._client.get("/api/jobs", kind="model.load", subject=self._model, limit=_LOADS)["jobs"]
        nodes = {str(job["node_id"]): str(job.get("node_name")) for job in loads if job.get("node_id")}
        if not nodes:
            raise ServerError(
                f"no node has loaded {self._model!r}; --node NAME asks one all the same", code=ExitCode.NOT_FOUND
            )
        return nodes


def _print_all(model: str, pages: Sequence[Page], output: str) -> None:
    if output == "json":
        print_json(
            {"model": model, "nodes": [{"node": page["node"], "logs": page.get("logs") or []} for page in pages]}
        )
        return
    parts = [(page["node"], part) for page in pages for part in page.get("logs") or ()]
    prefixed = len({(node, part.get("slot")) for node, part in parts}) > 1
    for node, part in parts:
        _print_part(node, part, prefixed=prefixed)


def _print_more(page: Page, output: str) -> None:
    for part in page.get("logs") or ():
        if output == "json":
            print_json_line({"node": page["node"], **part})
        else:
            _print_part(page["node"], part, prefixed=True)


def _print_part(node: str, part: Mapping[str, Any], *, prefixed: bool) -> None:
    prefix = f"[{node}#{part.get('slot')}] " if prefixed else ""
    for line in part.get("lines") or ():
        write_foreign(f"{prefix}{line}\n")
