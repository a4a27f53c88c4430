"""A world for each test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localai.db import migrate
from localai.db.engine import make_engine
from tests.integration.world import World


@pytest.fixture(scope="module")
def world(empty_database_url: str) -> Iterator[World]:
    """The services over a database of their own."""
    engine = make_engine(empty_database_url, application="test", pool_size=20)
    migrate.upgrade(engine)
    world = World(engine)
    yield world
    world.close()
