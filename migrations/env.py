"""How migrations run: one transaction, one advisory lock, short timeouts. `localai.db.migrate` is the caller."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

#: Any number nobody else uses; two frontends that start at once take turns on it.
MIGRATION_LOCK = 7_366_419_021

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, transaction_per_migration=False)
with context.begin_transaction():
    connection.execute(text("SET LOCAL lock_timeout = '60s'"))
    connection.execute(text("SET LOCAL statement_timeout = '300s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    context.run_migrations()
