"""How the node says that it is there, and learns whether it is approved, unknown or replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from localai import logs
from localai.errors import LocalAIError, NodeRemoved, NotAuthenticated, NotFound, Replaced
from worker_agent.frontends import Frontends, Registered

log = logs.get(__name__)

Figures = Mapping[str, Any]
#: So many refusals of the credential in a row mean that it is not accepted any more.
REFUSALS_THAT_END = 3
#: Beats after which the list of staged files is sent again though it did not change: a frontend of an older version may
#: have taken it without keeping it.
REPEAT_FILES_BEATS = 30


class Heartbeat:
    """What one beat sends and what its answer means. Called on a timer."""

    def __init__(
        self,
        *,
        frontends: Frontends,
        registered: Registered,
        figures: Callable[[], Figures],
        replaced: Callable[[str], None],
        unknown: Callable[[str], None],
        removed: Callable[[str], None],
    ) -> None:
        self._frontends = frontends
        self._registered = registered
        self._figures = figures
        self._replaced = replaced
        self._unknown = unknown
        self._removed = removed
        self._status = registered.status
        self._refusals = 0
        self._files: Any = None
        self._files_age = 0

    @property
    def status(self) -> str:
        """The node's status in the words of the last answer."""
        return self._status

    def beat(self) -> None:
        """One heartbeat. ``replaced``, ``unknown`` or ``removed`` is called when the answer says so."""
        body, files = self._body()
        try:
            status = self._frontends.heartbeat(self._registered.node_id, body)
        except Replaced as error:
            self._replaced(error.message)
        except NodeRemoved as error:
            self._removed(error.message)
        except NotFound as error:
            self._unknown(error.message)
        except NotAuthenticated as error:
            self._refusals += 1
            log.warning("heartbeat refused", extra=logs.fields(reason=error.message))
            if self._refusals >= REFUSALS_THAT_END:
                self._replaced(f"the credential of this node is not accepted any more: {error.message}")
        except LocalAIError as error:
            log.warning("heartbeat not taken", extra=logs.fields(reason=error.message))
        else:
            self._refusals = 0
            self._remember(body, files)
            self._learn(status)

    def _body(self) -> tuple[dict[str, Any], Any]:
        """The body of a beat, without the list of staged files if a frontend took the same one lately; and the list."""
        body = {"incarnation": self._registered.incarnation, **self._figures()}
        files = body.get("staged_files")
        if files is not None and files == self._files and self._files_age < REPEAT_FILES_BEATS:
            del body["staged_files"]
        return body, files

    def _remember(self, body: Mapping[str, Any], files: Any) -> None:
        self._files_age += 1
        if "staged_files" in body:
            self._files, self._files_age = files, 1

    def _learn(self, status: str) -> None:
        if status and status != self._status:
            log.info("node status changed", extra=logs.fields(before=self._status, now=status))
            self._status = status
