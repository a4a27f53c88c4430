"""Rows of nodes and what may be routed to, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from localai.errors import NotTheNextLife
from localai.ids import JobId, NodeId, ProcessInstance
from localai.jobs.job import LIVE, StopState, after
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.ports import Moved
from localai.nodes.admission_rules import Admission, KnownNode, Terms, decide, moves
from localai.nodes.holding_rules import Holdings
from localai.nodes.name_rules import check_new
from localai.nodes.rules import (
    NOTHING_SAID,
    BeatRow,
    Figures,
    Registration,
    Status,
    is_next_life,
    status_at_registration,
)
from localai.nodes.store import Refused, RegisteredRow
from localai.replicas.store import Leftover, RoutingReplica, RoutingSnapshot
from tests.simulator.tables import Node, Tables

Value = TypeVar("Value", Figures, Holdings)
NewLife = Callable[[NodeId, int], Sequence[Moved]]


class MemoryNodes:
    """What `NodeService` asks of its store, as far as agents need it."""

    def __init__(self, tables: Tables, new_life: NewLife) -> None:
        self._tables, self._new_life = tables, new_life

    def register(
        self, registration: Registration, credential_hash: str, terms: Terms, join_token_hash: str | None = None
    ) -> RegisteredRow[Moved] | Refused:
        assert join_token_hash is None, "no worker of a schedule is invited"
        now = self._tables.now()
        known = next((node for node in self._tables.nodes.values() if node.name == registration.name), None)
        if not is_next_life(registration.after, known.incarnation if known else 0):
            raise NotTheNextLife(known.incarnation if known else 0)
        if known is None:
            check_new(registration.name)
        found = None if known is None else self._known(known)
        decision = decide(found, registration, terms)
        if known is not None and decision.admission is Admission.REFUSED:
            known.refused = decision.reason
            return Refused(id=known.id, reason=decision.reason)
        node = known or Node(id=NodeId(self._tables.new_id()), name=registration.name, created_at=now, status_at=now)
        own = decision.admission in (Admission.ADMITTED, Admission.MOVED)
        node.status, node.approved = status_at_registration(
            known=known is not None and decision.admission is Admission.ADMITTED,
            approved=node.approved,
            approve=terms.approve or (terms.approve_own and own),
        )
        if moves(found, registration):
            node.moved_incarnation, node.contested_at = node.incarnation + 1, None
        node.address, node.http_address = registration.address, registration.http_address
        node.secret_hash = registration.secret_hash or node.secret_hash
        node.pending_reason = None if node.approved else (decision.reason or node.pending_reason)
        node.incarnation, node.report_seq, node.status_at = node.incarnation + 1, 0, now
        node.credential_hash, node.last_heartbeat, node.doubted_at = credential_hash, now, None
        node.max_replicas_per_model = max(1, registration.max_replicas_per_model)
        node.figures, node.holdings = _kept(node.figures, registration.figures), registration.holdings
        node.reports_operations = registration.reports_operations
        self._tables.nodes[node.id] = node
        moved = self._new_life(node.id, node.incarnation)
        self._tables.raise_version()
        self._tables.seen.registered(node.id, node.incarnation)
        return RegisteredRow(
            id=node.id,
            name=node.name,
            node_type=registration.node_type.value,
            status=node.status.value,
            created_at=node.created_at,
            incarnation=node.incarnation,
            moved=moved,
        )

    def _known(self, node: Node) -> KnownNode:
        return KnownNode(
            status=node.status,
            status_at=node.status_at,
            last_heartbeat=node.last_heartbeat,
            address=node.address,
            http_address=node.http_address,
            secret_hash=node.secret_hash,
            contested_at=node.contested_at,
            now=self._tables.now(),
        )

    def contest(self, node_id: NodeId, incarnation: int) -> None:
        node = self._tables.nodes.get(node_id)
        if node is not None and incarnation < node.moved_incarnation:
            node.contested_at = self._tables.now()

    def beat_row(self, node_id: NodeId) -> BeatRow | None:
        node = self._tables.nodes.get(node_id)
        if node is None:
            return None
        return BeatRow(
            id=node.id,
            status=node.status,
            incarnation=node.incarnation,
            last_heartbeat=node.last_heartbeat,
            figures=node.figures,
            now=self._tables.now(),
            doubted=node.doubted_at is not None,
        )

    def write_beat(
        self, node_id: NodeId, incarnation: int, figures: Figures, holdings: Holdings = NOTHING_SAID
    ) -> bool:
        node = self._tables.nodes.get(node_id)
        if node is None or node.incarnation != incarnation:
            return False
        node.last_heartbeat, node.figures = self._tables.now(), _kept(node.figures, figures)
        node.holdings = _kept(node.holdings, holdings)
        node.doubted_at = None
        return True

    def deregister(self, node_id: NodeId, incarnation: int | None) -> bool:
        node = self._tables.nodes.get(node_id)
        if node is None or incarnation not in (None, node.incarnation):
            return False
        node.status, node.status_at = Status.OFFLINE, self._tables.now()
        self._tables.raise_version()
        return True

    def mark_silent(self, threshold_s: float) -> list[NodeId]:
        return self._mark(lambda node: self._silent(node, threshold_s), Status.OFFLINE)

    def doubt(self, node_id: NodeId) -> bool:
        node = self._tables.nodes.get(node_id)
        if node is None or node.status is not Status.HEALTHY or node.doubted_at is not None:
            return False
        node.doubted_at = self._tables.now()
        return True

    def mark_doubted(self, threshold_s: float) -> list[NodeId]:
        return self._mark(lambda node: self._doubted(node, threshold_s), Status.UNHEALTHY)

    def mark_returned(self, threshold_s: float) -> list[NodeId]:
        return self._mark(lambda node: self._returned(node, threshold_s), Status.HEALTHY)

    def _mark(self, applies: Callable[[Node], bool], status: Status) -> list[NodeId]:
        changed = [node for node in self._tables.nodes.values() if applies(node)]
        for node in changed:
            node.status, node.status_at = status, self._tables.now()
        if changed:
            self._tables.raise_version()
        return [node.id for node in changed]

    def _silent(self, node: Node, threshold_s: float) -> bool:
        active = node.status in (Status.HEALTHY, Status.UNHEALTHY)
        return (
            active and node.last_heartbeat is not None and after(node.last_heartbeat, threshold_s) < self._tables.now()
        )

    def _doubted(self, node: Node, threshold_s: float) -> bool:
        doubted = node.status is Status.HEALTHY and node.doubted_at is not None
        return doubted and after(node.doubted_at, threshold_s) < self._tables.now()

    def _returned(self, node: Node, threshold_s: float) -> bool:
        beat = node.last_heartbeat
        given_up = node.status in (Status.OFFLINE, Status.UNHEALTHY) and node.approved
        return (
            given_up and beat is not None and beat > node.status_at and after(beat, threshold_s) >= self._tables.now()
        )


class MemoryReplicas:
    """What may be routed to, and what is to be cleaned. No frontend keeps a drain waiting here."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def routing_snapshot(self) -> RoutingSnapshot:
        tables = self._tables
        return RoutingSnapshot(
            version=tables.routing_version,
            replicas=tuple(
                RoutingReplica(
                    replica_id=row.id,
                    model=row.model,
                    slot=row.slot,
                    node_id=row.node_id,
                    node_name=tables.nodes[row.node_id].name,
                    address=row.address or "",
                    process_instance=row.process_instance or "",
                    identity=row.identity or "",
                    revision=row.revision,
                    process_secret=row.process_secret,
                )
                for _, row in sorted(tables.replicas.items())
                if row.state == "loaded"
                and tables.nodes[row.node_id].status is Status.HEALTHY
                and tables.subject("model", row.model).revision == row.revision
            ),
        )

    def routing_version(self) -> int:
        return self._tables.routing_version

    def to_clean(self, limit: int) -> Sequence[Leftover]:
        found = []
        for row in sorted(self._tables.replicas.values(), key=lambda row: row.id):
            job = self._tables.jobs[row.job_id]
            if row.state != "unloading" or row.process_instance is None or job.stop_state == StopState.PENDING:
                continue
            if self._being_cleaned(row.process_instance):
                continue
            found.append(
                Leftover(
                    node_id=row.node_id,
                    model=row.model,
                    slot=row.slot,
                    address=row.address,
                    process_instance=row.process_instance,
                    job_id=JobId(row.job_id),
                    op_generation=row.op_generation,
                    parent_id=None,
                )
            )
        return found[:limit]

    def _being_cleaned(self, instance: ProcessInstance) -> bool:
        now = self._tables.now()
        return any(
            job.kind == REPLICA_CLEANUP
            and job.subject == instance
            and (job.state in LIVE or (job.hold_until is not None and job.hold_until > now))
            for job in self._tables.jobs.values()
        )


def _kept(before: Value, now: Value) -> Value:
    """A figure that could not be read keeps its last value."""
    given = {item.name: getattr(now, item.name) for item in fields(before)}
    return replace(before, **{name: value for name, value in given.items() if value is not None})
