"""How a backend comes to the node: once, whole or not at all, and never against the settings."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from localai.backends import catalogue
from localai.backends.catalogue import Entry, content_version
from localai.backends.platform_rules import Build
from localai.jobs.operation_rules import Answer, Cause, OpState, Order, Phase
from tests.integration.worker_agent.conftest import MakeRig, Rig, order
from worker_agent.install.backends import recover

pytestmark = pytest.mark.integration


def error_of(rig: Rig, wanted: Order) -> tuple[str, str, str]:
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None
    return ended.error.cause, ended.error.message, ended.error.stderr_tail


def tiny_wheel(folder: Path) -> Path:
    """A package that needs no network and no build."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    files = {
        "tiny.py": "ANSWER = 42\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(text)}")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "\n".join([*lines, "tiny-1.0.dist-info/RECORD,,"]) + "\n")
    return path


def locked(place: Path, hashed: Path) -> str:
    """A lock that takes the wheel from a place, with the hash of a file."""
    return f"tiny @ {place.as_uri()} --hash=sha256:{hashlib.sha256(hashed.read_bytes()).hexdigest()}\n"


@pytest.fixture
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gallery entry `own` whose requirements are one local wheel; the folder of its sources."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "run.sh").write_text('#!/bin/sh\nexec "$(dirname "$0")/venv/bin/python" "$(dirname "$0")/backend.py"\n')
    (source / "backend.py").write_text("import sys, tiny\nsys.exit(tiny.ANSWER)\n")
    wheel = tiny_wheel(source)
    (source / "requirements.txt").write_text("tiny==1.0\n")
    (source / catalogue.LOCK).write_text(locked(wheel, wheel))
    entry = Entry(name="own", description="", source=source)
    monkeypatch.setattr(catalogue, "_ENTRIES", (*catalogue._ENTRIES, entry))
    return source


def test_the_environment_of_a_backend_works_where_the_folder_was_renamed_to(rig: Rig, own_environment: Path) -> None:
    wanted = rig.run(order(backend="own"))
    cause, message, _ = error_of(rig, wanted)
    # It ran with its own package: that is where its exit status comes from.
    assert (cause, "status 42" in message) == (Cause.START_FAILED, True)
    place = rig.folders.backends / "own"
    assert json.loads((place / "metadata.json").read_text())["version"] == content_version(own_environment)
    assert subprocess.run([place / "run.sh"], check=False).returncode == 42
    assert [path.name for path in rig.folders.backends.iterdir() if path.is_dir()] == ["own"]


def test_a_failed_install_leaves_nothing_and_says_what_the_installer_said(rig: Rig, own_environment: Path) -> None:
    wheel = own_environment / "tiny-1.0-py3-none-any.whl"
    (own_environment / catalogue.LOCK).write_text(locked(Path("/nowhere/tiny-1.0-py3-none-any.whl"), wheel))
    cause, message, tail = error_of(rig, rig.run(order(backend="own")))
    assert cause == Cause.BACKEND_INSTALL_FAILED
    assert "own" in message
    assert "tiny-1.0" in tail
    assert not (rig.folders.backends / "own").exists()


def test_a_wheel_with_another_hash_than_the_lock_names_is_not_installed(rig: Rig, own_environment: Path) -> None:
    wheel = own_environment / "tiny-1.0-py3-none-any.whl"
    (own_environment / catalogue.LOCK).write_text(locked(wheel, own_environment / "run.sh"))
    cause, _, tail = error_of(rig, rig.run(order(backend="own")))
    assert cause == Cause.BACKEND_INSTALL_FAILED
    assert "DO NOT MATCH THE HASHES" in tail
    assert not (rig.folders.backends / "own").exists()


def test_settings_of_the_user_s_pip_do_not_put_packages_elsewhere(
    make_rig: MakeRig, own_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    config = tmp_path / "pip.conf"
    config.write_text(f"[install]\nprefix = {elsewhere}\nroot = {elsewhere}\n[global]\nuser = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_TARGET", str(elsewhere))
    rig = make_rig()
    cause, message, _ = error_of(rig, rig.run(order(backend="own")))
    assert (cause, "status 42" in message) == (Cause.START_FAILED, True), "it ran with its own package"
    assert not elsewhere.exists()


def test_an_install_over_its_limit_is_ended_with_everything_it_started(rig: Rig, own_environment: Path) -> None:
    cause, message, _ = error_of(rig, rig.run(order(backend="own", install_timeout_s=0.02)))
    assert cause == Cause.BACKEND_INSTALL_FAILED
    assert "LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT" in message
    assert rig.agent.supervisor.outputs() == []


def test_a_new_version_replaces_the_folder_and_the_same_one_does_nothing(
    rig: Rig, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_environment / "requirements.txt").unlink()
    (own_environment / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    assert "status 1" in error_of(rig, rig.run(order(backend="own", model="a")))[1]
    installed_at = (rig.folders.backends / "own").stat().st_ino
    assert "status 1" in error_of(rig, rig.run(order(backend="own", model="b")))[1]
    assert (rig.folders.backends / "own").stat().st_ino == installed_at
    (own_environment / "run.sh").write_text("#!/bin/sh\nexit 2\n")
    content_version.cache_clear()
    assert "status 2" in error_of(rig, rig.run(order(backend="own", model="c")))[1]


def test_two_loads_that_need_one_backend_install_it_once(make_rig: MakeRig) -> None:
    rig = make_rig(fault_install_delay_s=1.0)
    first, second = rig.run(order(model="a", backend="fault-slow")), rig.run(order(model="b", backend="fault-slow"))
    rig.frontend.wait_report(first, OpState.READY)
    rig.frontend.wait_report(second, OpState.READY)
    seen = {o.message for r in rig.frontend.reports for o in r.operations if o.phase is Phase.INSTALLING}
    assert "waiting for another install of this backend" in seen


def test_lj_11_a_delayed_install_ends_as_soon_as_its_row_is_cancelled(make_rig: MakeRig) -> None:
    rig = make_rig(fault_install_delay_s=600.0)
    wanted = rig.run(order(backend="fault-slow"))
    rig.frontend.wait(
        "installing", lambda: any(o.phase is Phase.INSTALLING for r in rig.frontend.reports for o in r.operations)
    )
    rig.frontend.answers[(wanted.job_id, wanted.op_generation)] = Answer.STOP
    assert error_of(rig, wanted)[0] == Cause.CANCELLED
    assert not list(rig.folders.backends.glob("fault-slow*"))


def test_a_node_that_may_not_install_says_so_and_uses_what_is_there(make_rig: MakeRig) -> None:
    rig = make_rig(disable_backend_install=True)
    cause, message, _ = error_of(rig, rig.run(order()))
    assert cause == Cause.BACKEND_INSTALL_DISABLED
    assert "LOCALAI_DISABLE_BACKEND_INSTALL" in message
    own = rig.folders.backends / "handmade"
    own.mkdir()
    (own / "run.sh").write_text("#!/bin/sh\nexit 9\n")
    assert "status 9" in error_of(rig, rig.run(order(backend="handmade")))[1]


@pytest.mark.parametrize(("name", "cause"), [("nothing", Cause.BACKEND_UNKNOWN), ("../x", Cause.BACKEND_UNKNOWN)])
def test_tq_05_an_unknown_backend_fails_once_and_visibly(rig: Rig, name: str, cause: Cause) -> None:
    assert error_of(rig, rig.run(order(backend=name)))[0] == cause


def test_a_backend_without_a_build_for_this_machine_is_refused_before_anything_is_made(
    rig: Rig, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tuple(
        replace(entry, builds=(Build("plan9", "mips"),)) if entry.name == "own" else entry
        for entry in catalogue._ENTRIES
    )
    monkeypatch.setattr(catalogue, "_ENTRIES", entries)
    assert error_of(rig, rig.run(order(backend="own")))[0] == Cause.BACKEND_UNAVAILABLE


def test_an_install_that_an_agent_died_in_is_undone_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "a.install-backup").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b.install-backup").mkdir()
    (tmp_path / "c.install-tmp").mkdir()
    (tmp_path / "d.install-tmp").mkdir()
    with open(tmp_path / ".d.lock", "w") as lock:  # another agent is installing that one
        fcntl.flock(lock, fcntl.LOCK_EX)
        recover(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["a", "b", "d.install-tmp"]
