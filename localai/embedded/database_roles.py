"""Roles of the embedded PostgreSQL: an owner of the cluster, and the role of the application, which is no superuser.

A superuser can have the server run programs (`COPY ... FROM PROGRAM`) and read its files, so no process of ours logs in
as one while it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from localai.embedded import probes
from localai.embedded.credentials import DATABASE, DATABASE_OWNER, Credentials
from localai.errors import StartRefused

#: Role of the moment in which the cluster of an earlier version changes its owner: no role can rename itself.
_MOVER = "localai_mover"

_STATE = """
SELECT rolsuper, pg_has_role('pg_read_all_stats', 'USAGE'), EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s)
  FROM pg_roles WHERE rolname = current_user
"""

#: Everything in the database that belongs to %(owner)s, apart from the system's own and members of extensions.
#: A sequence of a column changes its owner with the table.
_OBJECTS = """
SELECT format('ALTER TABLE %%s OWNER TO', c.oid::regclass)
  FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
 WHERE r.rolname = %(owner)s AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND c.oid >= 16384
   AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                      AND (d.deptype = 'e' OR (c.relkind = 'S' AND d.deptype IN ('a', 'i'))))
UNION ALL
SELECT format('ALTER ROUTINE %%s OWNER TO', p.oid::regprocedure)
  FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
 WHERE r.rolname = %(owner)s AND p.oid >= 16384
   AND NOT EXISTS (SELECT 1 FROM pg_depend d
                    WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
UNION ALL
SELECT format('ALTER TYPE %%s OWNER TO', t.oid::regtype)
  FROM pg_type t JOIN pg_roles r ON r.oid = t.typowner
 WHERE r.rolname = %(owner)s AND t.typtype IN ('e', 'd', 'r') AND t.oid >= 16384
   AND NOT EXISTS (SELECT 1 FROM pg_depend d
                    WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
UNION ALL
SELECT format('ALTER SCHEMA %%I OWNER TO', n.nspname)
  FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
 WHERE r.rolname = %(owner)s AND n.oid >= 16384
"""


def settled(credentials: Credentials, say: Callable[[str], None]) -> bool:
    """Whether the application's role can log in to its database and has the rights it should have.

    Makes what is missing: called until it is true. One login if nothing is. Raises StartRefused.
    """
    if not probes.accepts(credentials.postgres_port):
        return False
    from psycopg2 import Error, OperationalError  # slow to import, and only this probe needs it

    superuser = False
    try:
        with _connected(credentials, DATABASE, credentials.postgres_password, DATABASE) as cursor:
            cursor.execute(_STATE, (_MOVER,))
            superuser, reads_stats, moving = cursor.fetchone()
        if reads_stats and not superuser and not moving:
            return True
    except OperationalError:
        pass  # its role or its database may not exist yet, or the server is still starting
    try:
        if superuser:
            say("moving the database to a role that is no superuser (once)")
            _move(credentials)
        _make(credentials)
    except OperationalError:
        return False
    except Error as error:
        raise StartRefused(f"the roles of the database cannot be made: {str(error).strip()}") from None
    return True


def _make(credentials: Credentials) -> None:
    """Make the application's role and its database, as the owner of the cluster."""
    from psycopg2 import sql

    role = sql.Identifier(DATABASE)
    with _connected(credentials, DATABASE_OWNER, credentials.postgres_owner_password, "postgres") as cursor:
        cursor.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(_MOVER)))
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (DATABASE,))
        if cursor.fetchone() is None:
            _create_role(cursor, credentials)
        cursor.execute(sql.SQL("GRANT pg_read_all_stats TO {}").format(role))
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
        if cursor.fetchone() is None:
            cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))


def _move(credentials: Credentials) -> None:
    """Give the first superuser of the cluster, which cannot lose its rights, the name of the owner.

    Its old name and password go to a new role, which owns the database and all in it from then on. One transaction; the
    role that does it is removed afterwards.
    """
    from psycopg2 import sql

    app, owner, mover = (sql.Identifier(name) for name in (DATABASE, DATABASE_OWNER, _MOVER))
    password = sql.Literal(credentials.postgres_owner_password)
    with _connected(credentials, DATABASE, credentials.postgres_password, DATABASE) as cursor:
        cursor.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(mover))
        cursor.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(mover, password))
    with _connected(credentials, _MOVER, credentials.postgres_owner_password, DATABASE) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(sql.SQL("ALTER ROLE {} RENAME TO {}").format(app, owner))
        cursor.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(owner, password))
        _create_role(cursor, credentials)
        cursor.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(app, app))
        cursor.execute(_OBJECTS, {"owner": DATABASE_OWNER})
        for (statement,) in cursor.fetchall():
            cursor.execute(sql.SQL("{} {}").format(sql.SQL(statement), app))
        cursor.execute("COMMIT")


def _create_role(cursor: Any, credentials: Credentials) -> None:
    from psycopg2 import sql

    role, password = sql.Identifier(DATABASE), sql.Literal(credentials.postgres_password)
    statement = sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD {}")
    cursor.execute(statement.format(role, password))


@contextmanager
def _connected(credentials: Credentials, user: str, password: str, database: str) -> Iterator[Any]:
    """A cursor whose statements commit one by one. Raises OperationalError."""
    import psycopg2

    connection = psycopg2.connect(
        host="127.0.0.1",
        port=credentials.postgres_port,
        user=user,
        password=password,
        dbname=database,
        connect_timeout=2,
    )
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
