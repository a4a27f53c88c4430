"""Fixtures: a cluster whose processes are ended whatever the test does."""

from __future__ import annotations

import resource
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, show_complaints


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An empty cluster with scaled windows and the fault backend."""
    cluster = Cluster(tmp_path / "cluster", {**SCALED_WINDOWS, "LOCALAI_ENABLE_FAULT_BACKEND": "true"})
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same, shared by the tests of a module."""
    folder = tmp_path_factory.mktemp("shared")
    cluster = Cluster(folder / "cluster", {**SCALED_WINDOWS, "LOCALAI_ENABLE_FAULT_BACKEND": "true"})
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The machine of `up`, for the tests of a module that need no settings of their own: a start costs 7 s of CPU."""
    variables = {**SCALED_WINDOWS, "LOCALAI_ENABLE_FAULT_BACKEND": "true", "LOCALAI_UPLOAD_LIMIT": "1"}
    cluster = Cluster(tmp_path_factory.mktemp("machine") / "cluster", {**variables, "LOCALAI_THREADS": "1"})
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def up(machine: Cluster) -> Frontend:
    """`localai up`, started with the limit of open files that most machines give a user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        frontend = machine.up()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    frontend.wait_for_nodes(1)
    return frontend


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a test that failed, show what the processes of its cluster complained about last."""
    report = yield
    show_complaints(item, report)
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="every crash point, and not only a few; long tests too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What `make prove` runs is not run by CI, which has a limit."""
    if config.getoption("whole") or config.option.markexpr == "long":
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]
