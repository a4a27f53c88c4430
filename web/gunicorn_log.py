"""gunicorn's own lines in the format of all others: one line each, bounded, without secrets."""

from __future__ import annotations

from typing import Any

from gunicorn import glogging


class Log(glogging.Logger):
    """Hands what gunicorn logs to the handlers of this process; its own would repeat a request line of any length."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
