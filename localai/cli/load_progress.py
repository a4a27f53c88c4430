"""How far is the load of a model, for a person who waits for its answer?"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TextIO
from urllib.parse import quote

from localai.cli.client import Client, ServerError, body_of
from localai.cli.line import Line, on_terminal
from localai.cli.output import size

#: How often the load is looked at. The first look waits as long: a warm model answers before it.
_INTERVAL_S = 1.0
_LOOK_TIMEOUT_S = 5.0


class LoadProgress:
    """A context that shows the load on standard error until `finish`: one changing line, or a line for each phase."""

    def __init__(self, client: Client, model: str, stream: TextIO | None = None) -> None:
        self._client = client
        self._path = f"/api/models/{quote(model, safe='')}/load-status"
        self._line = Line(stream or sys.stderr, changing=on_terminal() if stream is None else stream.isatty())
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="load-progress", daemon=True)

    def __enter__(self) -> LoadProgress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def wait(self, limit_s: float) -> None:
        """Let time pass until the request may be sent again."""
        self._finished.wait(limit_s)

    def finish(self) -> None:
        """Show nothing more: the answer has begun."""
        if not self._finished.is_set():
            # Not waited for: a look that is on its way must not delay the answer. The line takes nothing more.
            self._finished.set()
            self._line.close()

    def _watch(self) -> None:
        while not self._finished.wait(_INTERVAL_S):
            try:
                response = self._client.send("GET", self._path, timeout=_LOOK_TIMEOUT_S)
                if response.status_code == 200:
                    self._show(body_of(response))
            except ServerError:
                continue  # the request itself says what is wrong

    def _show(self, status: Any) -> None:
        if isinstance(status, Mapping):
            self._line.show(str(status.get("state")), describe(status))


def describe(status: Mapping[str, Any]) -> str:
    """One line about a load, from the fields of `load-status`."""
    words = [f"{status.get('model')}: {status.get('state')}"]
    if status.get("node"):
        words.append(f"on {status['node']}")
    total = status.get("total_bytes")
    # Once the backend reads the files, all of them have come: a full count would say that nothing is left.
    if isinstance(total, int) and total > 0 and status.get("state") != "loading":
        percent = status.get("progress")
        done = f"{float(percent):.0f} % of " if isinstance(percent, int | float) else ""
        words.append(f"{done}{size(total)}")
    words += _left(status)
    return ", ".join(words)


def _left(status: Mapping[str, Any]) -> list[str]:
    eta, low, high = (status.get(name) for name in ("eta_seconds", "eta_low", "eta_high"))
    if not isinstance(eta, int | float):
        return []
    bounds = f" ({low:.0f} to {high:.0f})" if isinstance(low, int | float) and isinstance(high, int | float) else ""
    return [f"about {eta:.0f} s left{bounds}"]
