"""What follows when a web process cannot dial a model process: its agent is asked, and then the heartbeats decide."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from localai import logs
from localai.clock import boottime
from localai.errors import StorageUnavailable
from localai.ids import NodeId
from localai.inference.ports import Endpoint
from web.worker_http import HasHttp, is_there

log = logs.get(__name__)

#: An agent is asked this often at most, however many replicas it had.
PAUSE_S = 5.0


class Node(HasHttp, Protocol):
    """A node's row."""

    @property
    def status(self) -> str: ...


class Nodes(Protocol):
    """The rows of nodes. Both raise StorageUnavailable."""

    def get(self, node_id: str) -> Node | None: ...
    def doubt(self, node_id: NodeId) -> None: ...


class Doubts:
    """Asks the agents of nodes whose model processes this web process cannot dial.

    An agent that answers reports by itself which of its processes have ended. One that does not is doubted in its row:
    it is taken out of use unless a heartbeat of it reaches any frontend, so a cut between two machines evicts nothing.
    """

    def __init__(
        self,
        nodes: Nodes,
        answers: Callable[[HasHttp], bool] = is_there,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._nodes, self._answers, self._clock = nodes, answers, clock
        self._lock = threading.Lock()
        self._asked_at: dict[str, float] = {}

    def unreachable(self, endpoint: Endpoint) -> None:
        """A dial has failed. Takes as long as an agent may take to answer."""
        if not self._due(endpoint.node_id):
            return
        try:
            node = self._nodes.get(endpoint.node_id)
            if node is not None and node.status == "healthy" and not self._answers(node):
                self._nodes.doubt(NodeId(endpoint.node_id))
        except StorageUnavailable as error:
            log.warning("a node that is not reached cannot be looked up: %s", error.message)

    def _due(self, node_id: str) -> bool:
        now = self._clock()
        with self._lock:
            if now - self._asked_at.get(node_id, float("-inf")) < PAUSE_S:
                return False
            self._asked_at[node_id] = now
            return True
