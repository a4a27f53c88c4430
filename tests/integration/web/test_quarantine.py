"""A model that fails again and again on its only node: what every surface says, and how it is tried again."""

from __future__ import annotations

import httpx2
import pytest

from localai.ids import JobId, new_id
from localai.jobs.job import State
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import OperationError, OperationReport, OpState, Phase
from localai.jobs.ports import NewJob
from tests import plain_http
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.loopback import eventually

pytestmark = pytest.mark.integration
AFTER = 3


def begin(web: WebProcess, model: str) -> str:
    asked = web.client.post("/backend/load", json={"model": model})
    assert asked.status_code == 202, asked.text
    return str(asked.json()["job_id"])


def fail(bench: Bench, model: str, cause: str = "start_failed") -> str:
    """The live attempt of a model ends as its agent says; its hold is over at once."""
    job_id = JobId(bench.place(model))
    job = bench.rows.jobs.get(job_id)
    assert job is not None and job.op_generation is not None
    error = OperationError(cause=cause, message=f"it says {cause}", stderr_tail="its last words")
    bench.node_of(job_id).report(
        OperationReport(
            job_id=job_id,
            op_generation=job.op_generation,
            op_state=OpState.ENDED,
            phase=Phase.LOADING,
            error=error,
        )
    )
    bench.ownership.stepper.step(job.id, job.generation)
    ended = bench.rows.jobs.get(job_id)
    assert ended is not None and ended.state is State.FAILED
    return job_id


def end_hold(bench: Bench, job_id: str) -> None:
    with bench.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE jobs SET hold_until = now() WHERE id = %(id)s", {"id": job_id})


def quarantine(bench: Bench, web: WebProcess, model: str) -> str:
    """The id of the last attempt."""
    for _ in range(AFTER):
        begin(web, model)
        job_id = fail(bench, model)
        end_hold(bench, job_id)
    return job_id


def retry(web: WebProcess, path: str) -> httpx2.Response:
    return web.client.post(path)


def loads_of(web: WebProcess, model: str) -> list[str]:
    jobs = web.client.get("/api/jobs", params={"kind": "model.load", "subject": model}).json()["jobs"]
    return [job["id"] for job in jobs]


def test_lj_08_three_failures_in_a_row_end_the_attempts_and_every_surface_says_so(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("quarantined")
    last = quarantine(bench, web, "quarantined")

    refused = web.chat("quarantined")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "300")
    error = refused.json()["error"]
    assert (error["code"], error["type"]) == ("model_quarantined", "model_load_failed")
    for word in ("in quarantine", "node-1", "3 loads", "start_failed", "since 20", "localai jobs retry quarantined"):
        assert word in error["message"], word
    assert refused.json()["loading"]["state"] == "failed"
    assert web.client.post("/backend/load", json={"model": "quarantined"}).json()["error"]["code"] == error["code"]
    assert len(loads_of(web, "quarantined")) == AFTER, "no attempt was made"

    status = web.client.get("/api/models/quarantined/load-status").json()
    assert (status["state"], status["job_id"], status["error_cause"]) == ("failed", last, "start_failed")
    (told,) = status["quarantined"]
    assert (told["node"], told["cause"], told["failures"], told["job_id"]) == ("node-1", "start_failed", 3, last)
    listed = {model["name"]: model for model in web.client.get("/api/models").json()["models"]}
    assert listed["quarantined"]["quarantined"] == [told]
    assert web.client.get(f"/api/nodes/{node.id}").json()["quarantined"] == [told]
    assert told in next(row for row in web.client.get("/api/nodes").json() if row["id"] == node.id)["quarantined"]
    line = 'localai_quarantines{cause="start_failed",model="quarantined",node="node-1"} 3.0'
    eventually(lambda: line in web.client.get("/metrics").text, "the gauge")


def test_a_retry_by_the_id_of_a_job_lifts_it_and_begins_a_new_attempt(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("retried")
    last = quarantine(bench, web, "retried")
    again = retry(web, f"/api/jobs/{last}/retry")
    assert (again.status_code, again.json()["lifted"], again.json()["loaded"]) == (202, 1, False)
    assert again.json()["job_id"] == loads_of(web, "retried")[0] != last

    live = retry(web, f"/api/jobs/{last}/retry")
    assert (live.status_code, live.json()["error"]["code"]) == (409, "attempt_live")
    assert live.json()["current_job_id"] == again.json()["job_id"]

    failed = fail(bench, "retried")
    held = retry(web, f"/api/jobs/{failed}/retry")
    assert (held.status_code, held.json()["error"]["code"]) == (503, "model_load_failed")
    assert 1 <= int(held.headers["Retry-After"]) <= 15
    end_hold(bench, failed)
    assert retry(web, f"/api/jobs/{failed}/retry").status_code == 202


def test_a_retry_by_the_name_of_a_model_needs_no_job(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("by/name")
    last = quarantine(bench, web, "by/name")
    with bench.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM jobs WHERE subject = 'by/name'")
    assert retry(web, f"/api/jobs/{last}/retry").status_code == 404
    assert web.chat("by/name").json()["error"]["code"] == "model_quarantined"
    again = retry(web, "/api/models/by%2Fname/load-retry")
    assert (again.status_code, again.json()["lifted"]) == (202, 1)


def test_what_cannot_be_tried_again_says_why(bench: Bench, web: WebProcess, node: Node) -> None:
    (bench.models / "switched-off.yaml").write_text("name: switched-off\nbackend: fault\ndisabled: true\n")
    eventually(lambda: "switched-off" in web.client.get("/api/models").text, "the model that is switched off")
    for path, status in (
        (f"/api/jobs/{new_id()}/retry", 404),
        ("/api/jobs/none-of-ours/retry", 404),
        ("/api/models/nobody-wrote-this/load-retry", 404),
        ("/api/models/switched-off/load-retry", 403),
        ("/api/models//load-retry", 400),
    ):
        assert retry(web, path).status_code == status, path
        assert plain_http.post(web.url + path).status_code == 401
    _, install = bench.rows.jobs.request(NewJob(kind=MODEL_INSTALL, subject="fetched-by-hand"))
    other = retry(web, f"/api/jobs/{install.id}/retry")
    assert other.status_code == 400 and "model.install" in other.json()["error"]["message"]


def test_the_quarantine_of_a_model_whose_config_is_gone_can_be_lifted(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("gone")
    quarantine(bench, web, "gone")
    (bench.models / "gone.yaml").unlink()
    eventually(lambda: "gone" not in bench.listed(web), "the config seen gone")
    assert retry(web, "/api/models/gone/load-retry").status_code == 404
    assert bench.rows.quarantines.list(model="gone") == []


def test_an_edited_config_lifts_it_and_one_that_comes_back_is_tried_again(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("edited")
    quarantine(bench, web, "edited")
    bench.model("edited", description="another try")
    eventually(lambda: web.client.get("/api/models/edited/load-status").status_code == 404, "the edit seen")
    begin(web, "edited")
    end_hold(bench, fail(bench, "edited"))
    bench.model("edited")
    eventually(lambda: bench.rows.quarantines.list(model="edited") == [], "the edit seen")
    eventually(lambda: web.client.post("/backend/load", json={"model": "edited"}).status_code == 202, "a new attempt")
