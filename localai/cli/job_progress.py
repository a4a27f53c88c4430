"""What does one line say about a job that somebody waits for?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from localai.cli.output import size

#: With a usual name the whole line fits into 80 columns.
_BAR = 16
_LIVE = ("queued", "running")

Job = Mapping[str, Any]


def key_of(job: Job) -> str:
    """Changes when there is news worth a line of its own."""
    moving = moving_part(job)
    words = (job.get("state"), moving.get("id"), moving.get("phase"), moving.get("node_name"))
    return " ".join(str(word) for word in (*words, job.get("message") if _says_what_is_left(job) else ""))


def describe(job: Job, *, bar: bool) -> str:
    """One line: what is being done, where, and how far it is; with a bar where bytes are known and wanted."""
    moving = moving_part(job)
    words = [str(job.get("about") or job.get("subject")), _doing(job, moving)]
    if moving.get("node_name") and job.get("kind") != "node.drain":
        words.append(f"on {moving['node_name']}")
    return " ".join([*words, *_bytes(moving, bar=bar)])


def moving_part(job: Job) -> Job:
    """The job, or its child that brings the bytes now: a load waits while its model is fetched."""
    for child in job.get("children") or ():
        if child.get("kind") == "model.install" and child.get("state") in _LIVE and job.get("state") in _LIVE:
            return dict(child)
    return job


def _doing(job: Job, moving: Job) -> str:
    if job.get("stop_state") == "pending":
        return "being stopped"
    if moving is not job or job.get("state") != "running":
        return "fetching" if moving is not job else str(job.get("state"))
    match job.get("kind"):
        case "model.unload":
            return str(job.get("message") or "being unloaded")
        case "node.drain":
            return str(job.get("message") or "being drained")
        case "model.install":
            return "fetching"
        case "replica.cleanup":
            return "being stopped"
        case _:
            return str(job.get("phase") or "running")


def _bytes(job: Job, *, bar: bool) -> list[str]:
    done, total = job.get("bytes_done"), job.get("bytes_total")
    if not isinstance(done, int) or not isinstance(total, int) or total <= 0 or not _moves_bytes(job):
        return []
    share = min(1.0, done / total)
    facts = [f"{math.floor(share * 100)} % of {size(total)}"]
    if isinstance(job.get("files_total"), int) and job["files_total"] > 1:
        facts.append(f"file {job.get('file_index')} of {job['files_total']}")
    if not bar:
        return [", ".join(facts)]
    filled = math.floor(share * _BAR)
    return ["[" + "#" * filled + "-" * (_BAR - filled) + "]", ", ".join([*facts, *_rate(job, total - done)])]


def _moves_bytes(job: Job) -> bool:
    """A load has staged its bytes when it comes to the phases after that."""
    return job.get("state") in _LIVE and (job.get("kind") != "model.load" or job.get("phase") == "staging")


def _rate(job: Job, left: int) -> list[str]:
    rate = job.get("progress_rate")
    if not isinstance(rate, int | float) or rate <= 0:
        return []
    return [f"{size(rate)}/s", f"{_seconds(left / rate)} left"]


def _seconds(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02d} s"


def _says_what_is_left(job: Job) -> bool:
    return job.get("kind") in ("model.unload", "node.drain")
