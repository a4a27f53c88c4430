"""How the schema gets to the version this code needs."""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from localai.db.unit_of_work import translate


def upgrade(engine: Engine) -> None:
    """Run the migrations that are missing, in one transaction, under one advisory lock; none missing is fine.

    Safe to call from several processes at once: the second waits and then finds nothing to do. Raises
    StorageUnavailable.
    """
    try:
        with engine.connect() as connection:
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
    except SQLAlchemyError as error:
        raise translate(error) from error


def head() -> str | None:
    """The newest revision this code knows."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("migrations")).replace("%", "%%"))
    return config
