"""Crash points: nothing happens unless armed, each kills once, and every name stands for a place in the code."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from localai import crash_points
from localai.crash_points import POINTS, REACHED
from localai.errors import BadSetting
from localai.jobs.kinds import KINDS
from localai.jobs.rows import EVENT_NAMES
from localai.settings import Settings
from worker_agent.hooks import Hooks, crash_hooks

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]


class Died(Exception):
    """Instead of SIGKILL."""


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals this process would have sent to itself."""
    sent: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert pid == os.getpid()
        sent.append(number)
        raise Died

    monkeypatch.setattr(crash_points.os, "kill", kill)
    yield sent
    crash_points.arm(None)


def test_a_point_kills_once_and_says_that_it_was_reached(deaths: list[int], tmp_path: Path) -> None:
    file = tmp_path / "point"
    crash_points.arm(file)
    crash_points.reach("agent.forked")
    file.write_text("agent.forked\n")
    crash_points.reach("agent.held")
    with pytest.raises(Died):
        crash_points.reach("agent.forked")
    assert deaths == [signal.SIGKILL]
    assert not file.exists() and (tmp_path / f"point{REACHED}").read_text() == "agent.forked\n"
    crash_points.reach("agent.forked")
    assert len(deaths) == 1


def test_a_process_that_is_not_armed_reads_no_file(deaths: list[int], tmp_path: Path) -> None:
    (tmp_path / "point").write_text("agent.forked")
    crash_points.reach("agent.forked")
    crash_hooks().forked("instance")
    crash_points.reach_commit("model.load", "taken", lambda *_: pytest.fail("a hook for nothing"))
    assert deaths == []


def test_a_move_has_a_point_before_its_commit_and_one_after_it(deaths: list[int], tmp_path: Path) -> None:
    file = tmp_path / "point"
    crash_points.arm(file)
    hooks: list[tuple[object, ...]] = []
    file.write_text("load.taken.after")
    crash_points.reach_commit("model.load", "taken", lambda *call: hooks.append(call))
    assert deaths == []
    ((function, *arguments),) = hooks
    with pytest.raises(Died):
        function(*arguments)  # type: ignore[operator]
    file.write_text("load.taken.before")
    with pytest.raises(Died):
        crash_points.reach_commit("model.load", "taken", lambda *call: None)


def test_every_point_is_a_place_in_the_code_and_every_place_a_point() -> None:
    hooks = {f"agent.{field.name}" for field in fields(Hooks)}
    named = {name for name in POINTS if name.startswith("agent.")}
    assert named == hooks
    called = set()
    for folder in ("localai", "tasks", "web"):
        for path in (ROOT / folder).rglob("*.py"):
            called |= set(re.findall(r'crash_points\.reach\("([a-z._]+)"\)', path.read_text()))
    assert called == {name for name in POINTS if name.startswith("owner.")}
    for field in fields(Hooks):
        places = [path for path in (ROOT / "worker_agent").rglob("*.py") if f"hooks.{field.name}" in path.read_text()]
        assert places, f"nothing calls the hook {field.name}"


def test_every_move_that_is_a_point_is_an_event_of_a_kind() -> None:
    kinds = {name.rpartition(".")[2] for name in KINDS}
    events = {*EVENT_NAMES.values(), "requested", "operation_ready"}
    for name in POINTS:
        kind, _, rest = name.partition(".")
        if kind not in ("agent", "owner"):
            move, _, when = rest.rpartition(".")
            assert kind in kinds and move in events and when in ("before", "after"), name


def test_the_file_is_refused_without_the_fault_backend() -> None:
    with pytest.raises(BadSetting, match="LOCALAI_ENABLE_FAULT_BACKEND"):
        Settings.load({"LOCALAI_CRASH_POINT_FILE": "/tmp/point"})
    variables = {"LOCALAI_CRASH_POINT_FILE": "/tmp/point", "LOCALAI_ENABLE_FAULT_BACKEND": "true"}
    assert Settings.load(variables).crash_point_file == Path("/tmp/point")
