"""When a web process that cannot dial a model process doubts its node."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from localai.errors import StorageUnavailable
from localai.inference.ports import Endpoint
from web.doubts import PAUSE_S, Doubts

pytestmark = pytest.mark.unit

ENDPOINT = Endpoint(node_id="n1", address="127.0.0.1:1", process_instance="i")


@dataclass
class Node:
    status: str = "healthy"
    name: str = "n"
    http_address: str = "127.0.0.1:2"


class Nodes:
    def __init__(self, node: Node | None) -> None:
        self.node, self.doubted, self.away = node, 0, False

    def get(self, node_id: str) -> Node | None:
        if self.away:
            raise StorageUnavailable
        return self.node

    def doubt(self, node_id: str) -> None:
        self.doubted += 1


@pytest.mark.parametrize(
    ("node", "answers", "doubted"),
    [
        (Node(), False, 1),
        (Node(), True, 0),
        (Node(status="unhealthy"), False, 0),
        (Node(status="draining"), False, 0),
        (None, False, 0),
    ],
)
def test_a_node_is_doubted_only_if_it_is_healthy_and_its_agent_does_not_answer_either(
    node: Node | None, answers: bool, doubted: int
) -> None:
    nodes = Nodes(node)
    Doubts(nodes, lambda _: answers).unreachable(ENDPOINT)
    assert nodes.doubted == doubted


def test_an_agent_is_asked_once_in_a_pause_however_many_dials_fail() -> None:
    now, asked, nodes = [0.0], [], Nodes(Node())
    doubts = Doubts(nodes, lambda node: bool(asked.append(node)), lambda: now[0])
    for _ in range(5):
        doubts.unreachable(ENDPOINT)
    assert len(asked) == 1
    now[0] += PAUSE_S
    doubts.unreachable(ENDPOINT)
    assert len(asked) == 2


def test_a_database_that_is_away_raises_no_doubt() -> None:
    nodes = Nodes(Node())
    nodes.away = True
    Doubts(nodes, lambda _: False).unreachable(ENDPOINT)
    assert nodes.doubted == 0
