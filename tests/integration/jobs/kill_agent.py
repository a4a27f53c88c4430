"""One agent of the kill test: the rules of the protocol's section 5 in their smallest form, over the real queue and rows.

Its model processes are entries of a table: they die with it, as process groups do when the next life begins.
"""

from __future__ import annotations

import os
import random
import sys
import threading

import dramatiq

from localai import logs
from localai.clock import boottime
from localai.errors import LocalAIError, NotFound, Replaced, StorageUnavailable
from localai.ids import JobId, new_id
from localai.jobs.operation_rules import Answer, OperationReport, OpState, Phase, ProcessReport, Report
from localai.jobs.operations import WorkerMustDrop
from tasks import names
from tasks.queues import node_queue
from tasks.worker import start_worker
from tests.integration.jobs.kill_parts import AGENT_REPORT_S, KILL_TTL_S, make_world
from tests.integration.world import Agent, World

Key = tuple[str, int]


class Entry:
    """One operation: claiming, working, ready, ended."""

    def __init__(self, key: Key) -> None:
        self.key, self.state, self.keep_until = key, OpState.SENT, 0.0
        self.subject, self.slot, self.instance = "", 0, ""


class Machine:
    """Table, watchdog and reports of one life."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.agent = world, Agent(world, name)
        self.lock, self.pause = threading.Lock(), threading.Event()
        self.entries: dict[Key, Entry] = {}
        self.tombstones: set[Key] = set()
        #: READY processes whose operation is complete.
        self.serving: dict[str, Entry] = {}

    def run_operation(self, job_id: str, op_generation: int) -> None:
        key = (job_id, op_generation)
        with self.lock:
            if key in self.entries or key in self.tombstones:
                return
            self.entries[key] = entry = Entry(key)
        threading.Thread(target=self._operate, args=(entry,), daemon=True).start()

    def _operate(self, entry: Entry) -> None:
        sent_at = boottime()
        try:
            order = self.world.operations.claim(
                self.agent.id, self.agent.incarnation, JobId(entry.key[0]), entry.key[1], self.agent.seq
            )
        except WorkerMustDrop:
            self._end(entry)
            return
        except LocalAIError:
            with self.lock:
                self.entries.pop(entry.key, None)
            return
        with self.lock:
            if entry.key not in self.entries or boottime() > sent_at + KILL_TTL_S:
                self._bury(entry)
                return
            entry.state, entry.keep_until = OpState.CLAIMED, sent_at + KILL_TTL_S
            entry.subject, entry.slot, entry.instance = order.model, order.slot, new_id()
        self._log(
            "INSERT INTO executions (job_id, generation, subject, pid) VALUES (%(id)s, %(g)s, %(s)s, %(p)s)", entry
        )
        self.pause.wait(random.uniform(0.05, 1.2))
        with self.lock:
            if entry.state is OpState.CLAIMED and entry.key in self.entries and boottime() < entry.keep_until:
                entry.state = OpState.READY

    def watch(self) -> None:
        """First of all after any pause: what nobody kept is over, READY is not."""
        with self.lock:
            now = boottime()
            for entry in list(self.entries.values()):
                if entry.state is OpState.CLAIMED and now > entry.keep_until:
                    self._end_locked(entry)

    def report(self) -> None:
        self.watch()
        with self.lock:
            self.agent.seq += 1
            report = Report(
                incarnation=self.agent.incarnation,
                seq=self.agent.seq,
                operations=tuple(map(_operation, self.entries.values())),
                processes=tuple(_process(entry) for entry in self._processes()),
            )
        sent_at = boottime()
        answer = self.world.operations.report(self.agent.id, report)
        with self.lock:
            for item in answer.operations:
                entry = self.entries.get((item.job_id, item.op_generation))
                if entry is None:
                    continue
                if item.answer is Answer.KEEP:
                    entry.keep_until = max(entry.keep_until, sent_at + KILL_TTL_S)
                elif item.answer is Answer.STOP:
                    if entry.state is OpState.ENDED:
                        self._bury(entry)
                    else:
                        self._end_locked(entry)
                elif item.answer is Answer.COMPLETE and entry.state is OpState.READY:
                    self.serving[entry.instance] = entry
                    self._bury(entry)
            for instance in answer.stop_processes:
                stopped = self.serving.pop(instance, None)
                if stopped is not None:
                    self._log_end(stopped)

    def _processes(self) -> list[Entry]:
        under_way = [entry for entry in self.entries.values() if entry.state in (OpState.CLAIMED, OpState.READY)]
        return [*under_way, *self.serving.values()]

    def _end(self, entry: Entry) -> None:
        with self.lock:
            self._bury(entry)

    def _end_locked(self, entry: Entry) -> None:
        self._log_end(entry)
        entry.state = OpState.ENDED

    def _bury(self, entry: Entry) -> None:
        self.entries.pop(entry.key, None)
        self.tombstones.add(entry.key)

    def _log_end(self, entry: Entry) -> None:
        if entry.state in (OpState.CLAIMED, OpState.READY):
            self._log(
                "UPDATE executions SET ended = clock_timestamp() WHERE job_id = %(id)s AND generation = %(g)s", entry
            )

    def _log(self, statement: str, entry: Entry) -> None:
        try:
            self.world.sql(statement, id=entry.key[0], g=entry.key[1], s=entry.subject, p=os.getpid())
        except StorageUnavailable:
            logs.get(__name__).warning("execution not logged")


def _operation(entry: Entry) -> OperationReport:
    has_process = entry.state is OpState.READY
    return OperationReport(
        job_id=entry.key[0],
        op_generation=entry.key[1],
        op_state=entry.state,
        phase=Phase.LOADING if has_process else Phase.INSTALLING,
        process_instance=entry.instance if has_process else None,
        address="127.0.0.1:1" if has_process else None,
        identity=entry.subject if has_process else None,
    )


def _process(entry: Entry) -> ProcessReport:
    return ProcessReport(
        process_instance=entry.instance,
        model=entry.subject,
        slot=entry.slot,
        job_id=entry.key[0],
        op_generation=entry.key[1],
        address="127.0.0.1:1",
        pid=os.getpid(),
        ready=entry.state is OpState.READY,
    )


def main(database_url: str, broker_url: str, seed: int, name: str) -> None:
    logs.configure("warning", name)
    world, broker = make_world(database_url, broker_url, "kill-agent", seed)
    machine = Machine(world, name)
    queue = node_queue(machine.agent.id)
    dramatiq.actor(machine.run_operation, broker=broker, actor_name=names.RUN_OPERATION, queue_name=queue)  # type: ignore[call-overload]
    start_worker(broker, [queue], 2)
    while not machine.pause.wait(AGENT_REPORT_S):
        try:
            machine.report()
        except (Replaced, NotFound):
            return
        except StorageUnavailable:
            continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
