"""How a web process asks the HTTP server of a worker."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any, Protocol

from localai.errors import BadInput, NodeUnreachable, NotFound, RequestTooComplex, WorkerRefused
from web import structure_rules
from web.turns import Turns

#: A worker answers from memory and files of its own.
TIMEOUT_S = 10.0
#: `/healthz` needs no file and no other process.
PROBE_TIMEOUT_S = 3.0
#: More than any answer of ours.
_LIMIT_BYTES = 16 * 1024 * 1024
#: Of the worker's own words in an error.
_TEXT_CHARACTERS = 1000


class WorkerSilent(NodeUnreachable):
    """The HTTP server of the worker does not answer."""


class HasHttp(Protocol):
    """A node, as far as its HTTP server is concerned."""

    @property
    def name(self) -> str: ...
    @property
    def http_address(self) -> str:
        """host:port, empty where the node has no such server."""


def get_json(node: HasHttp, target: str, token: str) -> Any:
    """The JSON of a worker's answer to ``GET target``, asked with the token that its worker accepts.

    Raises NotFound and BadInput in the worker's own words, WorkerRefused for any other answer, WorkerSilent.
    """
    status, body = _ask(node, target, token)
    try:
        turns = Turns()
        for _ in structure_rules.check(body):
            turns.give()
        answer = json.loads(body)
    except RequestTooComplex:
        raise WorkerRefused(f"worker {node.name} answered with status {status} and too much in its JSON") from None
    except (ValueError, RecursionError):
        raise WorkerRefused(f"worker {node.name} answered with status {status} and no JSON") from None
    if status == http.client.OK:
        return answer
    text = str(answer.get("error", ""))[:_TEXT_CHARACTERS] if isinstance(answer, dict) else ""
    if status == http.client.NOT_FOUND:
        raise NotFound(f"{node.name}: {text}")
    if status == http.client.BAD_REQUEST:
        raise BadInput("query", "", "", text)
    raise WorkerRefused(f"worker {node.name} answered with status {status}: {text}")


def is_there(node: HasHttp) -> bool:
    """Whether the agent of a node answers at all. A stopped agent does not, though the kernel takes the connection."""
    try:
        return _ask(node, "/healthz", "", PROBE_TIMEOUT_S)[0] == http.client.OK
    except WorkerSilent:
        return False


def _ask(node: HasHttp, target: str, token: str, timeout_s: float = TIMEOUT_S) -> tuple[int, bytes]:
    host, _, port = node.http_address.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5:
        raise WorkerSilent(f"node {node.name} did not say where its HTTP server is")
    try:
        with closing(http.client.HTTPConnection(host, int(port), timeout=timeout_s)) as connection:
            connection.request("GET", target, headers={"Authorization": f"Bearer {token}"} if token else {})
            response = connection.getresponse()
            return response.status, response.read(_LIMIT_BYTES)
    # The last two: a text that cannot be a host name, a number that cannot be a port.
    except (OSError, http.client.HTTPException, UnicodeError, OverflowError) as error:
        reason = str(error) or type(error).__name__
        raise WorkerSilent(f"the HTTP server of {node.name} at {node.http_address} does not answer: {reason}") from None
