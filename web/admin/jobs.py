"""GET /api/jobs: what is being done, what was done, following one job to its end, and ending it before."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from datetime import datetime

from flask import Blueprint, Response, jsonify, request

from localai.bus.ports import Payload
from localai.bus.subjects import job_progress, job_result
from localai.errors import CallCancelled, NotFound, StorageUnavailable
from localai.jobs.cancel_rules import CancelState
from localai.jobs.job import TERMINAL
from localai.jobs.views import JobEvent, JobView
from web import sse
from web.access import Access, open_to
from web.client_watch import ClientWatch
from web.schemas.jobs import read_job_filter
from web.services import Services, services

blueprint = Blueprint("admin_jobs", __name__)


@blueprint.get("/api/jobs")
@open_to(Access.ADMIN)
def list_jobs() -> Response:
    jobs = services().jobs

    def created_at(job_id: str) -> datetime | None:
        job = jobs.get(job_id)
        return job.created_at if job else None

    wanted = read_job_filter(request.args, created_at)
    found = jobs.list(wanted)
    return jsonify(
        {"jobs": [job.to_json() for job in found], "next": found[-1].id if len(found) == wanted.limit else None}
    )


@blueprint.get("/api/jobs/<job_id>")
@open_to(Access.ADMIN)
def show_job(job_id: str) -> Response:
    jobs = services().jobs
    job = _existing(services(), job_id)
    return jsonify(
        {
            **job.to_json(),
            "events": [event.to_json() for event in jobs.events(job_id)],
            "children": [child.to_json() for child in jobs.children(job_id)],
        }
    )


@blueprint.get("/api/jobs/<job_id>/events")
@open_to(Access.ADMIN)
def follow_job(job_id: str) -> Response:
    """Events `job` (the row, when it changed), `event` (each accepted move, with its id) and at the end `end`."""
    job = _existing(services(), job_id)
    watch = ClientWatch.of(request.environ)
    return sse.stream(_follow(services(), job, sse.last_event_id(), watch), watch)


@blueprint.post("/api/jobs/<job_id>/cancel")
@open_to(Access.ADMIN)
def cancel_job(job_id: str) -> Response:
    """200 once nothing of the job runs, 202 while its worker has not said so, 409 for what cannot be cancelled."""
    answer = services().cancels.cancel(job_id)
    response = jsonify(answer.to_json())
    if answer.state is CancelState.STOPPING:
        response.status_code = 202
        response.headers["Retry-After"] = str(answer.retry_after)
    return response


@blueprint.post("/api/jobs/<job_id>/force")
@open_to(Access.ADMIN)
def force_job(job_id: str) -> Response:
    """202: the unload or drain waits for no request any more; running ones are cut. 409 for any other job."""
    job = services().unloads.force(job_id)
    response = jsonify(
        {"job_id": job.id, "kind": job.kind, "subject": job.subject, "message": "running requests are cut"}
    )
    response.status_code = 202
    return response


def _existing(found: Services, job_id: str) -> JobView:
    job = found.jobs.get(job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


def _follow(found: Services, job: JobView, after: int, watch: ClientWatch) -> Generator[bytes]:
    """Events are hints to read the row; a slow reading finds what was lost."""
    nudged, gone = threading.Event(), threading.Event()

    def nudge(_: str, __: Payload) -> None:
        nudged.set()

    def leave() -> None:
        gone.set()
        nudged.set()

    ends = [found.events.subscribe(subject, nudge) for subject in (job_progress(job.id), job_result(job.id))]
    try:
        with watch.during(leave):
            shown: JobView | None = None
            news: Sequence[JobEvent]
            while not gone.is_set():
                nudged.clear()
                # The row before its events: a job that has ended has all of them.
                try:
                    current, news = found.jobs.get(job.id) or job, found.jobs.events(job.id, after)
                except StorageUnavailable:
                    current, news = shown or job, ()
                for event in news:
                    after = event.id
                    yield sse.event("event", event.to_json(), event.id)
                if current != shown:
                    shown = current
                    yield sse.event("job", current.to_json())
                if current.state in TERMINAL:
                    yield sse.event("end", {"state": current.state})
                    return
                if not nudged.wait(min(found.settings.waiter_poll_interval_s, sse.KEEP_ALIVE_S)):
                    yield sse.KEEP_ALIVE
        raise CallCancelled
    finally:
        for end in ends:
            end()
