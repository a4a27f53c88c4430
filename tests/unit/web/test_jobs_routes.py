"""GET /api/jobs: filters that say what is wrong, and a job followed to its end."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localai.bus.subjects import job_progress, job_result
from localai.ids import JobId
from localai.jobs.job import Job, State
from localai.jobs.operation_rules import Phase
from localai.jobs.ports import JobFilter
from localai.jobs.views import JobEvent, JobView, view
from tests.fakes.web import WebBench

pytestmark = pytest.mark.unit

ID = "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11"
NOW = datetime(2030, 1, 2, tzinfo=UTC)
ROW = view(Job(id=JobId(ID), kind="model.load", subject="m", generation=1, created_at=NOW, read_at=NOW))


class Jobs:
    """One job and its events, changed by the test."""

    def __init__(self) -> None:
        self.row: JobView = ROW
        self.said: list[JobEvent] = []
        self.filters: list[JobFilter] = []
        self.asked_after: list[int] = []

    def get(self, job_id: str) -> JobView | None:
        return self.row if job_id == ID else None

    def list(self, wanted: JobFilter) -> list[JobView]:
        self.filters.append(wanted)
        return [self.row]

    def children(self, job_id: str) -> list[JobView]:
        return []

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        self.asked_after.append(after)
        return [event for event in self.said if event.id > after]

    def say(self, name: str) -> None:
        self.said.append(
            JobEvent(
                id=len(self.said) + 1,
                job_id=ID,
                at=NOW,
                event=name,
                state="running",
                phase=None,
                generation=1,
                op_generation=None,
                actor=None,
                node_id=None,
                detail=None,
            )
        )


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def bench(tmp_path: Path, jobs: Jobs) -> WebBench:
    return WebBench(tmp_path, jobs=jobs)


def test_the_list_passes_every_filter_on(bench: WebBench, jobs: Jobs) -> None:
    query = f"state=running&kind=model.load&subject=org/m&node={ID}&limit=1&before={ID}"
    body = bench.get(f"/api/jobs?{query}").get_json()
    assert [job["id"] for job in body["jobs"]] == [ID]
    assert body["next"] == ID, "a full page says where the next begins"
    (wanted,) = jobs.filters
    assert wanted == JobFilter(
        state=State.RUNNING, kind="model.load", subject="org/m", node_id=ID, limit=1, before=(NOW, JobId(ID))
    )


def test_a_page_that_is_not_full_is_the_last(bench: WebBench) -> None:
    assert bench.get("/api/jobs").get_json()["next"] is None


@pytest.mark.parametrize(
    "query",
    [
        "state=sleeping",
        "limit=many",
        "limit=0",
        "limit=501",
        "limit=-1",
        "node=nobody",
        "before=x",
        "limit=" + "9" * 4000,
    ],
)
def test_a_wrong_filter_is_named(bench: WebBench, jobs: Jobs, query: str) -> None:
    response = bench.get(f"/api/jobs?{query}")
    assert response.status_code == 400
    error = response.get_json()["error"]
    assert query.split("=", maxsplit=1)[0] in error["message"] and error["param"] == query.split("=", maxsplit=1)[0]
    assert jobs.filters == []


def test_a_job_is_shown_with_its_events_and_children(bench: WebBench, jobs: Jobs) -> None:
    jobs.say("requested")
    body = bench.get(f"/api/jobs/{ID}").get_json()
    assert body["id"] == ID and body["children"] == []
    assert [event["event"] for event in body["events"]] == ["requested"]


@pytest.mark.parametrize("job_id", ["not-a-uuid", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_job_is_404(bench: WebBench, job_id: str) -> None:
    for path in (f"/api/jobs/{job_id}", f"/api/jobs/{job_id}/events"):
        response = bench.get(path)
        assert response.status_code == 404
        assert response.get_json()["error"]["message"]


def events_of(response: Any) -> list[tuple[str, Any]]:
    found = []
    for block in response.get_data(as_text=True).split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_an_ended_job_is_told_whole_and_the_stream_ends(bench: WebBench, jobs: Jobs) -> None:
    jobs.say("requested")
    jobs.say("succeeded")
    jobs.row = replace(ROW, state="succeeded")
    response = bench.get(f"/api/jobs/{ID}/events", buffered=True)
    assert response.mimetype == "text/event-stream"
    told = events_of(response)
    assert [name for name, _ in told] == ["event", "event", "job", "end"]
    assert told[-1][1] == {"state": "succeeded"}


def test_a_client_that_comes_back_hears_only_what_is_new(bench: WebBench, jobs: Jobs) -> None:
    jobs.say("requested")
    jobs.say("succeeded")
    jobs.row = replace(ROW, state="succeeded")
    response = bench.client.get(f"/api/jobs/{ID}/events", headers={**bench.key(), "Last-Event-ID": "1"}, buffered=True)
    assert [event["event"] for name, event in events_of(response) if name == "event"] == ["succeeded"]


@pytest.mark.parametrize(("given", "heard"), [("9" * 5000, 0), ("9" * 25, 0), ("-1", 2), ("\u00b2", 2), ("", 2)])
def test_any_last_event_id_is_understood_or_ignored(bench: WebBench, jobs: Jobs, given: str, heard: int) -> None:
    jobs.say("requested")
    jobs.say("succeeded")
    jobs.row = replace(ROW, state="succeeded")
    headers = {**bench.key(), "Last-Event-ID": given}
    response = bench.client.get(f"/api/jobs/{ID}/events", headers=headers, buffered=True)
    assert response.status_code == 200
    assert len([name for name, _ in events_of(response) if name == "event"]) == heard
    assert jobs.asked_after[-1] < 2**63


def test_a_live_job_is_followed_by_its_events_to_its_end(bench: WebBench, jobs: Jobs) -> None:
    jobs.say("requested")
    response = bench.client.get(f"/api/jobs/{ID}/events", headers=bench.key(), buffered=False)
    blocks = iter(response.response)
    assert b"requested" in next(blocks)
    assert b"event: job" in next(blocks)

    jobs.row = replace(ROW, state="running", phase=Phase.LOADING.value)
    bench.bus.publish(job_progress(ID), {})
    assert b'"phase": "loading"' in next(blocks)

    jobs.say("succeeded")
    jobs.row = replace(ROW, state="succeeded")
    bench.bus.publish(job_result(ID), {})
    assert b"succeeded" in next(blocks)
    assert b"event: job" in next(blocks)
    assert b"event: end" in next(blocks)
    assert list(blocks) == []
    response.close()


def test_following_ends_its_subscriptions_when_the_client_leaves(bench: WebBench, jobs: Jobs) -> None:
    response = bench.client.get(f"/api/jobs/{ID}/events", headers=bench.key(), buffered=False)
    next(iter(response.response))
    assert bench.bus._handlers
    before = len(bench.bus._handlers)
    response.close()
    assert len(bench.bus._handlers) == before - 2


def test_a_database_that_goes_away_does_not_end_the_stream(bench: WebBench, jobs: Jobs) -> None:
    from localai.errors import StorageUnavailable

    response = bench.client.get(f"/api/jobs/{ID}/events", headers=bench.key(), buffered=False)
    blocks = iter(response.response)
    assert b"event: job" in next(blocks)
    known, refused = jobs.get, iter([True])

    def get(job_id: str) -> JobView | None:
        if next(refused, False):
            bench.bus.publish(job_progress(ID), {})  # the next reading comes at once
            raise StorageUnavailable
        return known(job_id)

    jobs.get = get  # type: ignore[method-assign]
    jobs.row = replace(ROW, state="succeeded")
    bench.bus.publish(job_result(ID), {})
    assert b"event: job" in next(blocks)
    assert b"event: end" in next(blocks)
    response.close()
