"""What does one line say about a job that somebody waits for?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from localai.cli.output import size

_BAR = 24
_LIVE = ("queued", "running")

Job = Mapping[str, Any]


def key_of(job: Job) -> str:
    """Changes when there is news worth a line of its own."""
    moving = moving_part(job)
    words = (job.get("state"), moving.get("id"), moving.get("phase"), moving.get("node_name"))
    return " ".join(str(word) for word in (*words, job.get("message") if _is_unload(job) else ""))


def describe(job: Job, *, bar: bool) -> str:
    """One line: what is being done, where, and how far it is; with a bar where bytes are known and wanted."""
    moving = moving_part(job)
    words = [str(job.get("subject")), _doing(job, moving)]
    if moving.get("node_name"):
        words.append(f"on {moving['node_name']}")
    return "  ".join([" ".join(words), *_bytes(moving, bar=bar)])


def moving_part(job: Job) -> Job:
    """The job, or its child that brings the bytes now: a load waits while its model is fetched."""
    for child in job.get("children") or ():
        if child.get("kind") == "model.install" and child.get("state") in _LIVE and job.get("state") in _LIVE:
            return dict(child)
    return job


def _doing(job: Job, moving: Job) -> str:
    if moving is not job:
        return "is being fetched"
    if job.get("state") != "running":
        return str(job.get("state"))
    if _is_unload(job):
        return str(job.get("message") or "is being unloaded")
    return str(job.get("phase") or "running")


def _bytes(job: Job, *, bar: bool) -> list[str]:
    done, total = job.get("bytes_done"), job.get("bytes_total")
    if not isinstance(done, int) or not isinstance(total, int) or total <= 0 or job.get("state") not in _LIVE:
        return []
    share = min(1.0, done / total)
    words = [f"{math.floor(share * 100):3d} % of {size(total)}"]
    if isinstance(job.get("files_total"), int) and job["files_total"] > 1:
        words.append(f"file {job.get('file_index')} of {job['files_total']}")
    if bar:
        filled = math.floor(share * _BAR)
        words.insert(0, "[" + "#" * filled + "-" * (_BAR - filled) + "]")
        words += _rate(job, total - done)
    return words


def _rate(job: Job, left: int) -> list[str]:
    rate = job.get("progress_rate")
    if not isinstance(rate, int | float) or rate <= 0:
        return []
    return [f"{size(rate)}/s", f"{_seconds(left / rate)} left"]


def _seconds(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02d} s"


def _is_unload(job: Job) -> bool:
    return job.get("kind") == "model.unload"
