"""What an interrupted statement, a frozen database and a role with short timeouts do to a process. LJ-01, PM-02, PM-03."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from localai.clock import boottime
from localai.db import migrate, waiting
from localai.db.engine import make_engine, statement_count
from localai.db.unit_of_work import UnitOfWork
from localai.errors import StorageUnavailable
from tests.embedded_servers import clean_environment
from tests.loopback import eventually, free_port

pytestmark = pytest.mark.integration


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    engine = make_engine(empty_database_url, application="limits", pool_size=2)
    yield engine
    engine.dispose()


def _value(engine: Engine, statement: str) -> object:
    with UnitOfWork(engine) as uow:
        return uow.execute(statement).scalar_one()


def test_our_limits_win_over_those_of_the_role(empty_database_url: str, engine: Engine) -> None:
    with UnitOfWork(engine) as uow:
        uow.execute("ALTER ROLE CURRENT_USER SET statement_timeout = '2s'")
        uow.execute("ALTER ROLE CURRENT_USER SET lock_timeout = '250ms'")
    try:
        fresh = make_engine(empty_database_url, application="fresh")
        limits = [_value(fresh, f"SELECT current_setting('{name}')") for name in ("statement_timeout", "lock_timeout")]
        fresh.dispose()
        assert limits == ["10s", "1s"]
    finally:
        with UnitOfWork(engine) as uow:
            uow.execute("ALTER ROLE CURRENT_USER RESET ALL")


def test_the_text_of_an_error_shows_no_parameter(engine: Engine) -> None:
    with pytest.raises(DBAPIError) as refused, UnitOfWork(engine) as uow:
        uow.execute("SELECT %(secret)s, 1 / 0", {"secret": "a-secret-of-a-process"})
    assert "division by zero" in str(refused.value)
    assert "a-secret-of-a-process" not in str(refused.value)


def test_a_row_that_is_locked_for_too_long_is_storage_unavailable_without_sql_in_the_text(engine: Engine) -> None:
    with UnitOfWork(engine) as uow:
        uow.execute("CREATE TABLE IF NOT EXISTS held (id int PRIMARY KEY)")
        uow.execute("INSERT INTO held VALUES (1) ON CONFLICT DO NOTHING")
    with UnitOfWork(engine) as uow:
        uow.execute("SELECT id FROM held FOR UPDATE")
        with pytest.raises(StorageUnavailable) as refused, UnitOfWork(engine) as other:
            other.execute("SELECT id FROM held FOR UPDATE")
    assert "SELECT" not in str(refused.value)
    assert _value(engine, "SELECT count(*) FROM held") == 1, "the connection is usable again"


@pytest.mark.parametrize("reason", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_pm_03_whatever_interrupts_a_transaction_leaves_none_open(engine: Engine, reason: type[BaseException]) -> None:
    with pytest.raises(reason), UnitOfWork(engine) as uow:
        pid = uow.execute("SELECT pg_backend_pid()").scalar_one()
        raise reason
    assert not _value(engine, f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND state LIKE 'idle in%%'")


def test_an_ordinary_error_rolls_back_and_keeps_the_connection(engine: Engine) -> None:
    with pytest.raises(ValueError, match="ours"), UnitOfWork(engine) as uow:
        first = uow.execute("SELECT pg_backend_pid()").scalar_one()
        uow.execute("CREATE TABLE rolled_back (id int)")
        raise ValueError("ours")
    assert _value(engine, "SELECT pg_backend_pid()") == first
    assert _value(engine, "SELECT to_regclass('rolled_back')::text") is None


def test_what_follows_a_commit_runs_only_after_it_and_cannot_undo_it(engine: Engine) -> None:
    seen: list[object] = []
    with UnitOfWork(engine) as uow:
        uow.execute("CREATE TABLE committed (id int)")
        uow.after_commit(lambda: seen.append(_value(engine, "SELECT to_regclass('committed')::text")))
        uow.after_commit(lambda: 1 / 0)
        uow.after_commit(seen.append, "last")
        assert seen == []
    assert seen == ["committed", "last"]
    with pytest.raises(ValueError, match="no"), UnitOfWork(engine) as uow:
        uow.after_commit(seen.append, "never")
        raise ValueError("no")
    assert seen == ["committed", "last"]


def test_pm_02_a_database_that_is_frozen_costs_a_bounded_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from psycopg2 import extensions

    monkeypatch.setattr(waiting, "STATEMENT_LIMIT_S", 1.0)
    waiting.install_for_threads()
    try:
        with UnitOfWork(engine) as uow:
            pid = uow.execute("SELECT pg_backend_pid()").scalar_one()
        os.kill(pid, signal.SIGSTOP)
        try:
            began = boottime()
            with pytest.raises(StorageUnavailable), UnitOfWork(engine) as uow:
                uow.execute("SELECT 1")
            assert boottime() - began < 20
        finally:
            os.kill(pid, signal.SIGCONT)
        assert _value(engine, "SELECT 1") == 1
    finally:
        extensions.set_wait_callback(None)


def test_pm_02_a_database_that_is_not_there_is_storage_unavailable() -> None:
    engine = make_engine(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing", application="absent")
    with pytest.raises(StorageUnavailable), UnitOfWork(engine) as uow:
        uow.execute("SELECT 1")


def test_a_full_pool_is_storage_unavailable(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from localai.db import engine as engines

    monkeypatch.setattr(engines, "POOL_TIMEOUT_S", 0.1)
    engine = make_engine(empty_database_url, application="small", pool_size=1)
    try:
        with (
            UnitOfWork(engine),
            UnitOfWork(engine),
            pytest.raises(StorageUnavailable),
            UnitOfWork(engine),
        ):
            pass
    finally:
        engine.dispose()


def test_statements_are_counted_for_each_context(engine: Engine) -> None:
    before, counts = statement_count(), []

    def other() -> None:
        start = statement_count()
        _value(engine, "SELECT 1")
        _value(engine, "SELECT 2")
        counts.append(statement_count() - start)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(30)
    assert counts == [2]
    assert statement_count() == before
    _value(engine, "SELECT 3")
    assert statement_count() == before + 1


MIGRATE = """
import sys
from localai.db import migrate
from localai.db.engine import make_engine
migrate.upgrade(make_engine(sys.argv[1], application="migrate"))
"""


def test_two_processes_that_migrate_at_once_both_succeed(empty_database_url: str, engine: Engine) -> None:
    command = [sys.executable, "-c", MIGRATE, empty_database_url]
    processes = [
        subprocess.Popen(command, env=clean_environment(), stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert _value(engine, "SELECT version_num FROM alembic_version") == migrate.head()


GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent, sys
from localai.db import waiting
from localai.db.engine import make_engine, statement_count
from localai.db.gevent_wait import install_wait_callback
from localai.db.unit_of_work import UnitOfWork
from localai.errors import StorageUnavailable

install_wait_callback()
engine = make_engine(sys.argv[1], application="greenlets", pool_size=4)
ticks = []

def tick():
    while True:
        ticks.append(1)
        gevent.sleep(0.01)

def ask(statement):
    with UnitOfWork(engine) as uow:
        return uow.execute(statement).scalar_one()

ticker = gevent.spawn(tick)
began = statement_count()
greenlets = [gevent.spawn(ask, "SELECT 1 FROM pg_sleep(0.5)") for _ in range(4)]
gevent.joinall(greenlets, raise_error=True)
assert len(ticks) > 5, "the hub stood still"
assert statement_count() == began, "another greenlet's statements were counted here"

killed = gevent.spawn(ask, "SELECT pg_sleep(60)")
gevent.sleep(0.3)
killed.kill()
with gevent.Timeout(20):
    while ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'greenlets' AND state <> 'active' "
              "AND state LIKE 'idle in%%'"):
        gevent.sleep(0.05)
    assert ask("SELECT 2") == 2

timed_out = 0
try:
    with gevent.Timeout(0.3):
        ask("SELECT pg_sleep(60)")
except gevent.Timeout:
    timed_out = 1
assert timed_out and ask("SELECT 3") == 3

waiting.STATEMENT_LIMIT_S = 0.3
try:
    ask("SELECT pg_sleep(60)")
except StorageUnavailable:
    print("bounded")
"""


def test_pm_03_greenlets_wait_side_by_side_and_a_killed_one_leaves_no_transaction(empty_database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GEVENT, empty_database_url],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "bounded\n"), done.stderr


def test_a_lost_connection_is_replaced(engine: Engine) -> None:
    pid = _value(engine, "SELECT pg_backend_pid()")
    other = make_engine(engine.url.render_as_string(hide_password=False), application="other")
    _value(other, f"SELECT pg_terminate_backend({pid})")

    def again() -> bool:
        try:
            return _value(engine, "SELECT 1") == 1
        except StorageUnavailable:
            return False

    eventually(again, "a new connection")
    other.dispose()
