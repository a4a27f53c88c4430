"""Which settings reach which process."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from localai.cli import processes
from localai.embedded.state_folder import StateFolder
from localai.settings import Settings

pytestmark = pytest.mark.unit

FOLDER = StateFolder(Path("/state"))


def settings(**changes: object) -> Settings:
    return replace(Settings(), **{"database_url": "postgresql://u:p@h/d", "api_key": ("key",), **changes})  # type: ignore[arg-type]  # names are the test's


def test_a_child_gets_exactly_our_settings_and_the_rest_of_the_environment() -> None:
    environ = {"PATH": "/bin", "LOCALAI_PORT": "1", "API_KEY": "old", "LOCALAI_MODELS_PATH": "/m", "OTHER": "x"}
    found = processes.child_environment(settings(web_workers=3), environ)
    assert Settings.load(found) == settings(web_workers=3)
    assert found["PATH"] == "/bin" and found["OTHER"] == "x"
    assert "API_KEY" not in found and "LOCALAI_PORT" not in found and "LOCALAI_MODELS_PATH" not in found


def test_the_agent_of_up_gets_no_credential_of_the_database_and_no_admin_key() -> None:
    given = settings(
        models_path=Path("/frontend/models"),
        registration_token="t",
        broker_url="redis://frontend:p@b",
        nats_url="nats://frontend:p@b",
        worker_broker_url="redis://worker:p@b",
        worker_nats_url="nats://worker:p@b",
        port=9000,
    )
    found = processes.agent_settings(given, FOLDER, 20000)
    assert (found.database_url, found.api_key, found.approve_node) == ("", (), "")
    assert found.models_path is None, "that name means the frontend's folder"
    assert found.data_path == Path("/state/worker")
    assert found.serve_addr == "127.0.0.1:20000"
    assert found.register_to == ("http://127.0.0.1:9000",)
    assert found.registration_token == "t"
    assert (found.broker_url, found.nats_url) == ("redis://worker:p@b", "nats://worker:p@b")
    assert "frontend:p" not in " ".join(found.environ().values()), "nothing with the rights of a frontend"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000"),
        ("0.0.0.0", "http://127.0.0.1:9000"),
        ("::", "http://[::1]:9000"),
        ("::1", "http://[::1]:9000"),
        ("10.0.0.5", "http://10.0.0.5:9000"),
        ("box.local", "http://box.local:9000"),
    ],
)
def test_the_local_url_can_be_dialled(address: str, url: str) -> None:
    assert processes.local_url(settings(address=address, port=9000)) == url


def test_ours_are_started_by_module_and_told_to_end_when_the_supervisor_dies() -> None:
    children = [
        processes.web(settings(), FOLDER, to_files=True),
        processes.control(settings(), FOLDER, to_files=False),
        processes.agent(settings(), FOLDER, 20000),
    ]
    assert [child.argv[:3] for child in children] == [
        (sys.executable, "-m", "gunicorn"),
        (sys.executable, "-m", "tasks.control"),
        (sys.executable, "-m", "worker_agent.main"),
    ]
    assert [child.parent_death_signal for child in children] == [signal.SIGQUIT, signal.SIGTERM, signal.SIGTERM]
    assert all(child.restart for child in children)
    assert children[0].argv[4].endswith("web/gunicorn_conf.py")
    assert (children[0].log, children[1].log) == (Path("/state/logs/web.log"), None)


def test_the_agent_has_time_to_end_its_groups() -> None:
    assert processes.agent(settings(stop_grace_s=25.0), FOLDER, 20000).stop_timeout_s > 25.0 + 10.0
