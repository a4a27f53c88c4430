"""`LoadMoves` and `LoadReads` on rows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from localai.ids import JobId, NodeId, OwnerId, ReplicaId
from localai.jobs.event_rules import Finish, Place, Relocate
from localai.jobs.job import Job
from localai.jobs.kinds import KINDS, MODEL_INSTALL, MODEL_LOAD, Kinds
from localai.jobs.ports import Intake, NewJob
from localai.jobs.quarantine_rules import Streak, against, blocking, has_passed, quarantined
from localai.jobs.rows import EVENT_NAMES
from localai.loads.ports import Choose, LoadRow, NotFinished, NotPlaced, Quarantined, Reservation
from localai.models.revision_rules import Evidence, InForce, Standing, judge
from localai.nodes.holding_rules import FileKey, Promise, order_files
from localai.nodes.rules import Status
from localai.placement.counting_rules import counted
from localai.placement.filters import NodeOffer
from localai.placement.rules import NoRoom, Placement
from tests.simulator.memory_jobs import deciding_attempt, insert
from tests.simulator.tables import Node, Replica, Tables


class MemoryLoads:
    """Loads."""

    def __init__(self, tables: Tables, kinds: Kinds = KINDS, *, quarantine_after: int = 0) -> None:
        self._tables, self._kinds, self._quarantine_after = tables, kinds, quarantine_after

    # LoadReads

    def current(self, model: str) -> LoadRow | None:
        return self._with_install(deciding_attempt(self._tables, MODEL_LOAD, model))

    def attempt(self, job_id: JobId) -> LoadRow | None:
        return self._with_install(self._tables.read(job_id))

    def revisions(self, models: Sequence[str]) -> Mapping[str, str]:
        found = {name: self._tables.subjects.get(("model", name)) for name in models}
        return {name: subject.revision for name, subject in found.items() if subject and subject.revision}

    # LoadMoves

    def request(self, model: str, revision: str) -> tuple[Intake, Job] | Quarantined:
        deciding = deciding_attempt(self._tables, MODEL_LOAD, model)
        if deciding is not None and deciding.live:
            return Intake.LIVE, deciding
        serving = self._serving(model, revision)
        if serving is not None:
            return Intake.LOADED, serving
        if deciding is not None:
            return Intake.HELD, deciding
        healthy = {node.id for node in self._tables.nodes.values() if node.status is Status.HEALTHY}
        if blocked := blocking(list(self._quarantines(model, revision).values()), healthy):
            return Quarantined(blocked)
        slot = next(number for number in range(1000) if (model, number) not in self._tables.replicas)
        new = NewJob(kind=MODEL_LOAD, subject=model, revision=revision, slot=slot)
        return Intake.CREATED, insert(self._tables, self._kinds, new)

    def place(self, job: Job, owner: OwnerId, choose: Choose, reservation: Reservation) -> Job | NoRoom | NotPlaced:
        tables = self._tables
        if tables.subject("model", job.subject).revision != job.revision:
            return NotPlaced.OTHER_REVISION
        chosen = choose(self._offers(job, reservation.order))
        if isinstance(chosen, NoRoom):
            return chosen
        return self._place_on(job, owner, chosen, reservation)

    def relocate(self, job: Job, owner: OwnerId, choose: Choose) -> Job | NoRoom | NotPlaced:
        tables = self._tables
        subject = tables.subject("model", job.subject)
        if subject.revision != job.revision:
            return NotPlaced.OTHER_REVISION
        chosen = choose(self._offers(job, job.args.get("order", {})))
        if isinstance(chosen, NoRoom):
            return chosen
        op_generation = subject.last_generation + 1
        event = Relocate(
            generation=job.generation,
            owner=owner,
            node_id=chosen.node_id,
            op_generation=op_generation,
            order={**job.args.get("order", {}), "op_generation": op_generation},
            legacy=not tables.nodes[chosen.node_id].reports_operations,
        )
        relocated = tables.move(job.id, event)
        if relocated is None:
            return NotPlaced.REPLACED
        subject.last_generation = op_generation
        replica = tables.replica_of(job.id)
        assert replica is not None and job.node_id is not None
        tables.set_replica(replica, node_id=chosen.node_id, op_generation=op_generation)
        tables.silent_nodes[job.node_id] = tables.now()
        tables.record(EVENT_NAMES[Relocate], relocated, owner, {"node": chosen.node_name, "instead_of": job.node_name})
        return relocated

    def finish(self, job: Job, owner: OwnerId) -> Job | NotFinished:
        tables = self._tables
        revision = tables.subject("model", job.subject).revision
        node = tables.nodes.get(job.node_id) if job.node_id else None
        incarnation = node.incarnation if node is not None else None
        event = Finish(generation=job.generation, owner=owner, revision=revision, incarnation=incarnation)
        finished = tables.move(job.id, event)
        if finished is None:
            return self._why_not(job, owner, revision, incarnation)
        replica = tables.replica_of(job.id)
        assert replica is not None, "a placed load has its row"
        routed = tables.set_replica(
            replica,
            state="loaded",
            address=finished.address,
            process_instance=finished.process_instance,
            identity=finished.identity,
            node_incarnation=finished.node_incarnation,
            loaded_at=tables.now(),
        )
        tables.record(EVENT_NAMES[Finish], finished, owner, {"process_instance": finished.process_instance})
        tables.seen.routed(routed)
        tables.streaks.pop((job.subject, finished.revision, finished.node_id), None)
        tables.raise_version()
        return finished

    def revise(self, model: str, revision: str, evidence: Evidence | None = None) -> Standing:
        if evidence is not None and (standing := self._standing(model, revision, evidence)) is not Standing.SET:
            return standing
        subject = self._tables.subject("model", model)
        if subject.revision != revision:
            subject.revision, subject.revision_seq = revision, subject.revision_seq + 1
            self._tables.revised_at[model] = self._tables.now()
            self._tables.seen.revised(model, revision)
        for key in [key for key in self._tables.streaks if key[0] == model and key[1] != revision]:
            del self._tables.streaks[key]
        outdated = [
            replica
            for replica in self._tables.replicas.values()
            if replica.model == model and replica.revision != revision and replica.state == "loaded"
        ]
        for replica in outdated:
            self._tables.set_replica(replica, state="unloading")
        if outdated:
            self._tables.raise_version()
        return Standing.SET

    # Steps of the transactions above

    def _standing(self, model: str, revision: str, evidence: Evidence) -> Standing:
        subject = self._tables.subjects.get(("model", model))
        if subject is None:
            return Standing.NEVER_SERVED
        serves = any(
            replica.model == model and replica.revision == subject.revision and replica.state == "loaded"
            for replica in self._tables.replicas.values()
        )
        in_force = InForce(
            revision=subject.revision, since=self._tables.revised_at.get(model), serves=serves, now=self._tables.now()
        )
        return judge(revision, evidence, in_force)

    def _place_on(self, job: Job, owner: OwnerId, chosen: Placement, reservation: Reservation) -> Job | NotPlaced:
        tables, key = self._tables, (job.subject, job.slot)
        event = Place(
            generation=job.generation,
            owner=owner,
            node_id=chosen.node_id,
            order=reservation.order,
            legacy=not tables.nodes[chosen.node_id].reports_operations,
        )
        if key in tables.replicas:
            return NotPlaced.SLOT_TAKEN if tables.would_move(job.id, event) else NotPlaced.REPLACED
        placed = tables.move(job.id, event)
        if placed is None:
            return NotPlaced.REPLACED
        assert placed.op_generation is not None and job.revision is not None
        tables.replicas[key] = Replica(
            id=ReplicaId(tables.new_id()),
            model=job.subject,
            slot=job.slot,
            node_id=chosen.node_id,
            job_id=job.id,
            op_generation=placed.op_generation,
            backend=reservation.backend,
            revision=job.revision,
            state="staging",
            reserved_bytes=reservation.reserved_bytes,
            updated_at=tables.now(),
        )
        detail = {"node": chosen.node_name, "reserved_bytes": reservation.reserved_bytes}
        tables.record(EVENT_NAMES[Place], placed, owner, detail)
        return placed

    def _why_not(self, job: Job, owner: OwnerId, revision: str | None, incarnation: int | None) -> NotFinished:
        now = self._tables.read(job.id)
        ours = now is not None and (now.generation, now.owner) == (job.generation, owner)
        if now is None or not ours or not now.lease_valid(now.read_at):
            return NotFinished.REPLACED
        if now.revision != revision:
            return NotFinished.OTHER_REVISION
        if now.node_incarnation != incarnation:
            return NotFinished.OTHER_INCARNATION
        return NotFinished.REPLACED

    def _serving(self, model: str, revision: str) -> Job | None:
        for _, replica in sorted(self._tables.replicas.items()):
            serves = (replica.model, replica.revision, replica.state) == (model, revision, "loaded")
            if serves and self._tables.nodes[replica.node_id].status is Status.HEALTHY:
                return self._tables.read(replica.job_id)
        return None

    def _with_install(self, job: Job | None) -> LoadRow | None:
        if job is None:
            return None
        installs = (
            self._tables.as_read(other)
            for other in self._tables.opened()
            if other.live and (other.kind, other.subject) == (MODEL_INSTALL, job.subject)
        )
        return LoadRow(job, next(installs, None) if job.live and job.op_generation is None else None)

    def _quarantines(self, model: str, revision: str | None) -> Mapping[NodeId, Streak]:
        return {
            node.id: replace(streak, node_name=node.name)
            for node in sorted(self._tables.nodes.values(), key=lambda node: node.name)
            if (streak := self._tables.streaks.get((model, revision, node.id))) is not None
            and quarantined(streak, self._quarantine_after)
            and not has_passed(streak, self._tables.now(), self._tables.windows.silent_hold_s)
        }

    def _offers(self, job: Job, order: Mapping[str, Any]) -> Sequence[NodeOffer]:
        wanted = order_files(job.subject, order.get("files"))
        nodes = sorted(self._tables.nodes.values(), key=lambda node: node.name)
        return [self._offer(node, job, wanted) for node in nodes]

    def _silent_s(self, node: Node) -> float | None:
        since = self._tables.silent_nodes.get(NodeId(node.id))
        return None if since is None else (self._tables.now() - since).total_seconds()

    def _offer(self, node: Node, job: Job, wanted: Mapping[FileKey, int] | None) -> NodeOffer:
        beat, figures, model = node.last_heartbeat, node.figures, job.subject
        streak = self._tables.streaks.get((model, job.revision, node.id))
        if streak is not None:
            streak = replace(streak, node_name=node.name)
        if streak is not None and has_passed(streak, self._tables.now(), self._tables.windows.silent_hold_s):
            streak = None
        promises = [self._promise(row, beat) for row in self._tables.replicas.values() if row.node_id == node.id]
        return NodeOffer(
            id=NodeId(node.id),
            name=node.name,
            status=node.status.value,
            silent_s=self._silent_s(node),
            heartbeat_age_s=None if beat is None else (self._tables.now() - beat).total_seconds(),
            total_vram=figures.total_vram,
            available_vram=figures.available_vram,
            total_ram=figures.total_ram,
            available_ram=figures.available_ram,
            total_disk=figures.total_disk,
            available_disk=figures.available_disk,
            max_replicas_per_model=node.max_replicas_per_model,
            **against(streak, self._quarantine_after),
            **counted(promises, node.holdings, model=model, wanted=wanted, gpu=bool(figures.total_vram)),
        )

    def _promise(self, row: Replica, beat: datetime | None) -> Promise:
        job = self._tables.jobs[row.job_id]
        order = job.args.get("order") or {}
        return Promise(
            model=row.model,
            state=row.state,
            reserved_bytes=row.reserved_bytes,
            process_instance=row.process_instance or job.process_instance,
            shown=row.loaded_at is not None and beat is not None and row.loaded_at <= beat,
            files=order_files(row.model, order.get("files")) if row.state in ("staging", "loading") else None,
        )
