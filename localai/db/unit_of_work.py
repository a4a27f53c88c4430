"""What one transaction is: begun late, committed once, and never left open by whatever interrupts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from sqlalchemy import Connection, CursorResult, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from localai import logs
from localai.errors import RowsHeld, StorageUnavailable

log = logs.get(__name__)

P = ParamSpec("P")
R = TypeVar("R")

#: A lock is waited for one second, so this is as long as a statement may take.
TRIES = 10
#: lock_not_available, deadlock_detected, serialization_failure.
_HELD = frozenset({"55P03", "40P01", "40001"})


class UnitOfWork:
    """One transaction as a context manager.

    Leaves by commit, by rollback for an ordinary exception, and by throwing the connection away for anything else (a
    killed greenlet, a timeout, an interrupt): such an exception may have cut a statement in two. A database that
    cannot be reached, refuses or does not answer in time becomes StorageUnavailable, whose text carries no SQL; one
    that undid the transaction for the locks of others becomes RowsHeld.
    """

    def __init__(self, engine: Engine, *, isolation: str | None = None) -> None:
        self._engine, self._isolation = engine, isolation
        self._connection: Connection | None = None
        self._hooks: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    @property
    def connection(self) -> Connection:
        """The connection of the open transaction."""
        if self._connection is None:
            raise RuntimeError("the unit of work is not open")
        return self._connection

    def after_commit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call ``function`` when the commit has succeeded and the connection is back; its failure undoes nothing."""
        self._hooks.append((function, arguments))

    def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> CursorResult[Any]:
        """Run one statement of a ``queries.sql``. Raises StorageUnavailable.

        Texts are made storable: words of other programs (the end of a log, say) may hold a NUL or half a character,
        which no row can, and must not keep a job from ending.
        """
        try:
            return self.connection.exec_driver_sql(statement, _storable(parameters or {}))
        except SQLAlchemyError as error:
            raise translate(error) from error

    def __enter__(self) -> Self:
        try:
            self._connection = self._engine.connect()
            if self._isolation is not None:
                self._connection = self._connection.execution_options(isolation_level=self._isolation)
        except SQLAlchemyError as error:
            raise translate(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connection, self._connection = self.connection, None
        try:
            if error is None:
                self._commit(connection)
            elif isinstance(error, Exception):
                self._roll_back(connection)
            else:
                connection.invalidate()
        finally:
            connection.close()
        if error is None:
            self._run_hooks()
        elif isinstance(error, SQLAlchemyError):
            raise translate(error) from error

    @staticmethod
    def _commit(connection: Connection) -> None:
        try:
            connection.commit()
        except SQLAlchemyError as error:
            # Whether it was committed is unknown: the caller reads the row again and believes only it.
            connection.invalidate()
            raise translate(error) from error
        except BaseException:
            connection.invalidate()
            raise

    @staticmethod
    def _roll_back(connection: Connection) -> None:
        try:
            connection.rollback()
        except BaseException as error:
            connection.invalidate()
            if not isinstance(error, SQLAlchemyError):
                raise

    def _run_hooks(self) -> None:
        for function, arguments in self._hooks:
            try:
                function(*arguments)
            except Exception:
                log.exception("after commit")


UnitOfWorkFactory = Callable[[], UnitOfWork]


def units_of(engine: Engine) -> UnitOfWorkFactory:
    """What opens transactions on an engine."""
    return lambda: UnitOfWork(engine)


def repeated(move: Callable[P, R]) -> Callable[P, R]:
    """A move of a store that somebody waits for, made again where the locks of others undid its transaction.

    For moves that are one transaction, or whose earlier ones only read. A holder that stands still for a moment (a
    slow disk, a busy machine) then costs the time and not the move. Raises RowsHeld after `TRIES`.
    """

    @wraps(move)
    def made(*arguments: P.args, **named: P.kwargs) -> R:
        for tried in range(1, TRIES):
            try:
                return move(*arguments, **named)
            except RowsHeld as error:
                held = logs.fields(move=move.__qualname__, tried=tried, reason=error.facts.get("reason"))
                log.info("rows are held by others: once more", extra=held)
        return move(*arguments, **named)

    return made


def _storable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: storable(value) if isinstance(value, str) else value for name, value in parameters.items()}


def storable(text: str) -> str:
    """The text without what a text column cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def translate(error: SQLAlchemyError) -> Exception:
    """StorageUnavailable for what the database's state explains, the error itself for a fault of ours.

    Decided by class and SQLSTATE, never by text: connection failures (08), shut-down and cancelled statements (57),
    lack of resources (53), unknown ends (40); RowsHeld for lock timeouts, deadlocks and serialization failures.
    """
    if isinstance(error, PoolTimeout):
        return StorageUnavailable("every database connection of this process is busy", reason="pool")
    if isinstance(error, DBAPIError):
        state = str(getattr(error.orig, "pgcode", None) or "")
        if state in _HELD:
            return RowsHeld(reason=state)
        if error.connection_invalidated or state[:2] in ("08", "57", "53", "40"):
            return StorageUnavailable(reason=state or "connection")
        if not state and isinstance(error, OperationalError | InterfaceError):
            return StorageUnavailable(reason="connection")
    return error
