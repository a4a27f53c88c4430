"""Models whose only replica was on a machine that is gone: the next request loads them elsewhere."""

from __future__ import annotations

import pytest

from localai.clock import boottime
from tests.acceptance.cluster import Cluster, Frontend, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

#: Two scaled heartbeats without a word, a pass, the load, and a busy machine.
ELSEWHERE_S = 25.0


def test_a_model_whose_only_replica_died_with_its_node_is_loaded_elsewhere_by_the_next_request(
    cluster: Cluster,
) -> None:
    cluster.servers()
    frontend = cluster.frontend("front")
    workers = {name: cluster.worker(name, frontend) for name in ("one", "two")}
    frontend.wait_for_nodes(2)
    cluster.model("warm", "fault")
    frontend.wait_for_model("warm")
    assert frontend.chat_until_answered("warm").status_code == 200
    (dead,) = nodes_of(frontend, "warm")
    (left,) = set(workers) - {dead}
    workers[dead].kill_all()

    began = boottime()
    answer = frontend.chat("warm")
    took_s = boottime() - began
    assert answer.status_code == 200, answer.text
    assert took_s < ELSEWHERE_S, took_s
    assert set(nodes_of(frontend, "warm")) == {dead, left}, "the row of the old replica stays"
    status = {node["name"]: node["status"] for node in frontend.nodes()}
    assert status == {dead: "unhealthy", left: "healthy"}

    workers[dead] = cluster.worker(dead, frontend)
    wait_for("two healthy nodes", lambda: all(node["status"] == "healthy" for node in frontend.nodes()))
    assert nodes_of(frontend, "warm") == [left], "the new life of the worker runs nothing of the old one"


def nodes_of(frontend: Frontend, model: str) -> list[str]:
    """The names of the nodes that have a replica row of the model."""
    names = {node["id"]: node["name"] for node in frontend.nodes()}
    return [
        names[node_id]
        for node_id in names
        for row in frontend.get(f"/api/nodes/{node_id}/models").json()
        if row["model_name"] == model
    ]
