"""What the servers of one start promise to those that use them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import astuple
from urllib.parse import urlsplit

import nats
import psutil
import psycopg2
import pytest
import redis

from localai.bus.nats import NatsBus, ThreadDelivery
from localai.embedded import probes
from localai.errors import NodeUnreachable, NoRoute
from tests.embedded_servers import Servers
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration


def ports(servers: Servers) -> dict[str, int]:
    urls = {"postgres": servers.database_url, "nats": servers.nats_url, "valkey": servers.broker_url}
    return {name: urlsplit(url).port or 0 for name, url in urls.items()}


@pytest.fixture
def query(servers: Servers) -> Iterator[psycopg2.extensions.cursor]:
    with closing(psycopg2.connect(servers.database_url)) as connection, connection.cursor() as cursor:
        yield cursor


def test_the_database_is_postgresql_18_with_room_for_many_processes(servers: Servers) -> None:
    place = urlsplit(servers.owner_database_url)._replace(path="/localai").geturl()
    with closing(psycopg2.connect(place)) as connection, connection.cursor() as query:
        _is_postgresql_18(query)


def _is_postgresql_18(query: psycopg2.extensions.cursor) -> None:
    query.execute("SELECT current_setting('server_version_num')::int / 10000, current_setting('max_connections')")
    assert query.fetchone() == (18, "200")
    query.execute("SELECT current_setting('password_encryption'), current_setting('unix_socket_directories')")
    assert query.fetchone() == ("scram-sha-256", "")
    query.execute(
        "SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()"
    )
    assert query.fetchone() == ("C", "UTF8")


def test_vector_search_is_there(servers: Servers) -> None:
    with closing(psycopg2.connect(servers.owner_database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION vector")
        cursor.execute("SELECT '[1,2]'::vector <-> '[1,4]'::vector")
        assert cursor.fetchone() == (2.0,)


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY pg_temp.lines FROM PROGRAM 'id'",
        "COPY pg_temp.lines FROM '/etc/passwd'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT lo_import('/etc/passwd')",
        "ALTER SYSTEM SET archive_command = 'id'",
        "CREATE ROLE more SUPERUSER",
        "ALTER ROLE localai SUPERUSER",
        "CREATE DATABASE more",
        "CREATE EXTENSION file_fdw",
        "SET ROLE localai_owner",
    ],
)
def test_the_role_of_the_application_has_no_right_on_the_machine(
    query: psycopg2.extensions.cursor, statement: str
) -> None:
    query.connection.autocommit = True
    query.execute("CREATE TEMPORARY TABLE lines (line text)")
    with pytest.raises(
        (psycopg2.errors.InsufficientPrivilege, psycopg2.errors.UndefinedFile, psycopg2.errors.FeatureNotSupported)
    ):
        query.execute(statement)


def test_the_role_of_the_application_owns_its_database_and_reads_statistics(
    query: psycopg2.extensions.cursor,
) -> None:
    query.execute("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()")
    assert query.fetchone() == ("localai",)
    query.execute(
        "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls FROM pg_roles "
        "WHERE rolname = current_user"
    )
    assert query.fetchone() == (False,) * 5
    query.execute("SELECT pg_has_role('pg_read_all_stats', 'USAGE'), pg_has_role('pg_execute_server_program', 'USAGE')")
    assert query.fetchone() == (True, False)


def test_a_wrong_password_is_refused_by_every_server(servers: Servers) -> None:
    wrong = urlsplit(servers.database_url)._replace(netloc=f"localai:wrong@127.0.0.1:{ports(servers)['postgres']}")
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(wrong.geturl())
    for user in ("frontend", "worker", "default"):
        assert not probes.nats_answers(ports(servers)["nats"], user, "wrong")
        assert not probes.valkey_answers(ports(servers)["valkey"], user, "wrong")
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
    with closing(redis.Redis.from_url(servers.owner_broker_url)) as client:
        wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


FORBIDDEN = (
    *(
        "FLUSHALL",
        "FLUSHDB",
        "SHUTDOWN",
        "MONITOR",
        "SAVE",
        "SCAN 0",
        "SUBSCRIBE x",
        "SET dramatiq:x 1",
    ),
    *(
        "CONFIG GET *",
        "CONFIG SET dir /tmp",
        "ACL LIST",
        "SCRIPT FLUSH",
        "FUNCTION LIST",
        "MODULE LIST",
        "EVAL return(1) 0",
    ),
    *("REPLICAOF 127.0.0.1 1", "CLIENT KILL TYPE normal", "CLIENT LIST", "HSET other a b"),
)


@pytest.mark.parametrize("role", ["broker_url", "worker_broker_url"])
def test_a_user_of_the_queue_has_the_commands_of_the_queue_only(servers: Servers, role: str) -> None:
    with closing(redis.Redis.from_url(getattr(servers, role))) as client:
        for command in FORBIDDEN:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())


@pytest.mark.parametrize("key", ["dramatiq:control", "dramatiq:control.msgs", "other"])
@pytest.mark.parametrize("command", ["DEL", "LPOP", "HGET", "RPUSH"])
def test_a_script_of_a_worker_reaches_no_queue_but_those_of_nodes(servers: Servers, key: str, command: str) -> None:
    with closing(redis.Redis.from_url(servers.worker_broker_url)) as client:
        rest = "" if command in ("DEL", "LPOP") else ", 'x'"
        script = client.script_load(f"return redis.call('{command}', ARGV[1]{rest})")
        client.evalsha(script, 0, f"dramatiq:node.{command.lower()}")
        with pytest.raises(redis.ResponseError, match="access"):
            client.evalsha(script, 0, key)


def test_nobody_speaks_to_the_queue_without_a_user(servers: Servers) -> None:
    password = urlsplit(servers.worker_broker_url).password
    with (
        closing(redis.Redis(port=ports(servers)["valkey"], password=password)) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


def test_no_secret_stands_on_a_command_line(servers: Servers) -> None:
    secrets = {urlsplit(url).password for url in astuple(servers)}
    assert len(secrets) == len(astuple(servers))
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


async def _refused(url: str, publish: Sequence[str], subscribe: Sequence[str]) -> set[str]:
    """The subjects that a user of the bus may not publish to or listen on, in the words of the server."""
    said: list[str] = []

    async def note(error: Exception) -> None:
        said.append(str(error).lower())

    client = await nats.connect(url, error_cb=note, allow_reconnect=False)
    try:
        for subject in publish:
            await client.publish(subject, b"{}")
        for subject in subscribe:
            await client.subscribe(subject)
        for _ in range(50):  # each answer of the server may come after the round trip that follows it
            await client.flush()
    finally:
        await client.close()
    return {subject for subject in (*publish, *subscribe) if any(f'"{subject.lower()}"' in text for text in said)}


FRONTEND_ONLY = ["jobs.j-1.result", "jobs.j-1.progress", "routing.changed", "nodes.n-1.model.stop"]
NOBODY = ["_INBOX.x.1", "$SYS.REQ.SERVER.PING", "other"]


def test_a_worker_publishes_nothing_on_the_bus_and_hears_questions_to_nodes_only(servers: Servers) -> None:
    publish = [*FRONTEND_ONLY, "nodes.changed", *NOBODY]
    subscribe = ["jobs.*.result", "routing.changed", "nodes.changed", "_INBOX.>", ">", "$SYS.>"]
    allowed = ["nodes.n-1.model.stop"]
    assert asyncio.run(_refused(servers.worker_nats_url, publish, subscribe)) == {*publish, *subscribe}
    assert asyncio.run(_refused(servers.worker_nats_url, [], allowed)) == set()


def test_a_frontend_cannot_answer_for_a_node(servers: Servers) -> None:
    subscribe = ["nodes.n-1.model.stop", "nodes.>", ">"]
    assert asyncio.run(_refused(servers.nats_url, NOBODY, subscribe)) == {*NOBODY, *subscribe}
    allowed = ["jobs.*.progress", "jobs.*.result", "routing.changed", "nodes.changed", "_INBOX.mine.>"]
    assert asyncio.run(_refused(servers.nats_url, [*FRONTEND_ONLY, "nodes.changed"], allowed)) == set()


def test_a_worker_answers_the_question_that_it_was_asked(servers: Servers) -> None:
    node = NatsBus(servers.worker_nats_url, name="node", delivery=ThreadDelivery())
    frontend = NatsBus(servers.nats_url, name="frontend", delivery=ThreadDelivery())
    try:
        node.serve("n-2", "model.stop", lambda payload: {"heard": payload["job_id"]})

        def answered() -> bool:
            try:
                return frontend.request("n-2", "model.stop", {"job_id": "j"}, LIMIT_S) == {"heard": "j"}
            except (NoRoute, NodeUnreachable):
                return False

        eventually(answered, "the answer of the node")
    finally:
        node.close()
        frontend.close()
