"""What a request may use: built once a process by `web.wiring`, reached through the app."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flask import Flask, current_app
from prometheus_client.core import Metric as Family

from localai.bus.ports import Events
from localai.jobs.cancels import CancelService
from localai.jobs.operations import OperationService
from localai.jobs.ports import Moved
from localai.jobs.service import JobService
from localai.loads.cancels import LoadCancels
from localai.loads.service import LoadService
from localai.models.loader import ModelConfigs
from localai.nodes.invitations import Invitations
from localai.nodes.service import NodeService
from localai.routing.table import RoutingTable
from localai.settings import Settings
from localai.unloads.drains import DrainService
from localai.unloads.service import UnloadService
from web.auth.ended import Rows
from web.identity import Keys, NodeKeys
from web.serving import Serving

_NAME = "localai"


class KnowsDigests(Protocol):
    """SHA-256 of files that were read before."""

    def known(self, path: Path) -> str | None: ...


class ShowsReplica(Protocol):
    """A replica as people see it."""

    def to_json(self) -> dict[str, Any]: ...


class ListsReplicas(Protocol):
    """The replica rows of a node."""

    def list_for_node(self, node_id: str) -> Sequence[ShowsReplica]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything a route calls."""

    settings: Settings
    keys: Keys
    node_keys: NodeKeys
    ended_sessions: Rows
    configs: ModelConfigs
    table: RoutingTable
    serving: Serving
    loads: LoadService
    load_cancels: LoadCancels
    cancels: CancelService
    unloads: UnloadService
    drains: DrainService
    jobs: JobService
    operations: OperationService
    nodes: NodeService[Moved]
    invitations: Invitations
    replicas: ListsReplicas
    events: Events
    models_folder: Path
    digests: KnowsDigests
    #: What all processes of this frontend have counted, and what rows and queue say now.
    counts: Callable[[], Iterable[Family]]
    gauges: Callable[[], Iterable[Family]]
    start: Callable[[], None]
    close: Callable[[], None]


def install(app: Flask, services: Services) -> None:
    """Make these the services of an app."""
    app.extensions[_NAME] = services


def services() -> Services:
    """The services of the request under way."""
    found = current_app.extensions[_NAME]
    assert isinstance(found, Services)
    return found
