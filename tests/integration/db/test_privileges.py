"""What the role of the control plane sees of sessions of other roles, as the guide of external servers says."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg2
import pytest

from localai.db.queries import load_queries
from tests.embedded_servers import Servers

pytestmark = pytest.mark.integration

ROLES = ("stats_plain", "stats_reader")


@pytest.fixture
def connections(servers: Servers, empty_database_url: str) -> Iterator[tuple[psycopg2.extensions.connection, int]]:
    """A connection that may take another role, and the pid of a session of the owner that holds a snapshot."""
    name = urlsplit(empty_database_url).path
    mine = psycopg2.connect(urlsplit(servers.owner_database_url)._replace(path=name).geturl())
    holder = psycopg2.connect(empty_database_url)
    mine.autocommit = True
    try:
        with mine.cursor() as cursor:
            for role in ROLES:
                cursor.execute(f"CREATE ROLE {role} LOGIN")
            cursor.execute("GRANT pg_read_all_stats TO stats_reader")
        holder.set_session(isolation_level="REPEATABLE READ")
        with holder.cursor() as cursor:
            cursor.execute("SELECT txid_current_snapshot()")
        yield mine, holder.info.backend_pid
    finally:
        holder.close()
        with mine.cursor() as cursor:
            cursor.execute("RESET SESSION AUTHORIZATION")
            for role in ROLES:
                cursor.execute(f"DROP ROLE IF EXISTS {role}")
        mine.close()


def test_the_age_of_the_oldest_snapshot_needs_no_grant_and_the_query_that_holds_it_does(
    connections: tuple[psycopg2.extensions.connection, int],
) -> None:
    mine, holder = connections
    age = load_queries("localai.gauges")["oldest_xmin_age"]
    ages, shown = {}, {}
    with mine.cursor() as cursor:
        for _ in range(3):
            cursor.execute("SELECT txid_current()")
        for role in ROLES:
            cursor.execute(f"SET SESSION AUTHORIZATION {role}")
            cursor.execute(str(age))
            ages[role] = cursor.fetchone()[0]
            cursor.execute("SELECT state, query FROM pg_stat_activity WHERE pid = %s", (holder,))
            shown[role] = cursor.fetchone()
            cursor.execute("RESET SESSION AUTHORIZATION")
    assert ages["stats_plain"] == ages["stats_reader"] >= 3
    assert shown["stats_plain"] == (None, "<insufficient privilege>")
    assert shown["stats_reader"] == ("idle in transaction", "SELECT txid_current_snapshot()")
