"""How loads reach their rows in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.errors import StorageUnavailable
from localai.ids import JobId, NodeId, OwnerId, new_id
from localai.jobs.attempts import insert, lock_subject
from localai.jobs.event_rules import Finish, Place, Relocate
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import KINDS, MODEL_LOAD, Kinds
from localai.jobs.ports import Intake, NewJob
from localai.jobs.quarantine_rules import Streak, against
from localai.jobs.rows import EVENT_NAMES, one_job, record
from localai.jobs.rows import SQL as JOBS_SQL
from localai.loads import durations, quarantines
from localai.loads.ports import Choose, LoadRow, NotFinished, NotPlaced, Quarantined, Reservation
from localai.models.revision_rules import Evidence, InForce, Standing, judge
from localai.nodes.holding_rules import FileKey, holdings_of, order_files, promises_of
from localai.placement.counting_rules import counted
from localai.placement.filters import NodeOffer
from localai.placement.rules import NoRoom, Placement

SQL = load_queries("localai.loads")
#: Placements that meet on one node look again; more than this means that something else is wrong.
PLACE_TRIES = 20


class PgLoadStore:
    """`LoadMoves` and `LoadReads` on PostgreSQL."""

    def __init__(
        self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS, *, quarantine_after: int = 0
    ) -> None:
        """``quarantine_after`` failures in a row keep a model off a node; 0 never does."""
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds
        self._quarantine = quarantines.Rule(quarantine_after, windows.silent_hold_s)

    # LoadReads

    def current(self, model: str) -> LoadRow | None:
        with self._unit_of_work() as uow:
            return _with_install(uow, one_job(uow.execute(SQL["deciding_attempt"], {"model": model})))

    def attempt(self, job_id: JobId) -> LoadRow | None:
        with self._unit_of_work() as uow:
            return _with_install(uow, one_job(uow.execute(SQL["attempt"], {"id": job_id})))

    def revisions(self, models: Sequence[str]) -> Mapping[str, str]:
        with self._unit_of_work() as uow:
            return {row.name: row.revision for row in uow.execute(SQL["revisions"], {"models": list(models)})}

    # LoadMoves

    @repeated
    def request(self, model: str, revision: str) -> tuple[Intake, Job] | Quarantined:
        """A live attempt is found without the subject's lock: a crowd that waits for one model never queues for it."""
        with self._unit_of_work() as uow:
            seen = one_job(uow.execute(SQL["deciding_attempt"], {"model": model}))
        if seen is not None and seen.live:
            return Intake.LIVE, seen
        new = NewJob(kind=MODEL_LOAD, subject=model, revision=revision)
        with self._unit_of_work() as uow:
            lock_subject(uow, self._kinds, new)
            deciding = one_job(uow.execute(SQL["deciding_attempt"], {"model": model}))
            if deciding is not None and deciding.live:
                return Intake.LIVE, deciding
            serving = one_job(uow.execute(SQL["serving_job"], {"model": model, "revision": revision}))
            if serving is not None:
                return Intake.LOADED, serving
            if deciding is not None:
                return Intake.HELD, deciding
            blocked = quarantines.blocked(uow, model, revision, self._quarantine)
            if blocked is not None:
                return blocked
            slot = uow.execute(SQL["free_slot"], {"model": model}).scalar_one()
            free = NewJob(kind=MODEL_LOAD, subject=model, revision=revision, slot=slot)
            return Intake.CREATED, insert(uow, self._kinds, self._windows, free)

    def place(self, job: Job, owner: OwnerId, choose: Choose, reservation: Reservation) -> Job | NoRoom | NotPlaced:
        for _ in range(PLACE_TRIES):
            placed = self._choose_once(
                job,
                reservation.order,
                choose,
                lambda uow, chosen: self._place_on(uow, job, owner, chosen, reservation),
            )
            if placed is not None:
                return placed
        raise StorageUnavailable(f"{PLACE_TRIES} placements of {job.subject!r} in a row met another on their node")

    def relocate(self, job: Job, owner: OwnerId, choose: Choose) -> Job | NoRoom | NotPlaced:
        for _ in range(PLACE_TRIES):
            relocated = self._choose_once(
                job,
                job.args.get("order", {}),
                choose,
                lambda uow, chosen: self._relocate_to(uow, job, owner, chosen),
            )
            if relocated is not None:
                return relocated
        raise StorageUnavailable(f"{PLACE_TRIES} placements of {job.subject!r} in a row met another on their node")

    def finish(self, job: Job, owner: OwnerId) -> Job | NotFinished:
        with self._unit_of_work() as uow:
            subject = lock_subject(uow, self._kinds, NewJob(kind=MODEL_LOAD, subject=job.subject))
            node = uow.execute(JOBS_SQL["share_node"], {"node": job.node_id}).first()
            incarnation = node.incarnation if node is not None else None
            fence = {
                "id": job.id,
                "generation": job.generation,
                "owner": owner,
                "revision": subject["revision"],
                "incarnation": incarnation,
            }
            finished = one_job(uow.execute(SQL["finish_load"], fence))
            if finished is None:
                return self._why_not(uow, job, owner, subject["revision"], incarnation)
            self._route(uow, finished)
            record(uow, EVENT_NAMES[Finish], finished, owner, {"process_instance": finished.process_instance})
            durations.record(uow, finished)
            quarantines.forget(uow, finished)
            uow.execute(JOBS_SQL["raise_routing_version"])
            return finished

    @repeated
    def revise(self, model: str, revision: str, evidence: Evidence | None = None) -> Standing:
        named = {"model": model, "revision": revision}
        with self._unit_of_work() as uow:
            if evidence is None:
                lock_subject(uow, self._kinds, NewJob(kind=MODEL_LOAD, subject=model))
            elif (standing := _standing(uow, model, revision, evidence)) is not Standing.SET:
                return standing
            uow.execute(SQL["set_revision"], named)
            quarantines.outdate(uow, model, revision)
            if uow.execute(SQL["outdate_replicas"], named).all():
                uow.execute(JOBS_SQL["raise_routing_version"])
            return Standing.SET

    # Steps of the transactions above

    def _choose_once(
        self,
        job: Job,
        order: Mapping[str, Any],
        choose: Choose,
        write: Callable[[UnitOfWork, Placement], Job | NotPlaced],
    ) -> Job | NoRoom | NotPlaced | None:
        """One transaction: choose without locks, then look again at the chosen node under its lock.

        Only that node waits for other placements. None when it was filled meanwhile: the next transaction sees that.
        """
        with self._unit_of_work() as uow:
            subject = lock_subject(uow, self._kinds, NewJob(kind=MODEL_LOAD, subject=job.subject))
            if subject["revision"] != job.revision:
                return NotPlaced.OTHER_REVISION
            failed = quarantines.failures(uow, job.subject, job.revision, self._quarantine.silent_hold_s)
            chosen = choose(self._offers(uow, job, order, None, failed))
            if isinstance(chosen, NoRoom):
                return chosen
            uow.execute(SQL["lock_node"], {"node": chosen.node_id})
            if not isinstance(choose(self._offers(uow, job, order, chosen.node_id, failed)), Placement):
                return None
            return write(uow, chosen)

    def _place_on(
        self, uow: UnitOfWork, job: Job, owner: OwnerId, chosen: Placement, reservation: Reservation
    ) -> Job | NotPlaced:
        fence = {
            "id": job.id,
            "generation": job.generation,
            "owner": owner,
            "node": chosen.node_id,
            "order": json.dumps(reservation.order),
            "dispatch": self._windows.dispatch_s,
        }
        placed = one_job(uow.execute(SQL["place_job"], fence))
        if placed is None:
            return NotPlaced.REPLACED
        replica = {
            "id": new_id(),
            "model": job.subject,
            "slot": job.slot,
            "node": chosen.node_id,
            "job": job.id,
            "op_generation": placed.op_generation,
            "backend": reservation.backend,
            "revision": job.revision,
            "reserved": reservation.reserved_bytes,
        }
        if uow.execute(SQL["reserve_replica"], replica).first() is None:
            uow.connection.rollback()
            return NotPlaced.SLOT_TAKEN
        detail = {"node": chosen.node_name, "reserved_bytes": reservation.reserved_bytes}
        record(uow, EVENT_NAMES[Place], placed, owner, detail)
        return placed

    def _offers(
        self,
        uow: UnitOfWork,
        job: Job,
        order: Mapping[str, Any],
        node_id: NodeId | None,
        failed: Mapping[NodeId, Streak],
    ) -> Sequence[NodeOffer]:
        wanted = order_files(job.subject, order.get("files"))
        rows = uow.execute(SQL["node_offers"], {"node": node_id}).mappings()
        judged = ((dict(row), against(failed.get(NodeId(row["id"])), self._quarantine.after)) for row in rows)
        return [_offer(row, job.subject, wanted, judgement) for row, judgement in judged]

    def _relocate_to(self, uow: UnitOfWork, job: Job, owner: OwnerId, chosen: Placement) -> Job | NotPlaced:
        """The caller holds the subject, whose counter gives the new operation its name."""
        subject = {"subject_kind": self._kinds[MODEL_LOAD].subject_kind, "subject": job.subject}
        op_generation = uow.execute(JOBS_SQL["draw_generation"], subject).scalar_one()
        fence = {
            "id": job.id,
            "generation": job.generation,
            "owner": owner,
            "node": chosen.node_id,
            "op_generation": op_generation,
            "order": json.dumps({**job.args.get("order", {}), "op_generation": op_generation}),
            "dispatch": self._windows.dispatch_s,
        }
        relocated = one_job(uow.execute(SQL["relocate_job"], fence))
        if relocated is None:
            uow.connection.rollback()
            return NotPlaced.REPLACED
        uow.execute(SQL["relocate_replica"], fence).one()
        uow.execute(JOBS_SQL["mark_silent_node"], {"node": job.node_id})
        record(uow, EVENT_NAMES[Relocate], relocated, owner, {"node": chosen.node_name, "instead_of": job.node_name})
        return relocated

    @staticmethod
    def _route(uow: UnitOfWork, job: Job) -> None:
        parameters = {
            "id": job.id,
            "address": job.address,
            "instance": job.process_instance,
            "identity": job.identity,
            "incarnation": job.node_incarnation,
        }
        uow.execute(SQL["route_replica"], parameters).one()

    @staticmethod
    def _why_not(
        uow: UnitOfWork, job: Job, owner: OwnerId, revision: str | None, incarnation: int | None
    ) -> NotFinished:
        now = one_job(uow.execute(JOBS_SQL["read_job"], {"id": job.id}))
        ours = now is not None and (now.generation, now.owner) == (job.generation, owner)
        if now is None or not ours or not now.lease_valid(now.read_at):
            return NotFinished.REPLACED
        if now.revision != revision:
            return NotFinished.OTHER_REVISION
        if now.node_incarnation != incarnation:
            return NotFinished.OTHER_INCARNATION
        return NotFinished.REPLACED


def _with_install(uow: UnitOfWork, job: Job | None) -> LoadRow | None:
    if job is None:
        return None
    waits = job.live and job.op_generation is None
    install = one_job(uow.execute(SQL["live_install"], {"model": job.subject})) if waits else None
    return LoadRow(job, install)


def _standing(uow: UnitOfWork, model: str, revision: str, evidence: Evidence) -> Standing:
    """What `judge` says; the row of the subject, if there is one, is locked from here on."""
    row = uow.execute(SQL["in_force"], {"model": model}).mappings().first()
    return judge(revision, evidence, InForce(**row)) if row is not None else Standing.NEVER_SERVED


def _offer(
    row: dict[str, Any], model: str, wanted: Mapping[FileKey, int] | None, judgement: Mapping[str, Any]
) -> NodeOffer:
    promises = promises_of(row.pop("promises"))
    holdings = holdings_of(row.pop("staged_files"), row.pop("process_memory"))
    counts = counted(promises, holdings, model=model, wanted=wanted, gpu=bool(row["total_vram"]))
    return NodeOffer(**row, **counts, **judgement)
