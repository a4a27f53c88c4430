"""The processes of one frontend add up: also when some of them are dead, and when the disk says no."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localai import metrics, shared_counts
from localai.settings import Settings
from localai.shared_counts import SharedCounts, folder_of, wipe

pytestmark = pytest.mark.unit

FENCED = 'localai_fenced_writes_total{move="take"}'
WAITING = 'localai_waiters{model="m"}'
OVERHEAD = "localai_router_overhead_seconds_count"


class Counting:
    """Another process of the frontend."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.metrics.counting_process", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def tell(self, words: str) -> list[str]:
        """The words of its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        answers: list[str] = []
        while (line := self._process.stdout.readline().split()) != ["done"]:
            assert line, "the process ended"
            answers += line
        return answers

    def collect(self, *names: str) -> list[float]:
        return [float(value) for value in self.tell("collect " + " ".join(names))]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Counting]]:
    started = [Counting(tmp_path) for _ in range(2)]
    try:
        for process in started:
            process.tell("start")
        yield started
    finally:
        for process in started:
            process.kill()


def test_whoever_is_asked_answers_for_all(processes: list[Counting]) -> None:
    one, other = processes
    one.tell("count 3")
    one.tell("wait")
    assert one.collect(FENCED, OVERHEAD, WAITING) == [3, 1, 1]
    other.tell("count 4")
    assert other.collect(FENCED, OVERHEAD, WAITING) == [7, 2, 1]


def test_a_total_that_was_shown_never_falls_whoever_is_asked_next(processes: list[Counting]) -> None:
    one, other = processes
    shown = 0.0
    for round_ in range(6):
        asked, busy = (one, other) if round_ % 2 else (other, one)
        busy.tell("count 1")
        asked.tell("count 1")
        (total,) = asked.collect(FENCED)
        assert total >= shown
        shown = total


def test_a_killed_process_keeps_what_it_wrote_and_waits_no_more(processes: list[Counting], tmp_path: Path) -> None:
    one, other = processes
    one.tell("count 5")
    one.tell("wait")
    assert one.collect(FENCED, WAITING) == [5, 1]
    one.kill()
    assert other.collect(FENCED) == [5]
    assert other.tell(f"collect {WAITING}") == ["none"]


def test_a_process_that_starts_takes_over_the_files_of_dead_ones(processes: list[Counting], tmp_path: Path) -> None:
    one, other = processes
    one.tell("count 5")
    one.collect(FENCED)
    one.kill()
    third = Counting(tmp_path)
    try:
        third.tell("start")
        assert not (tmp_path / f"{one.pid}.json").exists()
        assert (tmp_path / f"{other.pid}.json").exists() or other.collect(FENCED) == [5]
        third.tell("count 1")
        assert third.collect(FENCED) == [6]
        assert other.collect(FENCED) == [6]
    finally:
        third.kill()


def test_a_file_that_cannot_be_read_costs_its_own_figures_only(processes: list[Counting], tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('[{"name": "half')
    (tmp_path / "2.json").write_text('{"no": "list"}')
    processes[0].tell("count 2")
    assert processes[0].collect(FENCED) == [2]


def test_a_folder_that_cannot_be_used_is_said_once_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metrics").write_text("a file where the folder should be")
    caplog.set_level(logging.WARNING)
    counts = SharedCounts(tmp_path / "metrics")
    counts.start()
    before = _value(counts)
    metrics.FENCED_WRITES.labels("take").inc()
    assert _value(counts) == before + 1
    counts.stop()
    assert sum("cannot be written" in record.getMessage() for record in caplog.records) == 1


def test_a_start_forgets_what_an_earlier_frontend_counted(processes: list[Counting], tmp_path: Path) -> None:
    processes[0].tell("count 2")
    processes[0].collect(FENCED)
    for process in processes:
        process.kill()
    wipe(tmp_path)
    assert not list(tmp_path.glob("*.json"))


def test_frontends_that_share_a_state_folder_count_apart(tmp_path: Path) -> None:
    folders = {folder_of(Settings(state_dir=tmp_path, port=port)) for port in (8080, 8081)}
    assert len(folders) == 2
    assert all(folder.is_relative_to(tmp_path) for folder in folders)


def _value(counts: SharedCounts) -> float:
    families = {family.name: family for family in counts.collect()}
    return sum(s.value for s in families["localai_fenced_writes"].samples if s.labels == {"move": "take"})


def test_the_interval_is_the_loss_the_page_speaks_of() -> None:
    assert shared_counts.WRITE_INTERVAL_S == 5
    assert "five seconds" in metrics.metrics_page()
