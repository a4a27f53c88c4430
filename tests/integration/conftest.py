"""A database of its own for each test module."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.embedded_servers import Servers


@pytest.fixture(scope="module")
def empty_database_url(servers: Servers) -> Iterator[str]:
    """A database without a schema."""
    with servers.new_database() as url:
        yield url


@pytest.fixture(scope="module")
def database_url(empty_database_url: str) -> str:
    """A database with the newest schema."""
    if importlib.util.find_spec("localai.db.migrate") is not None:
        from localai.cli.migrations import upgrade

        upgrade(empty_database_url)
    return empty_database_url
