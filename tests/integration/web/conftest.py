"""Fixtures: one web process for a module, and one node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.embedded_servers import Servers, open_folder
from tests.integration.web.bench import Bench, Node, WebProcess


@pytest.fixture(scope="module")
def bench(servers: Servers, database_url: str) -> Iterator[Bench]:
    with open_folder() as folder:
        bench = Bench(servers, database_url, folder)
        try:
            yield bench
        finally:
            bench.close()


@pytest.fixture(scope="module")
def web(bench: Bench) -> WebProcess:
    return bench.web()


@pytest.fixture(scope="module")
def node(bench: Bench, web: WebProcess) -> Node:
    return bench.node(web)
