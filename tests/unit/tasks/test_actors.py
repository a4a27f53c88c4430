"""What a control process does with a wake-up, and what its log lines say meanwhile."""

from __future__ import annotations

import logging
import threading

import pytest

from localai import logs
from localai.ids import JobId
from tasks import names
from tasks.actors import register_control_actors
from tasks.broker import LocalBroker
from tasks.enqueue import DramatiqWakeups
from tasks.queues import CONTROL_QUEUE
from tasks.worker import start_worker

pytestmark = pytest.mark.unit

JOB = JobId("job-1")
LIMIT_S = 30.0


def test_a_wake_up_steps_its_job() -> None:
    broker, stepped, done = LocalBroker(), [], threading.Event()

    def step(job_id: str, generation: int) -> None:
        stepped.append((job_id, generation))
        done.set()

    register_control_actors(broker, step)
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=1)
    try:
        DramatiqWakeups(broker).wake_control(JOB, 2)
        assert done.wait(LIMIT_S)
        assert stepped == [(JOB, 2)]
    finally:
        worker.stop(LIMIT_S)


def test_lines_logged_during_a_step_name_the_actor_the_job_and_its_generation() -> None:
    broker, lines, done = LocalBroker(), [], threading.Event()
    formatter = logs._Formatter("%(message)s")

    def note(text: str) -> None:
        lines.append(formatter.format(logging.LogRecord("x", logging.INFO, "", 0, text, None, None)))

    def step(job_id: str, generation: int) -> None:
        note("step")
        if generation == 2:
            done.set()
        raise RuntimeError("on purpose")

    register_control_actors(broker, step)
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=1)
    try:
        wakeups = DramatiqWakeups(broker)
        wakeups.wake_control(JOB, 1)
        wakeups.wake_control(JOB, 2)
        assert done.wait(LIMIT_S)
    finally:
        worker.stop(LIMIT_S)
    expected = f"step actor={names.STEP_JOB} job_id={JOB} generation="
    assert lines == [expected + "1", expected + "2"]


def test_tq_02_a_lost_thread_shows() -> None:
    broker = LocalBroker()
    register_control_actors(broker, lambda job_id, generation: None)
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=2)
    assert worker.health().problem is None
    worker.stop(LIMIT_S)
    health = worker.health()
    assert (health.threads_alive, health.consumers_alive) == (0, 0)
    assert health.problem == "2 of 2 worker threads have ended"
