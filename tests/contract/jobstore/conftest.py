"""Both stores, each empty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from localai.db import migrate
from localai.db.engine import make_engine
from tests.contract.jobstore.stores import WINDOWS, MemoryStores, PostgresStores, Stores
from tests.embedded_servers import Servers


@pytest.fixture(scope="module")
def engine(servers: Servers) -> Iterator[Engine]:
    with servers.new_database() as url:
        engine = make_engine(url, application="contract", pool_size=4)
        migrate.upgrade(engine)
        yield engine
        engine.dispose()


@pytest.fixture
def postgres(engine: Engine) -> PostgresStores:
    stores = PostgresStores(engine)
    stores.empty()
    return stores


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest) -> Stores:
    if request.param == "memory":
        return MemoryStores()
    found: Stores = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def without_adoption(stores: Stores) -> Stores:
    """The same kind of stores where no load is adopted."""
    windows = replace(WINDOWS, adopt_fresh_s=None)
    return PostgresStores(stores.engine, windows) if isinstance(stores, PostgresStores) else MemoryStores(windows)
