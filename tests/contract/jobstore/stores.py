"""The two implementations of the ports of jobs and loads, with the same handles for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine

from localai.db.unit_of_work import UnitOfWork
from localai.ids import JobId, NodeId, new_id
from localai.jobs.cancel_store import PgCancelStore
from localai.jobs.cancels import CancelMoves
from localai.jobs.job import Job, Windows
from localai.jobs.operation_store import PgOperationStore
from localai.jobs.ports import EventRow, JobIntake, JobReads, OwnerMoves, SweepMoves
from localai.jobs.quarantine_rules import Streak
from localai.jobs.store import PgJobStore
from localai.jobs.sweep_store import PgSweepStore
from localai.loads.ports import LoadMoves, LoadReads
from localai.loads.store import PgLoadStore
from localai.nodes.admission_rules import Terms
from localai.nodes.rules import Figures, Registration
from localai.nodes.store import PgNodeStore
from localai.replicas.store import PgReplicaStore
from tests.simulator.memory_cancels import MemoryCancels
from tests.simulator.memory_jobs import MemoryJobs
from tests.simulator.memory_loads import MemoryLoads
from tests.simulator.memory_nodes import MemoryNodes, MemoryReplicas
from tests.simulator.memory_operations import MemoryOperations
from tests.simulator.memory_sweeps import MemorySweeps
from tests.simulator.tables import Replica, Tables

#: As in production, but for the window of legacy nodes: a history lasts long enough to see it over.
WINDOWS = Windows(legacy_s=190.0)
#: Every node is approved at once.
TERMS = Terms(stale_after_s=300.0, approve=True)
#: Failures in a row after which a node is not tried again.
QUARANTINE_AFTER = 3
#: Everything but id and creation, which no move is about.
REPLICA_FIELDS = [field.name for field in fields(Replica) if field.name != "id"]


class Jobs(JobReads, JobIntake, OwnerMoves):
    """What one store of jobs has to be."""


class Loads(LoadMoves, LoadReads):
    """What one store of loads has to be."""


class Stores:
    """One implementation of every port."""

    name: str
    jobs: Jobs
    cancels: CancelMoves
    loads: Loads
    sweeps: SweepMoves
    operations: PgOperationStore | MemoryOperations
    nodes: Any
    replicas: Any
    #: How far the clock of the rows stands before the machine's.
    passed: timedelta = timedelta()

    def register(self, name: str, figures: Figures | None = None, *, legacy: bool = False) -> tuple[NodeId, int]:
        registration = Registration(name=name, figures=figures or Figures(), reports_operations=not legacy)
        row = self.nodes.register(registration, "hash", TERMS)
        return row.id, row.incarnation

    def job(self, job_id: JobId) -> Job:
        job = self.jobs.get(job_id)
        assert job is not None
        return job

    def let_pass(self, seconds: float) -> None:
        """Let so much time pass by the clock of the rows."""
        raise NotImplementedError

    def job_rows(self) -> list[Job]:
        raise NotImplementedError

    def replica_rows(self) -> list[Mapping[str, Any]]:
        raise NotImplementedError

    def event_rows(self) -> list[EventRow]:
        raise NotImplementedError

    def counters(self) -> Mapping[str, Any]:
        """Subjects and the routing version."""
        raise NotImplementedError

    def streaks(self) -> list[Streak]:
        """Failures in a row, by model, revision and node."""
        raise NotImplementedError


class MemoryStores(Stores):
    name = "memory"

    def __init__(self, windows: Windows = WINDOWS) -> None:
        self.tables = tables = Tables(windows, clock=self.now, new_id=new_id)
        self.jobs, self.sweeps, self.operations = MemoryJobs(tables), MemorySweeps(tables), MemoryOperations(tables)
        self.cancels = MemoryCancels(tables)
        self.loads, self.replicas = MemoryLoads(tables, quarantine_after=QUARANTINE_AFTER), MemoryReplicas(tables)
        self.nodes = MemoryNodes(tables, self.operations.new_incarnation)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.passed

    def let_pass(self, seconds: float) -> None:
        self.passed += timedelta(seconds=seconds)

    def job_rows(self) -> list[Job]:
        return list(self.tables.jobs.values())

    def replica_rows(self) -> list[Mapping[str, Any]]:
        rows = sorted(self.tables.replicas.items())
        return [{name: getattr(row, name) for name in REPLICA_FIELDS} for _, row in rows]

    def event_rows(self) -> list[EventRow]:
        return list(self.tables.job_events)

    def counters(self) -> Mapping[str, Any]:
        subjects = {key: asdict(row) for key, row in sorted(self.tables.subjects.items())}
        return {"subjects": subjects, "version": self.tables.routing_version}

    def streaks(self) -> list[Streak]:
        return list(self.tables.streaks.values())


_TIMES = {
    "jobs": [field.name for field in fields(Job) if "datetime" in str(field.type) and field.name != "read_at"],
    "nodes": ["status_at", "last_heartbeat", "doubted_at"],
    "replicas": ["updated_at", "loaded_at", "stop_after"],
    "job_events": ["at"],
    "failure_streaks": ["since", "last_at"],
    "silent_nodes": ["since"],
}


class PostgresStores(Stores):
    name = "postgres"

    def __init__(self, engine: Engine, windows: Windows = WINDOWS) -> None:
        self.engine = engine
        units = lambda: UnitOfWork(engine)  # noqa: E731
        snapshots = lambda: UnitOfWork(engine, isolation="REPEATABLE READ")  # noqa: E731
        self._units = units
        operations = PgOperationStore(units, snapshots, windows)
        self.jobs, self.sweeps, self.operations = PgJobStore(units, windows), PgSweepStore(units, windows), operations
        self.cancels = PgCancelStore(units, windows)
        self.loads, self.replicas = (
            PgLoadStore(units, windows, quarantine_after=QUARANTINE_AFTER),
            PgReplicaStore(units),
        )
        self.nodes = PgNodeStore(units, operations.new_incarnation)

    def empty(self) -> None:
        """As after the migrations."""
        self._sql("TRUNCATE replicas, job_events, jobs, subjects, nodes, failure_streaks, silent_nodes CASCADE")
        self._sql("UPDATE routing_version SET v = 1")

    def let_pass(self, seconds: float) -> None:
        with self._units() as uow:
            for table, columns in _TIMES.items():
                shifts = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in columns)
                uow.execute(f"UPDATE {table} SET {shifts}", {"s": seconds})

    def job_rows(self) -> list[Job]:
        return [self.job(row["id"]) for row in self._sql("SELECT id FROM jobs ORDER BY created_at, id")]

    def replica_rows(self) -> list[Mapping[str, Any]]:
        rows = self._sql("SELECT * FROM replicas ORDER BY model, slot")
        return [{name: row[name] for name in REPLICA_FIELDS} for row in rows]

    def event_rows(self) -> list[EventRow]:
        names = ", ".join(EventRow.__slots__)
        return [EventRow(**row) for row in self._sql(f"SELECT {names} FROM job_events ORDER BY id")]

    def counters(self) -> Mapping[str, Any]:
        rows = self._sql("SELECT kind, name, last_generation, revision, revision_seq FROM subjects ORDER BY kind, name")
        subjects = {
            (row["kind"], row["name"]): {key: row[key] for key in ("last_generation", "revision", "revision_seq")}
            for row in rows
        }
        return {"subjects": subjects, "version": self._sql("SELECT v FROM routing_version")[0]["v"]}

    def streaks(self) -> list[Streak]:
        names = ", ".join(field.name for field in fields(Streak) if field.name != "node_name")
        return [Streak(**row) for row in self._sql(f"SELECT {names} FROM failure_streaks")]

    def _sql(self, statement: str, **parameters: Any) -> Any:
        with self._units() as uow:
            result = uow.execute(statement, parameters)
            return result.mappings().all() if result.returns_rows else None
