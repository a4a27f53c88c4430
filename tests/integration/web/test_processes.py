"""How web processes start, share a machine and end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.embedded_servers import ROOT, clean_environment
from tests.fakes.inference import says
from tests.integration.web.bench import Bench, WebProcess
from tests.loopback import LIMIT_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def live_rows(bench: Bench) -> list[Any]:
    """Pids of frontends whose lease holds."""
    with bench.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT pid FROM frontends WHERE ended_at IS NULL AND lease_expires_at > clock_timestamp()"
        )
        return [row[0] for row in rows]


def workers_of(web: WebProcess) -> set[int]:
    children = f"/proc/{web.process.pid}/task/{web.process.pid}/children"
    with open(children) as file:
        return {int(pid) for pid in file.read().split()}


def test_pm_04_several_workers_serve_and_each_has_its_own_row(bench: Bench) -> None:
    web = bench.web(web_workers=2)
    bench.node(web)
    bench.model("shared")
    wait = bench.in_background(lambda: web.chat("shared"))
    bench.load("shared", bench.backend(says("ok")))
    assert wait.result(LIMIT_S).status_code == 200
    eventually(lambda: workers_of(web) <= set(live_rows(bench)), "a row of each worker")

    def ask(_: int) -> int:
        return _new_connection(web)

    eventually(lambda: set(bench.threads.map(ask, range(16))) == {200}, "both workers know the replica")
    assert list(bench.threads.map(ask, range(300))) == [200] * 300
    pids = workers_of(web)
    assert len(pids) == 2
    web.stop()
    assert not pids & set(live_rows(bench)), "nobody waits for a process that said goodbye"


def _new_connection(web: WebProcess) -> int:
    connection = web.open_chat("shared")
    try:
        return int(connection.recv(65536).split()[1])
    finally:
        connection.close()


def test_a_stopping_process_lets_a_stream_end(bench: Bench) -> None:
    from tests.fakes.inference import Silent

    web = bench.web()
    bench.node(web)
    bench.model("last")
    script = Silent("first")
    wait = bench.in_background(lambda: bench.load("last", bench.backend(script)))
    connection = web.open_chat("last", stream=True)
    wait.result(LIMIT_S)
    assert script.started.wait(LIMIT_S)
    web.process.terminate()
    eventually(lambda: _refuses(web), "no new connections")
    script.go.set()
    received = b""
    while piece := connection.recv(65536):
        received += piece
    assert b"late" in received and b"[DONE]" in received
    connection.close()
    assert web.process.wait(LIMIT_S) == 0


def _refuses(web: WebProcess) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", web.settings.port), timeout=1).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    ("variable", "value"), [("LOCALAI_MODEL_LOAD_WAIT", "soon"), ("LOCALAI_FRONTEND_LEASE_TTL", "10h")]
)
def test_a_setting_that_cannot_be_used_stops_the_start_with_its_name(variable: str, value: str) -> None:
    started = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "web/gunicorn_conf.py"), "web.app:create_app()"],
        env=clean_environment({variable: value}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert started.returncode != 0
    assert variable in started.stderr and "Traceback" not in started.stderr


def test_a_process_without_an_admin_key_does_not_start(bench: Bench) -> None:
    environ = bench.settings.environ()
    del environ["LOCALAI_API_KEY"]
    environ["LOCALAI_PORT"] = "0"
    started = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "web/gunicorn_conf.py"), "web.app:create_app()"],
        env=clean_environment(environ),
        cwd=bench.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert started.returncode != 0
    assert "LOCALAI_API_KEY" in started.stderr
    assert os.fspath(bench.folder) in started.stderr
