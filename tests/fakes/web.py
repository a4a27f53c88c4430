"""A Flask application over fakes: no socket, no database, one model that is loaded."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from localai import metrics
from localai.bus.memory import MemoryBus
from localai.errors import NotFound, StorageUnavailable
from localai.loads.waiters import Waiters
from localai.models.loader import ModelConfigs
from localai.nodes.invitations import JoinToken
from localai.routing.rules import Lease
from localai.routing.table import RoutingTable
from localai.settings import Settings
from tests.fakes.inference import FakeInference, Script
from tests.fakes.loads import FakeLoads
from tests.fakes.routing import FakeClock, FakeSnapshot, Replica
from web.app import make_routes, serve
from web.identity import Keys, NodeKeys
from web.services import Services
from web.serving import Serving

KEY = "the-key"
NODE_ID = "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11"
NODE_TOKEN = "node-token"
JOIN_TOKEN = "join-token"
#: The credential of the life before, and the secret in the data folder.
REPLACED_TOKEN, NODE_SECRET = "replaced-token", "node-secret"


@dataclass
class FakeNode:
    """A node's row."""

    approved: bool = True
    address: str = "gpu-1:50051"


@dataclass
class FakeNodes:
    """One node."""

    approved: bool = True
    removed: tuple[str, ...] = ()
    registered: list[Any] = field(default_factory=list)
    beats: list[Any] = field(default_factory=list)
    holdings: list[Any] = field(default_factory=list)

    def check_credential(self, node_id: str, token: str) -> bool:
        return (node_id, token) == (NODE_ID, NODE_TOKEN)

    def check_secret(self, node_id: str, secret: str) -> bool:
        return (node_id, secret) == (NODE_ID, NODE_SECRET)

    def heard_of_replaced(self, node_id: str, token: str) -> bool:
        return (node_id, token) == (NODE_ID, REPLACED_TOKEN)

    def get(self, node_id: str) -> Any:
        return FakeNode(self.approved) if node_id == NODE_ID else None

    def was_removed(self, node_id: str) -> bool:
        return node_id in self.removed

    def heartbeat(self, node_id: str, incarnation: int | None, figures: Any, holdings: Any) -> str:
        if node_id != NODE_ID:
            raise NotFound("no such node")
        self.beats.append((incarnation, figures))
        self.holdings.append(holdings)
        return "healthy"


@dataclass
class FakeInvitations:
    """One join token, and what was asked for."""

    asked: list[tuple[str, int]] = field(default_factory=list)

    def knows(self, token: str) -> bool:
        return token == JOIN_TOKEN

    def invite(self, name: str, expires_in_s: int) -> JoinToken:
        self.asked.append((name, expires_in_s))
        return JoinToken(JOIN_TOKEN, name, datetime(2030, 1, 2, tzinfo=UTC))


@dataclass
class FakeEndedSessions:
    """Rows of ended sessions, for any number of frontends."""

    digests: set[str] = field(default_factory=set)
    away: bool = False

    def end(self, digest: str, for_s: float) -> None:
        self._here()
        self.digests.add(digest)

    def is_ended(self, digest: str) -> bool:
        self._here()
        return digest in self.digests

    def _here(self) -> None:
        if self.away:
            raise StorageUnavailable


@dataclass
class NoDigests:
    def known(self, path: Path) -> str | None:
        return None


@dataclass
class Feed:
    refreshes: int = 0

    def refresh(self, timeout_s: float) -> bool:
        self.refreshes += 1
        return True


@dataclass
class Retired:
    retired: list[str] = field(default_factory=list)

    def retire(self, replica_id: str, process_instance: str) -> None:
        self.retired.append(process_instance)


@functools.cache
def _compiled() -> Flask:
    return make_routes()


def _routes() -> Flask:
    """Routes of one bench. They are compiled once, which takes longer than most tests that use them."""
    app = copy.copy(_compiled())
    app.config, app.extensions = copy.copy(app.config), {}
    return app


class WebBench:
    """The application, its client, and the fakes behind it."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Settings | None = None,
        waits: Mapping[str, Any] = MappingProxyType({}),
        **replaced: Any,
    ) -> None:
        self.settings = settings or Settings()
        self.models = folder / "models"
        self.models.mkdir()
        self.configs = ModelConfigs(self.models, still_s=0)
        self.clock = FakeClock()
        self.inference = FakeInference()
        self.table = RoutingTable(lease_ttl_s=90, serve_stale=True, forget=self.inference.forget, clock=self.clock)
        self.table.hold(Lease.granted(self.clock(), 90))
        self.invitations = FakeInvitations()
        self.loads, self.nodes, self.feed, self.retired = FakeLoads(), FakeNodes(), Feed(), Retired()
        self.ended: FakeEndedSessions = replaced.pop("ended_sessions", FakeEndedSessions())
        limits: dict[str, Any] = {"wait_s": 0.05, "poll_interval_s": 30, **waits}
        self.waiters = Waiters(self.loads, self.table, lambda: True, **limits)
        self.bus = MemoryBus()
        self.waiters.listen(self.bus)
        services = Services(
            settings=self.settings,
            keys=Keys([KEY]),
            node_keys=NodeKeys(
                self.nodes, "registration-token", is_join_token=self.invitations.knows, clock=self.clock
            ),
            ended_sessions=self.ended,
            configs=self.configs,
            table=self.table,
            serving=Serving(self.table, self.feed, self.waiters, self.inference, self.retired),
            loads=replaced.pop("loads", self.loads),
            load_cancels=replaced.pop("load_cancels", None),
            cancels=replaced.pop("cancels", None),
            unloads=replaced.pop("unloads", None),
            drains=replaced.pop("drains", None),
            jobs=replaced.pop("jobs", None),
            operations=replaced.pop("operations", None),
            nodes=self.nodes,  # type: ignore[arg-type]
            invitations=self.invitations,  # type: ignore[arg-type]
            replicas=replaced.pop("replicas", None),
            events=self.bus,
            models_folder=self.models,
            digests=replaced.pop("digests", NoDigests()),
            counts=lambda: metrics.collected(metrics.FRONTEND),
            gauges=lambda: (),
            start=lambda: None,
            close=lambda: None,
        )
        assert not replaced
        self.app: Flask = serve(_routes(), services)
        self.client: FlaskClient = self.app.test_client()

    def model(self, name: str, script: Script | None = None, **keys: str) -> Replica:
        """A config, and a loaded replica where there is a script."""
        keys = {"backend": "fault", **keys}
        lines = [f"name: {name}", *(f"{key}: {value}" for key, value in keys.items())]
        (self.models / f"{name.replace('/', '__')}.yaml").write_text("\n".join(lines))
        self.configs.refresh()
        replica = Replica(model=name, identity=f"identity-of-{name}", process_instance=f"instance-of-{name}")
        if script is not None:
            self.inference.scripts[replica.endpoint] = script
            known = [r for m in self._names() for r in self.table.replicas(m)]
            self.route(*known, replica)  # type: ignore[arg-type]
        return replica

    def route(self, *replicas: Replica) -> None:
        """The rows say that these serve."""
        self.table.apply(FakeSnapshot(self.table.version + 1, replicas), asked_at=self.clock())

    def chat(self, model: str = "m", **body: Any) -> Any:
        messages = body.pop("messages", [{"role": "user", "content": "hello"}])
        return self.post("/v1/chat/completions", {"model": model, "messages": messages, **body})

    def post(self, path: str, body: Any, **options: Any) -> Any:
        """The whole answer, closed as a server closes it."""
        options.setdefault("buffered", True)
        headers = {**self.key(), **options.pop("headers", {})}
        return self.client.post(path, json=body, headers=headers, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.client.get(path, headers=self.key(), **options)

    @staticmethod
    def key(token: str = KEY) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    def _names(self) -> Sequence[str]:
        return [config.name for config in self.configs.all()]
