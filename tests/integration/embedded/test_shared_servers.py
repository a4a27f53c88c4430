"""What the servers of one start promise to those that use them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psutil
import psycopg2
import pytest
import redis

from localai.embedded import probes
from tests.embedded_servers import Servers

pytestmark = pytest.mark.integration


def ports(servers: Servers) -> dict[str, int]:
    urls = {"postgres": servers.database_url, "nats": servers.nats_url, "valkey": servers.broker_url}
    return {name: urlsplit(url).port or 0 for name, url in urls.items()}


@pytest.fixture
def query(servers: Servers) -> Iterator[psycopg2.extensions.cursor]:
    with closing(psycopg2.connect(servers.database_url)) as connection, connection.cursor() as cursor:
        yield cursor


def test_the_database_is_postgresql_18_with_room_for_many_processes(query: psycopg2.extensions.cursor) -> None:
    query.execute("SELECT current_setting('server_version_num')::int / 10000, current_setting('max_connections')")
    assert query.fetchone() == (18, "200")
    query.execute("SELECT current_setting('password_encryption'), current_setting('unix_socket_directories')")
    assert query.fetchone() == ("scram-sha-256", "")
    query.execute(
        "SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()"
    )
    assert query.fetchone() == ("C", "UTF8")


def test_vector_search_is_there(query: psycopg2.extensions.cursor) -> None:
    query.execute("CREATE EXTENSION vector")
    query.execute("SELECT '[1,2]'::vector <-> '[1,4]'::vector")
    assert query.fetchone() == (2.0,)


def test_a_wrong_password_is_refused_by_every_server(servers: Servers) -> None:
    wrong = urlsplit(servers.database_url)._replace(netloc=f"localai:wrong@127.0.0.1:{ports(servers)['postgres']}")
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(wrong.geturl())
    assert not probes.nats_answers(ports(servers)["nats"], "wrong")
    assert not probes.valkey_answers(ports(servers)["valkey"], "wrong")
    with closing(redis.Redis(port=ports(servers)["valkey"])) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_servers_listen_on_loopback_only(servers: Servers) -> None:
    wanted = set(ports(servers).values())
    listening = {
        connection.laddr
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port in wanted
    }
    assert {address.port for address in listening} == wanted
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_the_queue_survives_a_crash_and_evicts_nothing(servers: Servers) -> None:
    with closing(redis.Redis.from_url(servers.broker_url)) as client:
        wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_no_secret_stands_on_a_command_line(servers: Servers) -> None:
    secrets = {urlsplit(url).password or urlsplit(url).username for url in (servers.database_url, servers.broker_url)}
    secrets.add(urlsplit(servers.nats_url).username)
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        assert not any(secret and secret in line for secret in secrets), process


def test_a_database_for_a_test_is_fresh_and_reachable(database_url: str, servers: Servers) -> None:
    assert database_url != servers.database_url
    with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_sockets_to_other_machines_are_closed_in_tests() -> None:
    with pytest.raises(Exception, match=r"192\.0\.2\.1"), socket.socket() as probe:
        probe.connect(("192.0.2.1", 80))
