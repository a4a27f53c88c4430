"""How the node says that it is there, and learns whether it is approved, unknown or replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from localai import logs
from localai.errors import LocalAIError, NodeRemoved, NotAuthenticated, NotFound, Replaced
from worker_agent.frontends import Frontends, Registered

log = logs.get(__name__)

Figures = Mapping[str, float | int | str]
#: So many refusals of the credential in a row mean that it is not accepted any more.
REFUSALS_THAT_END = 3


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

    @property
    def status(self) -> str:
        """The node's status in the words of the last answer."""
        return self._status

    def beat(self) -> None:
        """One heartbeat. ``replaced``, ``unknown`` or ``removed`` is called when the answer says so."""
        body = {"incarnation": self._registered.incarnation, **self._figures()}
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
            self._learn(status)

    def _learn(self, status: str) -> None:
        if status and status != self._status:
            log.info("node status changed", extra=logs.fields(before=self._status, now=status))
            self._status = status
