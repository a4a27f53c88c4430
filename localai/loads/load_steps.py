"""What the owner of a cold load does next: get the bytes here, place, watch, finish or fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from localai import logs
from localai.errors import BadInput, ModelNotFound, ModelsFolderUnavailable, OperationFailed
from localai.jobs.announce import Announcer
from localai.jobs.counts import count_fenced
from localai.jobs.event_rules import Finish, Place, Relocate, TellRouting
from localai.jobs.job import Job, State, Windows, after
from localai.jobs.kinds import MODEL_INSTALL, MODEL_LOAD
from localai.jobs.operation_rules import Cause, OpState, Order, needs_env
from localai.jobs.owner import Owner
from localai.jobs.ports import Intake, JobFilter, JobIntake, JobReads, NewJob
from localai.jobs.requests import request
from localai.loads.budget_rules import Budgets, bound, load_budget, silent
from localai.loads.ports import LoadMoves, LoadPlan, LoadPlans, NotFinished, NotPlaced, Reservation
from localai.models.revision_rules import Evidence, Standing
from localai.placement.filters import Demand, Limits, NodeOffer
from localai.placement.rules import NoRoom, Placement, place

log = logs.get(__name__)

#: Dispatch windows an agent has to claim its order: the second one begins when the order is sent again.
IGNORED_WINDOWS = 2
#: A worker takes an order within milliseconds. After this long the config may be the reason why it does not.
CLAIM_LOOK_S = 2.0


class LoadSteps:
    """`KindSteps` of ``model.load``. Holds nothing that the row and the agent's report could not give another owner."""

    def __init__(
        self,
        owner: Owner,
        moves: LoadMoves,
        plans: LoadPlans,
        announcer: Announcer,
        *,
        reads: JobReads,
        intake: JobIntake,
        windows: Windows,
        budgets: Budgets,
        limits: Limits,
        trusts: Callable[[datetime], bool] = lambda _: True,
    ) -> None:
        """``trusts`` tells whether a reading of the database's clock may be compared with stored times."""
        self._owner, self._moves, self._reads, self._intake, self._plans = owner, moves, reads, intake, plans
        self._announcer, self._windows, self._budgets, self._limits = announcer, windows, budgets, limits
        self._trusts = trusts

    def due(self, job: Job) -> bool:
        if job.op_generation is None or job.op_state in (OpState.READY, OpState.ENDED):
            return True
        return self._overdue(job) is not None or self._claim_is_late(job) or self._ignored(job)

    def step(self, job: Job) -> None:
        if job.op_generation is None:
            self._prepare(job)
        elif job.op_state == OpState.READY:
            self._finish(job)
        elif job.op_state == OpState.ENDED:
            self._fail_as_reported(job)
        elif (overdue := self._overdue(job)) is not None:
            cause, text = overdue
            self._owner.fail(job, cause, text, ended=False)
        elif self._claim_is_late(job) and not self._plans.holds(job.subject, job.revision):
            text = f"the config of {job.subject} changed before its worker took the order"
            self._owner.fail(job, Cause.REVISION_CHANGED, text, ended=False)
        elif self._ignored(job):
            self._relocate(job)

    # Before the order is sent

    def _prepare(self, job: Job) -> None:
        try:
            plan = self._plans.plan(job.subject, job.revision)
        except OperationFailed as error:
            self._fail_early(job, error.cause, error.message)
            return
        except ModelsFolderUnavailable as error:
            self._fail_early(job, Cause.MODELS_FOLDER_UNAVAILABLE, error.message)
            return
        except (ModelNotFound, BadInput) as error:
            self._fail_early(job, Cause.BAD_CONFIG, error.message)
            return
        if plan.revision != job.revision:
            text = f"the config of {job.subject} has changed since this load was asked for"
            self._fail_early(job, Cause.REVISION_CHANGED, text)
        elif plan.files is None:
            self._fetch(job)
        else:
            self._place(job, plan, self._order(job, plan))

    def _fetch(self, job: Job) -> None:
        """Have the model's bytes brought here. The end of that job wakes this one; the sweep looks too."""
        for child in self._reads.list(JobFilter(kind=MODEL_INSTALL, parent_id=job.id, limit=1)):
            if child.state in (State.FAILED, State.CANCELLED):
                self._fail_with_child(job, child)
                return
        new = NewJob(kind=MODEL_INSTALL, subject=job.subject, parent_id=job.id, revision=job.revision)
        outcome, install = request(self._intake, self._announcer, new)
        match outcome:
            case Intake.HELD:
                self._fail_with_child(job, install)
            case Intake.ORPHAN:
                self._owner.let_go(job)

    def _place(self, job: Job, plan: LoadPlan, order: Order) -> None:
        demand = Demand(model=job.subject, size_bytes=plan.size_bytes, stages=bool(plan.files))

        def choose(offers: Sequence[NodeOffer]) -> Placement | NoRoom:
            return place(demand, offers, self._limits)

        reservation = Reservation(backend=plan.backend, reserved_bytes=plan.size_bytes or 0, order=order.to_row())
        placed = self._moves.place(job, self._owner.id, choose, reservation)
        match placed:
            case NoRoom():
                self._no_room(job, placed)
            case NotPlaced.OTHER_REVISION:
                self._revise(job, plan)
            case NotPlaced.SLOT_TAKEN:
                self._wait_or_fail(job, f"replica {job.slot} of {job.subject} is still being stopped")
            case NotPlaced.REPLACED:
                count_fenced(Place)
                self._owner.let_go(job)
            case Job():
                log.info("placed", extra=logs.fields(node_id=placed.node_id, op_generation=placed.op_generation))
                self._announcer.moved(Place, placed)

    def _ignored(self, job: Job) -> bool:
        """Whether the order was sent twice and its agent has not claimed it: another node may be quicker."""
        if job.op_state != OpState.SENT or job.node_incarnation is not None or job.legacy or job.placed_at is None:
            return False
        return job.read_at > after(job.placed_at, IGNORED_WINDOWS * self._windows.dispatch_s) and self._trusts(
            job.read_at
        )

    def _relocate(self, job: Job) -> None:
        """Send the order to another node that takes orders. Where none fits, its own may still claim it."""
        size = _size(job.args)
        demand = Demand(model=job.subject, size_bytes=size, stages=size is not None)

        def choose(offers: Sequence[NodeOffer]) -> Placement | NoRoom:
            others = [one for one in offers if one.id != job.node_id and not one.ignores_orders(self._limits)]
            return place(demand, others, self._limits)

        relocated = self._moves.relocate(job, self._owner.id, choose)
        if isinstance(relocated, Job):
            log.warning(
                "an order was not claimed, and another node gets it",
                extra=logs.fields(job_id=job.id, ignored_by=job.node_id, node_id=relocated.node_id),
            )
            self._announcer.moved(Relocate, relocated)

    def _revise(self, job: Job, plan: LoadPlan) -> None:
        """Put the job's revision in force: the config on disk has it. Another one that serves may stand against it."""
        evidence = Evidence(changed_at=plan.changed_at, for_load=True)
        standing = self._moves.revise(job.subject, plan.revision, evidence)
        if standing is Standing.OTHER:
            text = f"another revision of {job.subject} is in force and serves, and this frontend's config is older"
            self._fail_early(job, Cause.REVISION_CHANGED, text)
            return
        if standing is Standing.SET:
            self._announcer.tell((TellRouting(),))
        self.step(job)

    def _no_room(self, job: Job, refused: NoRoom) -> None:
        cause = Cause.NO_ROOM if refused.nodes_serve else Cause.NO_NODE
        text = refused.text(job.subject)
        if refused.may_change:
            self._wait_or_fail(job, text)
        else:
            self._fail_early(job, cause, text)

    def _wait_or_fail(self, job: Job, text: str) -> None:
        """Something is being stopped that may make room; for the length of a report window the sweep tries again."""
        over = job.started_at is None or job.read_at > after(job.started_at, self._windows.report_s)
        if over and self._trusts(job.read_at):
            self._fail_early(job, Cause.NO_ROOM, text)

    def _order(self, job: Job, plan: LoadPlan) -> Order:
        budget = load_budget(plan.size_bytes, self._budgets.pinned_load_s)
        return Order(
            job_id=job.id,
            op_generation=job.generation,
            kind=MODEL_LOAD,
            model=job.subject,
            slot=job.slot,
            backend=plan.backend,
            identity=plan.identity,
            model_file=plan.model_file,
            files=plan.files or (),
            model_options=dict(plan.model_options),
            file_fields=dict(plan.file_fields),
            env=dict(plan.env),
            deadline_s=self._budgets.max_duration_s,
            install_timeout_s=self._budgets.install_s,
            start_timeout_s=self._budgets.start_s,
            load_timeout_s=budget.seconds,
            load_timeout_reason=budget.reason,
            stall_window_s=self._budgets.stall_s,
        )

    # While the agent works

    def _finish(self, job: Job) -> None:
        if not self._owner.leases.valid(job.id, job.generation):
            self._owner.let_go(job)
            return
        if not (job.address and job.process_instance and job.identity):
            text = f"node {job.node_name or job.node_id} is ready and does not say where and as what"
            self._owner.fail(job, Cause.INTERNAL, text, ended=False)
            return
        finished = self._moves.finish(job, self._owner.id)
        match finished:
            case NotFinished.OTHER_REVISION:
                text = f"the config of {job.subject} changed while it was loading"
                self._owner.fail(job, Cause.REVISION_CHANGED, text, ended=False)
            case NotFinished.OTHER_INCARNATION:
                self._owner.fail(job, Cause.WORKER_RESTARTED, "the worker restarted before it served", ended=True)
            case NotFinished.REPLACED:
                count_fenced(Finish)
                self._owner.let_go(job)
            case Job():
                self._owner.leases.done(job.id)
                log.info("loaded", extra=logs.fields(model=job.subject, node_id=job.node_id))
                self._announcer.moved(Finish, finished)

    def _fail_as_reported(self, job: Job) -> None:
        error = job.op_error or {}
        cause = str(error.get("cause") or Cause.OPERATION_KILLED)
        text = str(error.get("message") or "the worker ended the operation")
        self._owner.fail(job, cause, text, ended=True, detail=error or None)

    def _overdue(self, job: Job) -> tuple[Cause, str] | None:
        """The bound that a placed load has passed, as cause and text."""
        if not self._trusts(job.read_at):
            return None
        quiet = silent(job, self._budgets, job.read_at)
        if quiet is not None:
            return Cause.WORKER_SILENT, quiet
        limit = bound(job, self._budgets, load_budget(_size(job.args), self._budgets.pinned_load_s))
        if limit is None or job.read_at <= limit.at:
            return None
        return (Cause.STAGING_STALLED if limit.stalled else Cause.BUDGET_OVER), limit.text

    def _claim_is_late(self, job: Job) -> bool:
        """Whether the claim may fail at every frontend, because the config with the ``env`` of the order has changed.

        Only a step reads the folder for that: a pass over all jobs must not wait for a disk.
        """
        if job.op_state != OpState.SENT or job.placed_at is None or not needs_env(job.args):
            return False
        return job.read_at > after(job.placed_at, CLAIM_LOOK_S) and self._trusts(job.read_at)

    def _fail_with_child(self, job: Job, child: Job) -> None:
        cause, text = child.error_cause or Cause.CHILD_FAILED, child.error or "the model's files could not be fetched"
        self._fail_early(job, cause, text, {"job_id": child.id, **(child.error_detail or {})})

    def _fail_early(self, job: Job, cause: str, text: str, detail: Mapping[str, Any] | None = None) -> None:
        """Nothing was sent to a node: nothing can run."""
        self._owner.fail(job, cause, text, ended=True, detail=detail)


def _size(args: Mapping[str, Any]) -> int | None:
    files = (args.get("order") or {}).get("files") or ()
    return sum(int(file["size"]) for file in files) if files else None
