"""A worker that beats and takes no orders, because its queue is another one than the frontends'."""

from __future__ import annotations

import pytest

from localai.clock import boottime
from tests import plain_http
from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, free_port, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

#: Longer than the 20 s after which a consumer that reads nothing is rebuilt.
LOOKS_S = 24.0
#: Two dispatch windows, a sweep, a load, and a busy machine.
FIRST_S = 20.0


@pytest.mark.long
def test_a_worker_that_does_not_reach_its_queue_costs_one_load_two_windows(cluster: Cluster) -> None:
    assert SCALED_WINDOWS["LOCALAI_DISPATCH_WINDOW"] == "2s"
    cluster.servers()
    frontend = cluster.frontend("front")
    cluster.worker("a-deaf", frontend, LOCALAI_WORKER_BROKER_URL=f"redis://127.0.0.1:{free_port()}/0")
    cluster.worker("b-works", frontend)
    frontend.wait_for_nodes(2)
    names = {node["id"]: node["name"] for node in frontend.nodes()}
    for number in range(4):
        cluster.model(f"cold-{number}", "fault")
    frontend.wait_for_model("cold-3")

    took_s = []
    for number in range(4):
        began = boottime()
        answer = frontend.chat(f"cold-{number}")
        took_s.append(boottime() - began)
        assert answer.status_code == 200, answer.text
    loads = frontend.jobs(kind="model.load")
    assert [row["state"] for row in loads] == ["succeeded"] * 4, "no attempt failed"
    assert {names[row["node_id"]] for row in loads} == {"b-works"}
    assert took_s[0] < FIRST_S, took_s
    placements = [len(placed(frontend, row["id"])) for row in loads]
    assert sum(placements) == 5, "one order only went to the worker that takes none"

    (deaf,) = (node for node in frontend.nodes() if node["name"] == "a-deaf")
    assert deaf["status"] == "healthy" and deaf["silent_since"], deaf


@pytest.mark.long
def test_a_worker_that_does_not_reach_its_queue_is_not_ready_also_while_its_consumer_is_rebuilt(
    cluster: Cluster,
) -> None:
    cluster.servers()
    frontend = cluster.frontend("front")
    http = f"127.0.0.1:{free_port()}"
    cluster.worker(
        "deaf", frontend, LOCALAI_WORKER_BROKER_URL=f"redis://127.0.0.1:{free_port()}/0", LOCALAI_HTTP_ADDR=http
    )
    frontend.wait_for_nodes(1)
    began, looks = boottime(), []

    def look() -> bool:
        looks.append(plain_http.get(f"http://{http}/readyz", timeout=10))
        return boottime() - began > LOOKS_S

    wait_for("the looks", look)
    assert {response.status_code for response in looks} == {503}
    assert "the broker of LOCALAI_BROKER_URL does not answer" in looks[-1].text


def placed(frontend: Frontend, job_id: str) -> list[str]:
    """The placements of a job that has ended."""
    return [
        line for line in frontend.get(f"/api/jobs/{job_id}/events").text.splitlines() if '"event": "placed"' in line
    ]
