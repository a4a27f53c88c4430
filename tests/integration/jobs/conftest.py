"""A world for each test module; in it an agent, control and frontends for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localai.db import migrate
from localai.db.engine import make_engine
from tests.integration.jobs.frontends import Frontend
from tests.integration.world import Agent, Control, World


@pytest.fixture(scope="module")
def world(empty_database_url: str) -> Iterator[World]:
    """The services over a database of their own."""
    engine = make_engine(empty_database_url, application="test", pool_size=20)
    migrate.upgrade(engine)
    world = World(engine)
    yield world
    world.close()


@pytest.fixture
def agent(world: World) -> Agent:
    """The only node that serves: those of earlier tests are gone."""
    for node in world.nodes.list():
        if node.status != "offline":
            world.nodes.deregister(node.id)
    return Agent(world)


@pytest.fixture
def control(world: World) -> Control:
    return Control(world)


@pytest.fixture
def frontends(world: World) -> Iterator[tuple[Frontend, Frontend]]:
    pair = Frontend(world), Frontend(world)
    yield pair
    for frontend in pair:
        frontend.feed.stop()


@pytest.fixture
def frontend(world: World) -> Iterator[Frontend]:
    frontend = Frontend(world)
    yield frontend
    frontend.feed.stop()
