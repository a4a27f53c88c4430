"""What every tier has: folders that the servers' account can reach, real servers on demand, closed sockets."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_socket

from tests.embedded_servers import Servers, started_servers

_LOOPBACK = ["127.0.0.1", "::1", "localhost"]
_BASE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Root's temporary folders lie where other accounts can pass: root's embedded servers run as another account."""
    if os.geteuid() == 0 and config.option.basetemp is None:
        outer = Path(tempfile.mkdtemp(prefix="localai-pytest-"))
        outer.chmod(0o711)
        config.stash[_BASE] = outer
        config.option.basetemp = str(outer / "base")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A failed run keeps its folders, with the logs in them."""
    outer = session.config.stash.get(_BASE, None)
    if outer is not None and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        shutil.rmtree(outer, ignore_errors=True)


class _OpenFolders:
    """pytest's factory, whose folders may be passed through (not listed) by every account."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory

    def mktemp(self, basename: str, numbered: bool = True) -> Path:
        folder = self._factory.mktemp(basename, numbered)
        base = self._factory.getbasetemp()
        # Side by side, each process of a run has its base within that of the first.
        for part in (base.parent, base, folder) if "PYTEST_XDIST_WORKER" in os.environ else (base, folder):
            part.chmod(0o711)
        return folder

    def __getattr__(self, name: str) -> object:
        return getattr(self._factory, name)


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Replaces pytest's own, also behind `tmp_path`."""
    return _OpenFolders(tmp_path_factory) if os.geteuid() == 0 else tmp_path_factory


@pytest.fixture(autouse=True)
def _sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unit tests open no socket; the others reach loopback only."""
    if request.node.get_closest_marker("unit"):
        pytest_socket.disable_socket(allow_unix_socket=True)
    else:
        pytest_socket.socket_allow_hosts(_LOOPBACK, allow_unix_socket=True)
    yield
    pytest_socket.enable_socket()
    pytest_socket._remove_restrictions()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """PostgreSQL, NATS and Valkey for the whole session."""
    with started_servers() as started:
        yield started
