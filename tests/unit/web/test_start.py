"""What the start of a web process imports, and when: the master what a worker needs, and no process what it never needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]

#: Libraries that serve other processes or commands. Each would add to the time in which nothing answers.
NEVER = {
    "alembic",
    "fakeredis",
    "gguf",
    "httpcore2",
    "httpx2",
    "mako",
    "numpy",
    "openai",
    "pip",
    "psutil",
    "pynvml",
    "pytest",
    "setuptools",
    "unittest",
    "waitress",
    "worker_agent",
    "xllamacpp",
}

#: Loads the file as gunicorn's master does, then builds what a worker builds after its fork.
_PROGRAM = """
import json, os, runpy, sys, threading
runpy.run_path("web/gunicorn_conf.py")
import gunicorn.workers.ggevent
master = set(sys.modules)
threads = threading.active_count()
sockets = [f for f in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{f}")
           and os.readlink(f"/proc/self/fd/{f}").startswith("socket:")]
import web.app, web.wiring
web.app.make_app(web.wiring.build_services())
print(json.dumps([sorted(master), sorted(set(sys.modules) - master), threads, len(sockets)]))
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str], int, int]:
    """Modules of the master, modules that only the worker adds, and the master's threads and sockets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCALAI_")}
    environment = kept | {
        "LOCALAI_AUTH_DATABASE_URL": "postgresql://user:password@127.0.0.1:1/none",
        "LOCALAI_BROKER_URL": "redis://127.0.0.1:1/0",
        "LOCALAI_API_KEY": "a-key-of-twenty-characters",
        "LOCALAI_STATE_DIR": str(tmp_path_factory.mktemp("state")),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    master, added, threads, sockets = json.loads(done.stdout)
    return set(master), set(added), threads, sockets


Started = tuple[set[str], set[str], int, int]


def test_a_worker_inherits_every_module_from_the_master(started: Started) -> None:
    master, added, _, _ = started
    assert {"web.app", "web.wiring", "sqlalchemy", "flask"} <= master
    assert added == set()


def test_the_master_opens_no_connection_and_starts_no_thread(started: Started) -> None:
    _, _, threads, sockets = started
    assert (threads, sockets) == (1, 0)


def test_no_library_is_imported_that_a_web_process_never_uses(started: Started) -> None:
    master, added, _, _ = started
    assert {name.partition(".")[0] for name in master | added} & NEVER == set()
