"""One random history on several stores at once: the same moves, the same answers, the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from localai.ids import JobId, NodeId, OwnerId, ProcessInstance, new_id
from localai.jobs.event_rules import Fail, Progress
from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import MODEL_INSTALL, MODEL_LOAD, REPLICA_CLEANUP
from localai.jobs.operation_rules import OperationError, OperationReport, OpState, Phase, ProcessReport, Report
from localai.jobs.ports import Intake, NewJob
from localai.loads.ports import Quarantined, Reservation
from localai.nodes.holding_rules import HeldFile, Holdings
from localai.nodes.rules import Figures
from localai.placement.filters import Demand, Limits, NodeOffer
from localai.placement.rules import NoRoom, Placement, place
from tests.contract.jobstore.stores import Stores

GIB = 1024**3
#: How far two clocks that are read one after the other may stand apart on a busy machine.
APART = timedelta(seconds=20)
OWNERS = (OwnerId("control-a"), OwnerId("control-b"))
MODELS, NODES, REVISIONS = ("m0", "m1"), ("n0", "n1"), ("r1", "r2")
#: What no move is about, or what only a join knows.
UNCOMPARED = {"read_at", "node_name", "heartbeat_age_s", "silent_s", "replica_id"}


Likely = Callable[[Job], bool]


class Twins:
    """The same rows in each store, under names that do not depend on random ids."""

    def __init__(self, stores: Sequence[Stores]) -> None:
        self.stores = list(stores)
        #: Name of a job -> its id in each store.
        self.jobs: dict[str, list[JobId]] = {}
        self.nodes: dict[str, list[NodeId]] = {}
        self._names: list[dict[str, str]] = [{} for _ in stores]

    def name_job(self, ids: Sequence[JobId]) -> str:
        known = self._names[0].get(ids[0])
        name = known or f"job-{len(self.jobs)}"
        if known is None:
            self.jobs[name] = list(ids)
        for names, job_id in zip(self._names, ids, strict=True):
            assert names.setdefault(job_id, name) == name, f"{name} is another job there"
        return name

    def name_node(self, name: str, ids: Sequence[NodeId]) -> None:
        self.nodes[name] = list(ids)
        for names, node_id in zip(self._names, ids, strict=True):
            names[node_id] = name

    def each(self, move: Callable[[Stores, int], Any]) -> list[Any]:
        """Make one move on each store and compare the answers; all of them."""
        return self._same([move(stores, number) for number, stores in enumerate(self.stores)])

    def requested(self, move: Callable[[Stores, int], tuple[Intake, Job] | Quarantined]) -> None:
        """The same for a request, which may make a job."""
        answers = [move(stores, number) for number, stores in enumerate(self.stores)]
        made = [answer[1].id for answer in answers if not isinstance(answer, Quarantined)]
        if len(made) == len(answers):
            self.name_job(made)
        self._same(answers)

    def _same(self, answers: list[Any]) -> list[Any]:
        plain = [self.plain(answer, number) for number, answer in enumerate(answers)]
        for other in plain[1:]:
            assert_same(plain[0], other, "answer")
        return answers

    def compare_rows(self) -> None:
        dumps = []
        for number, stores in enumerate(self.stores):
            jobs = {self.plain(job.id, number): self.plain(job, number) for job in stores.job_rows()}
            events: dict[str, list[Any]] = {}
            for row in stores.event_rows():
                fields_of = self.plain(row, number)
                fields_of.pop("id")
                events.setdefault(fields_of.pop("job_id"), []).append(fields_of)
            replicas = [self.plain(dict(row), number) for row in stores.replica_rows()]
            streaks = sorted((self.plain(row, number) for row in stores.streaks()), key=str)
            dumps.append(
                {
                    "jobs": jobs,
                    "events": events,
                    "replicas": replicas,
                    "counters": stores.counters(),
                    "streaks": streaks,
                }
            )
        for other in dumps[1:]:
            assert_same(dumps[0], other, "rows")

    def plain(self, value: Any, number: int) -> Any:
        """A value without random ids, its times as if none had been let pass."""
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, str):
            named = self._names[number].get(value, value)
            return named.replace("node:" + value[5:], "node:" + self._names[number].get(value[5:], value[5:]))
        if is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: self.plain(getattr(value, field.name), number)
                for field in fields(value)
                if field.name not in UNCOMPARED
            }
        if isinstance(value, Mapping):
            return {self.plain(key, number): self.plain(item, number) for key, item in value.items()}
        if isinstance(value, frozenset | set):
            return sorted(self.plain(item, number) for item in value)
        if isinstance(value, tuple | list):
            return [self.plain(item, number) for item in value]
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, datetime):
            return value - self.stores[number].passed
        return value


def assert_same(one: Any, other: Any, where: str) -> None:
    if isinstance(one, datetime) and isinstance(other, datetime):
        assert abs(one - other) <= APART, f"{where}: {one} but {other}"
    elif isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), f"{where}: {sorted(map(str, one))} but {sorted(map(str, other))}"
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list):
        assert len(one) == len(other), f"{where}: {one} but {other}"
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{index}]")
    else:
        assert one == other, f"{where}: {one!r} but {other!r}"


class History:
    """Draws one move after the other. The next move of a load is likely, so that histories go everywhere."""

    def __init__(self, seed: int, twins: Twins) -> None:
        self.draw, self.twins = random.Random(seed), twins
        self.seq: dict[str, int] = {}
        self.incarnation: dict[str, int] = {}
        #: What each node would report: operations by (job, op_generation), processes by instance.
        self.working: dict[str, dict[str, OpState]] = {name: {} for name in NODES}
        self.instances: dict[str, dict[str, ProcessInstance]] = {name: {} for name in NODES}
        self.trail: list[str] = []
        for name in NODES:
            self.register(name)

    def step(self) -> None:
        """One move on every store."""
        if self.draw.random() < 0.25:
            seconds = self.draw.choice([2, 3, 3, 5, 11, 11, 16, 31, 200])
            self.trail.append(f"{seconds} s pass")
            for stores in self.twins.stores:
                stores.let_pass(seconds)
        move = self._next_of_a_load() if self.draw.random() < 0.35 else self.draw.choice(self._moves())
        self.trail.append(move.__name__)
        move()
        self.twins.compare_rows()

    def _next_of_a_load(self) -> Callable[[], None]:
        """What brings some load further: without it most histories never see a process."""
        loads = [job for job in self.twins.stores[0].job_rows() if job.live and job.kind == MODEL_LOAD]
        if not loads:
            return self.request_load
        job = self.draw.choice(loads)
        if job.state == State.QUEUED:
            return self.take
        moves = {None: self.place, OpState.SENT: self.claim, OpState.CLAIMED: self.report, OpState.READY: self.finish}
        return moves.get(job.op_state, self.fail)

    def _moves(self) -> list[Callable[[], None]]:
        work = [self.take, self.take, self.place, self.place, self.claim, self.report, self.report, self.finish] * 4
        rare = [
            self.fail,
            self.cancel,
            self.restart,
            self.lapse,
            self.prune,
            self.mark,
            self.doubt,
            self.revise,
            self.lost,
            self.relocate,
            self.relocate,
        ]
        often = [self.request_load, self.resend, self.stops, self.adopt, self.renew] * 4
        return [*work, *rare, *_named(self), *often]

    # Requests

    def request_load(self) -> None:
        model, revision = self.draw.choice(MODELS), self.draw.choice(REVISIONS + REVISIONS[:1] * 3)
        if self.draw.random() < 0.8:
            self.twins.each(lambda stores, _: stores.loads.revise(model, revision))
        self.twins.requested(lambda stores, _: stores.loads.request(model, revision))
        self.twins.each(lambda stores, _: stores.loads.current(model))

    def request_work(self) -> None:
        model = self.draw.choice(MODELS)
        self.twins.requested(lambda stores, _: stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject=model)))

    def request_servant(self) -> None:
        """The bytes for a load that waits for them, or has ended."""
        name = self._name_of_job(MODEL_LOAD, _waits)
        if name is None:
            return
        ids = self.twins.jobs[name]
        subject = self.twins.stores[0].job(ids[0]).subject
        self.twins.requested(
            lambda stores, n: stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject=subject, parent_id=ids[n]))
        )

    def request_cleanup(self) -> None:
        node = self.draw.choice(NODES)
        instance = self.draw.choice([*self.instances[node].values(), ProcessInstance(new_id())])
        ids = self.twins.nodes[node]
        self.twins.requested(
            lambda stores, n: stores.jobs.request(
                NewJob(kind=REPLICA_CLEANUP, subject=instance, node_id=ids[n], args={"n": 1})
            )
        )

    def cancel(self) -> None:
        self._on_job(lambda stores, job, _: stores.cancels.cancel(job.id, "somebody"), likely=_claimed)

    def cancel_while_installed(self) -> None:
        """A load that waits for its bytes: what only serves it ends too."""
        self.request_work()
        self._on_job(lambda stores, job, _: stores.cancels.cancel(job.id, "somebody"), MODEL_LOAD, likely=_waits)

    def revise(self) -> None:
        model, revision = self.draw.choice(MODELS), self.draw.choice(REVISIONS)
        self.twins.each(lambda stores, _: stores.loads.revise(model, revision))

    # Owners

    def take(self) -> None:
        owner = self.draw.choice(OWNERS)
        self._on_job(
            lambda stores, job, generation: stores.jobs.take(job.id, generation, owner),
            likely=lambda job: job.state == State.QUEUED,
        )

    def adopt(self) -> None:
        owner = self.draw.choice(OWNERS)
        self.twins.each(lambda stores, n: self._sorted(stores.jobs.adopt(owner, 100), n))

    def place(self) -> None:
        size = self.draw.choice([1, 1, 1, 6]) * GIB
        file = {"path": "model.gguf", "size": size, "sha256": "a" * 64, "sources": []}
        order = self.draw.choice([{"size": size}, {"size": size, "files": [file]}])
        seen: list[list[NodeOffer]] = []

        def place_it(stores: Stores, job: Job, generation: int) -> Any:
            def choose(offers: Sequence[NodeOffer]) -> Placement | NoRoom:
                seen.append(list(offers)) if len(offers) == len(NODES) else None
                return place(Demand(model=job.subject, size_bytes=size), offers, Limits(stale_after_s=3000.0))

            reservation = Reservation(backend="fault", reserved_bytes=size, order=order)
            return stores.loads.place(_as(job, generation), job.owner or OWNERS[0], choose, reservation)

        self._on_job(place_it, MODEL_LOAD, likely=lambda job: job.state == State.RUNNING and job.op_state is None)
        if len(seen) == len(self.twins.stores):
            plain = [self.twins.plain(offers, number) for number, offers in enumerate(seen)]
            assert_same(plain[0], plain[-1], "offers")

    def release(self) -> None:
        if self.draw.random() < 0.5:  # an owner that ends so often would bring nothing to its end
            owner = self.draw.choice(OWNERS)
            self.twins.each(lambda stores, n: self._sorted(stores.jobs.release(owner), n))

    def renew(self) -> None:
        owner = self.draw.choice(OWNERS)

        def renew(stores: Stores, _: int) -> Any:
            held = [(job.id, job.generation) for job in stores.jobs.owned(owner)]
            return stores.jobs.renew(owner, held)

        self.twins.each(renew)

    def progress(self) -> None:
        self._on_job(
            lambda stores, job, generation: stores.jobs.progress(
                job.id, Progress(generation=generation, owner=job.owner or OWNERS[0], bytes_done=3, message="moving")
            )
        )

    def finish(self) -> None:
        def finish(stores: Stores, job: Job, generation: int) -> Any:
            owner = job.owner or OWNERS[0]
            if job.kind == MODEL_LOAD:
                return stores.loads.finish(_as(job, generation), owner)
            return stores.jobs.finish(job.id, generation, owner)

        self._on_job(finish, likely=lambda job: job.op_state is OpState.READY)

    def fail(self) -> None:
        ended = self.draw.random() < 0.3
        cause = self.draw.choice(["budget_over", "load_timeout", "load_timeout", "load_timeout", "load_refused"])
        self._on_job(
            lambda stores, job, generation: stores.jobs.fail(
                job.id,
                Fail(
                    generation=generation,
                    owner=job.owner or OWNERS[0],
                    cause=cause,
                    error="too long",
                    ended=ended,
                    detail={"seconds": 3},
                ),
            ),
            likely=_claimed,
        )

    def relocate(self) -> None:
        """An order that its node has not claimed goes to another one that takes orders, or stays."""

        def relocate(stores: Stores, job: Job, generation: int) -> Any:
            def choose(offers: Sequence[NodeOffer]) -> Placement | NoRoom:
                others = [one for one in offers if one.id != job.node_id and one.silent_s is None]
                return place(Demand(model=job.subject, size_bytes=GIB), others, Limits(stale_after_s=3000.0))

            if "order" not in job.args:
                return None
            return stores.loads.relocate(_as(job, generation), job.owner or OWNERS[0], choose)

        self._on_job(relocate, MODEL_LOAD, likely=lambda job: job.live and job.op_state is OpState.SENT)

    def resend(self) -> None:
        owner = self.draw.choice(OWNERS)
        self.twins.each(lambda stores, n: self._sorted(stores.jobs.resend_due(owner, 100), n))

    # Sweeps

    def lapse(self) -> None:
        self.twins.each(lambda stores, n: self._sorted(stores.sweeps.lapse(100), n))

    def queued(self) -> None:
        self.twins.each(lambda stores, n: self._sorted(stores.sweeps.due_queued(100), n))

    def stops(self) -> None:
        self.twins.each(lambda stores, n: self._sorted(stores.sweeps.give_up_stops(100), n))
        self.twins.each(lambda stores, n: self._sorted(stores.sweeps.due_stops(100), n))

    def prune(self) -> None:
        self.twins.each(lambda stores, _: stores.sweeps.prune(250.0, 100))
        self.twins.jobs = {
            name: ids for name, ids in self.twins.jobs.items() if self.twins.stores[0].jobs.get(ids[0]) is not None
        }

    def cleaning(self) -> None:
        self.twins.each(lambda stores, _: sorted(left.process_instance for left in stores.replicas.to_clean(100)))

    def routing(self) -> None:
        self.twins.each(lambda stores, _: stores.replicas.routing_snapshot())

    # Agents

    def register(self, name: str) -> None:
        figures = Figures(total_ram=16 * GIB, available_ram=16 * GIB)
        legacy = self.draw.random() < 0.2
        rows = [stores.register(name, figures, legacy=legacy) for stores in self.twins.stores]
        self.twins.name_node(name, [node_id for node_id, _ in rows])
        assert len({incarnation for _, incarnation in rows}) == 1
        self.incarnation[name], self.seq[name] = rows[0][1], 0
        self.working[name], self.instances[name] = {}, {}

    def restart(self) -> None:
        self.register(self.draw.choice(NODES))

    def beat(self) -> None:
        name, free = self.draw.choice(NODES), self.draw.choice([4, 8, 16]) * GIB
        ids = self.twins.nodes[name]
        figures, holdings = Figures(available_ram=free), self._holdings(name)
        self.twins.each(lambda stores, n: stores.nodes.write_beat(ids[n], self.incarnation[name], figures, holdings))

    def _holdings(self, name: str) -> Holdings:
        """What the processes of a node hold, and files that are there whole, in part or in another version."""
        files = tuple(
            HeldFile(
                path=f"{model}/model.gguf",
                sha256=self.draw.choice(["a", "a", "b"]) * 12,
                bytes=self.draw.choice([1, 6]) * GIB,
            )
            for model in MODELS
            if self.draw.random() < 0.6
        )
        memory = {instance: self.draw.choice([0, 1, 8]) * GIB for instance in self.instances[name].values()}
        return self.draw.choice([Holdings(), Holdings(files=files, memory=memory), Holdings(files=files)])

    def mark(self) -> None:
        self.twins.each(lambda stores, n: sorted(self.twins.plain(stores.nodes.mark_silent(900.0), n)))
        self.twins.each(lambda stores, n: sorted(self.twins.plain(stores.nodes.mark_doubted(20.0), n)))
        self.twins.each(lambda stores, n: sorted(self.twins.plain(stores.nodes.mark_returned(900.0), n)))

    def doubt(self) -> None:
        ids = self.twins.nodes[self.draw.choice(NODES)]
        self.twins.each(lambda stores, n: stores.nodes.doubt(ids[n]))

    def claim(self) -> None:
        name = self._name_of_job(MODEL_LOAD, likely=lambda job: job.op_state is OpState.SENT)
        if name is None:
            return
        wrong = self.draw.random() < 0.1
        seq = self.draw.choice([None, 0, 1])

        def claim(stores: Stores, number: int) -> Any:
            job = stores.job(self.twins.jobs[name][number])
            node = self._node_of(job, number)
            incarnation = self.incarnation[node] - wrong
            operation = (job.op_generation or job.generation) - (wrong and self.draw.random() < 0.5)
            return stores.operations.claim(self.twins.nodes[node][number], incarnation, job.id, operation, seq)

        state = self.draw.getstate()
        results = []
        for number, stores in enumerate(self.twins.stores):
            self.draw.setstate(state)
            results.append(claim(stores, number))
        plain = [self.twins.plain(result, number) for number, result in enumerate(results)]
        assert_same(plain[0], plain[-1], "claim")
        if results[0].granted:
            self.working[self._node_of(self.twins.stores[0].job(self.twins.jobs[name][0]), 0)][name] = OpState.CLAIMED

    def report(self) -> None:
        busy = [name for name in NODES if self.working[name]]
        node = self.draw.choice(busy if busy and self.draw.random() < 0.8 else NODES)
        working, instances = self.working[node], self.instances[node]
        for name in list(working):
            self._work(working, instances, name)
        self.seq[node] += self.draw.choice([1, 1, 1, 1, 0])
        names = list(self.twins.jobs)
        said = {name: state for name, state in working.items() if self.draw.random() < 0.9 and name in names}
        running = {name: at for name, at in instances.items() if name in names}
        phase, moved = self.draw.choice(list(Phase)), self.draw.randrange(50)

        def report(stores: Stores, number: int) -> Any:
            full = Report(
                incarnation=self.incarnation[node],
                seq=self.seq[node],
                operations=tuple(
                    self._operation(stores, number, name, state, phase=phase, moved=moved, instance=running.get(name))
                    for name, state in said.items()
                ),
                processes=tuple(self._process(stores, number, name, instance) for name, instance in running.items()),
            )
            result = stores.operations.report(self.twins.nodes[node][number], full)
            moves = sorted((move.__name__, self.twins.plain(job.id, number)) for move, job in result.moved)
            orphans = sorted(process.process_instance for process in result.findings.orphans)
            return moves, result.routing_changed, result.current_incarnation, orphans, result.findings.stop_processes

        self.twins.each(report)

    def stopped(self) -> None:
        """The proof of an exact stop."""
        name = self._name_of_job(MODEL_LOAD)
        if name is None:
            return
        older = self.draw.random() < 0.2

        def confirm(stores: Stores, number: int) -> Any:
            job = stores.job(self.twins.jobs[name][number])
            incarnation = self.incarnation[self._node_of(job, number)] - older
            return stores.operations.confirm_stop(job.id, job.op_generation or 0, incarnation, "node:x")

        self.twins.each(confirm)
        for node in NODES:
            self.working[node].pop(name, None)
            self.instances[node].pop(name, None)

    def lost(self) -> None:
        """A process ends by itself."""
        node = self.draw.choice(NODES)
        if not self.instances[node]:
            return
        name = self.draw.choice(sorted(self.instances[node]))
        del self.instances[node][name]  # the next report of the node says so

    # What an agent would say

    def _work(self, working: dict[str, OpState], instances: dict[str, ProcessInstance], name: str) -> None:
        drawn = self.draw.random()
        if working[name] is OpState.CLAIMED and drawn < 0.6:
            working[name] = OpState.READY
            instances.setdefault(name, ProcessInstance(new_id()))
        elif drawn > 0.82:
            working[name] = OpState.ENDED
            instances.pop(name, None)
        elif drawn > 0.75:
            del working[name]

    def _operation(
        self,
        stores: Stores,
        number: int,
        name: str,
        state: OpState,
        *,
        phase: Phase,
        moved: int,
        instance: ProcessInstance | None,
    ) -> OperationReport:
        job = stores.job(self.twins.jobs[name][number])
        ready = state is OpState.READY and instance is not None
        error = OperationError(cause="load_refused", message="no") if state is OpState.ENDED else None
        return OperationReport(
            job_id=job.id,
            op_generation=job.op_generation or 0,
            op_state=state,
            phase=phase,
            progress=moved,
            bytes_done=moved,
            process_instance=instance if ready else None,
            address="127.0.0.1:1" if ready else None,
            identity=job.subject if ready else None,
            error=error,
        )

    def _process(self, stores: Stores, number: int, name: str, instance: ProcessInstance) -> ProcessReport:
        job = stores.job(self.twins.jobs[name][number])
        return ProcessReport(
            process_instance=instance,
            model=job.subject,
            slot=job.slot,
            job_id=job.id,
            op_generation=job.op_generation or 0,
            address="127.0.0.1:1",
            pid=1,
            ready=True,
        )

    # Drawing

    def _on_job(
        self, move: Callable[[Stores, Job, int], Any], kind: str | None = None, likely: Likely = lambda _: False
    ) -> None:
        name = self._name_of_job(kind, likely)
        if name is None:
            return
        old = self.draw.random() < 0.1

        def on_job(stores: Stores, number: int) -> Any:
            job = stores.job(self.twins.jobs[name][number])
            return move(stores, job, job.generation - old)

        self.twins.each(on_job)

    def _name_of_job(self, kind: str | None = None, likely: Likely = lambda _: False) -> str | None:
        """Any job that is still there; one that is open, or that the move is meant for, more often."""
        rows = {name: self.twins.stores[0].job(ids[0]) for name, ids in self.twins.jobs.items()}
        fitting = {name: job for name, job in rows.items() if kind in (None, job.kind)}
        if not fitting:
            return None
        weights = [
            30.0 if likely(job) else 4.0 if job.live else 3.0 if job.stop_state == StopState.PENDING else 0.5
            for job in fitting.values()
        ]
        return self.draw.choices(list(fitting), weights)[0]

    def _node_of(self, job: Job, number: int) -> str:
        return next((name for name, ids in self.twins.nodes.items() if ids[number] == job.node_id), NODES[0])

    def _sorted(self, jobs: Sequence[Job], number: int) -> list[Job]:
        return sorted(jobs, key=lambda job: str(self.twins.plain(job.id, number)))


def _named(history: History) -> list[Callable[[], None]]:
    """The moves that are neither frequent nor rare."""
    return [
        history.request_work,
        history.request_servant,
        history.cancel_while_installed,
        history.request_cleanup,
        history.renew,
        history.release,
        history.progress,
        history.resend,
        history.queued,
        history.stops,
        history.cleaning,
        history.routing,
        history.beat,
        history.stopped,
    ]


def _claimed(job: Job) -> bool:
    return job.live and job.node_incarnation is not None


def _waits(job: Job) -> bool:
    return job.live and job.op_generation is None


def _as(job: Job, generation: int) -> Job:
    return replace(job, generation=generation)
