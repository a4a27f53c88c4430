"""Which files a node reports, how often, and for which it asks room."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause, StagedFile
from localai.nodes.holding_rules import HeldFile
from tests.unit.worker_agent.test_talks import Frontend, heartbeat
from worker_agent.files.digests import DigestCache
from worker_agent.files.fetch import Fetcher
from worker_agent.files.staged_files import StagedFiles, partial_of
from worker_agent.frontends import NoFrontend
from worker_agent.heartbeat import REPEAT_FILES_BEATS

pytestmark = pytest.mark.unit
CONTENT = b"x" * 100
SHA = hashlib.sha256(CONTENT).hexdigest()


class Node:
    """The models folder of a node."""

    def __init__(self, folder: Path) -> None:
        self.models = folder
        self.digests = DigestCache(folder / ".digests.json")
        self.staged = StagedFiles(folder, self.digests)

    def put(self, path: str, content: bytes = CONTENT, *, digest: str | None = SHA) -> Path:
        target = self.models / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if digest is not None:
            self.digests.put(target, digest)
        return target

    def held(self) -> list[tuple[str, str, int]]:
        return [(file.path, file.sha256, file.bytes) for file in self.staged.held()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_whole_file_is_reported_once_its_digest_is_known(node: Node) -> None:
    node.put("m/unknown.gguf", digest=None)
    node.put("m/sub/whole.gguf")
    assert node.held() == [("m/sub/whole.gguf", SHA[:12], 100)]


def test_a_file_that_changed_or_went_is_reported_no_more(node: Node) -> None:
    changed, gone = node.put("m/changed.gguf"), node.put("m/gone.gguf")
    os.utime(changed, ns=(1, 1))
    gone.unlink()
    assert node.held() == []


def test_what_was_received_of_a_file_is_reported_with_its_bytes(node: Node) -> None:
    left = partial_of(node.put("m/other.bin", digest=None).with_name("a.b.gguf"), SHA)
    left.write_bytes(b"12345")
    again = Node(node.models)
    assert again.held() == [("m/a.b.gguf", SHA[:12], 5)], "also what an earlier agent left"
    new = partial_of(node.models / "m" / "new.gguf", SHA)
    new.write_bytes(b"1234567")
    again.staged.receiving(new)
    left.unlink()
    assert again.held() == [("m/new.gguf", SHA[:12], 7)]


@pytest.mark.parametrize("name", ["model.gguf.partial", "a.partial", f"m.gguf.{SHA[:11]}g.partial", ".partial"])
def test_partial_files_of_other_programs_are_not_reported(node: Node, name: str) -> None:
    node.put(f"m/{name}", digest=None)
    assert Node(node.models).held() == [], "a frontend refuses every heartbeat with a digest that is none"


def test_a_file_whose_name_is_no_text_is_not_reported(node: Node) -> None:
    (node.models / os.fsdecode(b"\xff." + SHA[:12].encode() + b".partial")).write_bytes(b"12345")
    assert Node(node.models).held() == []


def test_a_digest_that_is_none_is_not_reported(node: Node) -> None:
    node.put("m/whole.gguf", digest="damaged")
    assert node.held() == []


def test_the_largest_files_are_named_if_there_are_more_than_a_report_holds(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_agent.files.staged_files.FILES_MOST", 2)
    for size in (1, 3, 2):
        node.put(f"m/{size}", b"x" * size)
    assert [path for path, _, _ in node.held()] == ["m/3", "m/2"]


def test_a_file_that_is_known_to_be_whole_is_taken_without_writing_anything(node: Node) -> None:
    target = node.put("m/whole.gguf")
    done: list[int] = []
    fetcher = Fetcher(None, node.digests, node.staged)  # type: ignore[arg-type]  # nothing is fetched
    before = sorted(node.models.rglob("*"))
    work: Any = None
    assert (
        fetcher.fetch(target.parent, wanted("whole.gguf"), stall_window_s=1.0, moved=done.append, work=work) == target
    )
    assert done == [100] and sorted(node.models.rglob("*")) == before


Usage = namedtuple("Usage", "total used free")


def wanted(name: str, size: int = 100) -> StagedFile:
    return StagedFile(path=name, size=size, sha256=SHA, sources=("/x",))


@pytest.mark.parametrize(("free", "fits"), [(200, True), (199, False)])
def test_room_is_asked_only_for_bytes_that_are_still_to_come(
    node: Node, monkeypatch: pytest.MonkeyPatch, free: int, fits: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1000, 0, free))
    node.put("m/whole.gguf")
    node.put("m/unknown.gguf", digest=None)
    node.put("m/other-version.gguf", digest="b" * 64)
    partial_of(node.models / "m" / "part.gguf", SHA).write_bytes(b"x" * 30)
    files = [wanted(name) for name in ("whole.gguf", "unknown.gguf", "other-version.gguf", "part.gguf")]
    files.append(wanted("new.gguf", 30))
    fetcher = Fetcher(None, node.digests, node.staged)  # type: ignore[arg-type]  # nothing is fetched
    if fits:
        fetcher.require_room(node.models / "m", files)
        return
    with pytest.raises(OperationFailed, match="the model of 5 files needs 200 more bytes, and 199 are free") as refused:
        fetcher.require_room(node.models / "m", files)
    assert refused.value.cause == Cause.DISK_FULL


def beats(frontend: Frontend, bodies: list[dict[str, Any]]) -> list[Any]:
    """The files that each beat carries."""
    now: dict[str, Any] = {"cpu_load_1": 0.5}
    made, _ = heartbeat(frontend, now)
    for body in bodies:
        now.pop("staged_files", None)
        now.update(body)
        made.beat()
    return [body.get("staged_files") for body in frontend.bodies]


def files(*sizes: int) -> dict[str, Any]:
    return {"staged_files": [HeldFile(path=f"m/{size}", sha256=SHA[:12], bytes=size).to_json() for size in sizes]}


def test_files_go_with_the_first_beat_and_whenever_they_changed() -> None:
    one, two = files(1)["staged_files"], files(1, 2)["staged_files"]
    sent = beats(Frontend("healthy"), [files(1), files(1), files(1, 2), files(1, 2), files()])
    assert sent == [one, None, two, None, []]


def test_files_that_no_frontend_took_are_sent_again() -> None:
    one = files(1)["staged_files"]
    assert beats(Frontend(NoFrontend("down"), "healthy", "healthy"), [files(1)] * 3) == [one, one, None]


def test_files_are_repeated_after_a_while_for_a_frontend_that_did_not_keep_them() -> None:
    sent = beats(Frontend("healthy"), [files(1)] * (REPEAT_FILES_BEATS + 2))
    assert [number for number, body in enumerate(sent) if body] == [0, REPEAT_FILES_BEATS]


def test_a_disk_that_could_not_be_read_says_nothing_of_its_files() -> None:
    assert beats(Frontend("healthy"), [files(1), {}, files(1)]) == [files(1)["staged_files"], None, None]
