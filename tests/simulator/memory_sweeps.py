"""`SweepMoves` on rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localai.ids import OwnerId
from localai.jobs.event_rules import GiveUpStop, Lapse, Requeue, RetryStop
from localai.jobs.job import TERMINAL, Job, State, StopState, after
from localai.jobs.kinds import KINDS, Kind, Kinds, OnLapse
from localai.jobs.rows import EVENT_NAMES
from localai.jobs.sweep_store import SWEEP
from tests.simulator.memory_jobs import adoption
from tests.simulator.tables import Tables

#: Whoever sweeps asks only whether a load can be adopted.
_ANYBODY = OwnerId("anybody")


class MemorySweeps:
    """What a sweep may do to rows whose time is over."""

    def __init__(self, tables: Tables, kinds: Kinds = KINDS) -> None:
        self._tables, self._kinds = tables, kinds

    def lapse(self, limit: int) -> Sequence[Job]:
        moved = []
        lapsed = [job for job in self._lapsed() if adoption(self._tables, self._kinds, job, _ANYBODY) is None]
        for job in lapsed[:limit]:
            after_it = self._lapse(job, self._kinds[job.kind])
            if after_it is not None:
                moved.append(after_it)
        return moved

    def due_queued(self, limit: int) -> Sequence[Job]:
        now, windows = self._tables.now(), self._tables.windows
        due = [
            job
            for job in self._tables.opened()
            if job.state == State.QUEUED and job.dispatch_expires_at is not None and job.dispatch_expires_at <= now
        ]
        due.sort(key=lambda job: job.dispatch_expires_at or now)
        moved = []
        for job in due[:limit]:
            window_s = min((job.dispatch_window_s or windows.dispatch_s) * 2, windows.dispatch_max_s)
            expires_at = after(now, window_s)
            doubled = replace(job, dispatch_window_s=window_s, dispatch_expires_at=expires_at, read_at=now)
            moved.append(self._tables.put(doubled))
        return moved

    def due_stops(self, limit: int) -> Sequence[Job]:
        now = self._tables.now()
        pending = [job for job in self._tables.opened() if job.stop_state == StopState.PENDING]
        pending.sort(key=lambda job: job.stop_next_at or now)
        moved: list[Job] = []
        for job in pending:
            sent = self._tables.move(job.id, RetryStop()) if len(moved) < limit else None
            if sent is not None:
                self._tables.record(EVENT_NAMES[RetryStop], sent, SWEEP, {"attempt": sent.stop_attempts})
                moved.append(sent)
        return moved

    def give_up_stops(self, limit: int) -> Sequence[Job]:
        pending = [job for job in self._tables.opened() if job.stop_state == StopState.PENDING]
        moved: list[Job] = []
        for job in pending:
            over = self._tables.move(job.id, GiveUpStop()) if len(moved) < limit else None
            if over is not None:
                self._tables.free_replica(job.id)
                self._tables.record(EVENT_NAMES[GiveUpStop], over, SWEEP)
                moved.append(over)
        return moved

    def prune(self, older_than_s: float, limit: int) -> int:
        now, used = self._tables.now(), {replica.job_id for replica in self._tables.replicas.values()}
        old = [
            job
            for job in self._tables.jobs.values()
            if job.state in TERMINAL
            and job.finished_at is not None
            and after(job.finished_at, older_than_s) < now
            and job.stop_state != StopState.PENDING
            and job.id not in used
        ]
        old.sort(key=lambda job: job.finished_at or now)
        for job in old[:limit]:
            del self._tables.jobs[job.id]
            self._tables.job_events = [row for row in self._tables.job_events if row.job_id != job.id]
        named = {job.subject for job in self._tables.jobs.values()}
        for kind, name in list(self._tables.subjects):
            if kind == "process" and name not in named:
                del self._tables.subjects[(kind, name)]
        for key in list(self._tables.streaks):
            if key[2] not in self._tables.nodes:
                del self._tables.streaks[key]
        for node_id in list(self._tables.silent_nodes):
            if node_id not in self._tables.nodes:
                del self._tables.silent_nodes[node_id]
        return len(old[:limit])

    def _lapsed(self) -> list[Job]:
        now = self._tables.now()
        found = [
            job
            for job in self._tables.opened()
            if job.state == State.RUNNING and job.lease_expires_at is not None and job.lease_expires_at <= now
        ]
        return sorted(found, key=lambda job: job.id)

    def _lapse(self, job: Job, kind: Kind) -> Job | None:
        if kind.on_lapse != OnLapse.REQUEUE or kind.spent(job.attempts, given_back=job.given_back):
            return self._tables.end(job.id, Lapse(generation=job.generation), SWEEP)
        subject = self._tables.subject(kind.subject_kind, job.subject)
        subject.last_generation += 1
        event = Requeue(generation=job.generation, new_generation=subject.last_generation)
        queued = self._tables.move(job.id, event)
        if queued is not None:
            self._tables.record(EVENT_NAMES[Requeue], queued, SWEEP, {"lost_owner": job.owner})
        return queued
