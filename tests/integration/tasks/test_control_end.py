"""How a control process ends when it is asked to: what it works on ends first, and then others may go on with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from localai import wiring
from localai.db.engine import make_engine
from localai.embedded.signals import SignalWait
from localai.errors import OperationFailed
from localai.jobs.job import State
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import Cause
from localai.jobs.owner import Owner
from localai.jobs.ports import NewJob
from localai.loads.plans import ConfigPlans
from localai.settings import Settings
from tasks.control import Control
from tests.integration.world import in_thread
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration


class Asked:
    """Asks for the end where a test says so."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def stop_asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, limit_s: float) -> None:
        self._asked.wait(limit_s)

    def ask(self) -> None:
        self._asked.set()


class Fetch:
    """A fetch that goes on until it is told that nobody wants it."""

    def __init__(self, leases: Callable[[], object]) -> None:
        self._leases = leases
        self.begun, self.ended = threading.Event(), threading.Event()
        self.held_at_the_end: object = None

    def install(self, _model: str, _progress: object, cancelled: Callable[[], bool]) -> None:
        self.begun.set()
        eventually(cancelled, "the word that nobody wants it")
        self.held_at_the_end = self._leases()
        self.ended.set()
        raise OperationFailed(Cause.CANCELLED, "cancelled")


def test_a_fetch_ends_before_its_lease_is_given_back(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        database_url=database_url,
        broker_url="stub://",
        state_dir=tmp_path,
        job_sweep_interval_s=0.05,
        dispatch_window_s=0.1,
    )
    control, asked = Control(settings), Asked()
    owner, jobs = control._ownership.owner, control._rows.jobs
    fetch, at_release = Fetch(owner.leases.held), []
    given_back = Owner.release

    def release(self: Owner) -> None:
        at_release.append(fetch.ended.is_set())
        given_back(self)

    monkeypatch.setattr(Owner, "release", release)
    monkeypatch.setattr(ConfigPlans, "install", staticmethod(fetch.install))
    running, outcome = in_thread(lambda: control.run(cast(SignalWait, asked)))
    try:
        _, job = jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))
        assert fetch.begun.wait(LIMIT_S)
    finally:
        asked.ask()
        running.join(LIMIT_S)
    assert outcome == [None]
    assert fetch.held_at_the_end == [(job.id, job.generation)], "its lease was still ours when it was told to end"
    assert at_release == [True]
    rows = wiring.make_rows(make_engine(database_url, application="test", pool_size=1), settings)
    assert [event.event for event in rows.jobs.events(job.id)][-1] == "released"
    assert [(row.id, row.state) for row in rows.sweeps.lapse(100)] == [(job.id, State.QUEUED)]
