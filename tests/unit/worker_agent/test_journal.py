"""What the journal remembers after any crash."""

from __future__ import annotations

import errno
import json
import stat
from pathlib import Path

import pytest

from worker_agent.processes import journal
from worker_agent.processes.journal import Journal

pytestmark = pytest.mark.unit


def start(opened: Journal, instance: str) -> None:
    opened.starting(instance=instance, job_id="j", op_generation=1, key="m#0", port=10)


def test_a_start_stays_until_its_group_is_known_to_be_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    opened = Journal(path)
    start(opened, "a")
    start(opened, "b")
    opened.forked(instance="a", pid=7, started="123")
    opened.gone("b")
    opened.close()
    (entry,) = journal.read(path)
    assert (entry.instance, entry.pid, entry.started, entry.key, entry.port) == ("a", 7, "123", "m#0", 10)


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_torn_last_line_is_a_step_that_did_not_happen(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    opened = Journal(path)
    start(opened, "a")
    whole = path.read_bytes()
    opened.forked(instance="a", pid=7, started="123")
    opened.close()
    path.write_bytes(path.read_bytes()[: len(whole) + cut])
    (entry,) = journal.read(path)
    assert entry.pid is None


TORN = [
    b'{"event": "gone", "inst',
    b'{"event": "start", "instance": "x", "job_id": "{\\"event\\": \\"sta',
    b"{",
    b"\0" * 100,
    b'{"event": "gone", "instance": "other"}',
]


@pytest.mark.parametrize("torn", TORN)
def test_a_writer_begins_on_a_fresh_line_behind_a_torn_one(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(torn)
    opened = Journal(path)
    start(opened, "a")
    opened.forked(instance="a", pid=7, started="123")
    opened.close()
    assert path.read_bytes().startswith(torn + b"\n")
    assert [(entry.instance, entry.pid) for entry in journal.read(path)] == [("a", 7)]


@pytest.mark.parametrize("torn", TORN)
def test_a_record_glued_to_a_torn_one_is_read(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal"
    opened = Journal(path)
    start(opened, "a")
    opened.forked(instance="a", pid=7, started="123")
    opened.close()
    path.write_bytes(b"".join(torn + line for line in path.read_bytes().splitlines(keepends=True)))
    assert [(entry.instance, entry.pid) for entry in journal.read(path)] == [("a", 7)]


def test_a_name_that_looks_like_a_record_is_none(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    key = json.dumps({"event": "gone", "instance": "a"})
    opened = Journal(path)
    opened.starting(instance="a", job_id="j", op_generation=1, key=key, port=10)
    opened.close()
    assert [entry.key for entry in journal.read(path)] == [key]


def test_a_start_that_finds_no_room_is_an_error_and_an_end_is_none() -> None:
    opened = Journal(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left") as raised:
        start(opened, "a")
    assert raised.value.errno == errno.ENOSPC
    opened.gone("a")
    opened.close()


def test_compacting_keeps_only_what_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    opened = Journal(path)
    start(opened, "a")
    start(opened, "b")
    opened.forked(instance="b", pid=8, started="9")
    opened.close()
    kept = [entry for entry in journal.read(path) if entry.instance == "b"]
    journal.compact(path, kept)
    assert journal.read(path) == kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    journal.compact(path, [])
    assert path.read_bytes() == b""


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "nothing") == []
