"""How does the schema get up to date before anything of ours reads it?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from localai.errors import BadSetting, StartRefused, StorageUnavailable

#: Servers that start at the same time as we do are there within this.
DATABASE_LIMIT_S = 60.0
_AGAIN_S = 1.0


def import_early() -> Callable[[], None]:
    """Begin with the imports of `upgrade` on another thread, while servers start; returns what waits for their end.

    To be waited for before anything of them is imported elsewhere: SQLAlchemy and Alembic import themselves in circles,
    and two threads that walk a circle from two sides get a half-made module.
    """

    def load() -> None:
        # A failure comes again, and is told, where the same is imported for use.
        with suppress(ImportError):
            from localai.db import engine, migrate  # noqa: F401

    thread = threading.Thread(target=load, name="import-migrations", daemon=True)
    thread.start()
    return thread.join


def upgrade(url: str) -> None:
    """Run the migrations that are missing. Raises StorageUnavailable, BadSetting, StartRefused."""
    from alembic.util import CommandError

    from localai.db.engine import make_engine
    from localai.db.migrate import upgrade as run

    try:
        engine = make_engine(url, application="localai-migrate", pool_size=1)
    except Exception as error:  # noqa: BLE001  # whatever the URL parser or the driver says about it
        raise BadSetting(
            "LOCALAI_AUTH_DATABASE_URL", "(hidden)", f"a PostgreSQL URL ({type(error).__name__})"
        ) from None
    try:
        run(engine)
    except CommandError as error:
        # What a database says that a newer release has migrated already.
        raise StartRefused(f"the database's schema does not fit this release: {error}") from error
    finally:
        engine.dispose()


def upgrade_when_reachable(url: str, say: Callable[[str], None]) -> None:
    """The same, waiting for a database that does not answer yet. Not for the main thread. Raises StartRefused."""
    end = time.monotonic() + DATABASE_LIMIT_S
    told = False
    while True:
        try:
            upgrade(url)
            return
        except StorageUnavailable as error:
            if time.monotonic() > end:
                raise StartRefused(f"the database cannot be used: {error.message}") from error
            if not told:
                say(f"the database does not answer yet, trying for {DATABASE_LIMIT_S:.0f} s: {error.message}")
                told = True
        time.sleep(_AGAIN_S)
