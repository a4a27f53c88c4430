"""How a row gets other values: every move of a job makes a copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localai.jobs.job import Job

__all__ = ["changed"]

if TYPE_CHECKING:
    from dataclasses import replace as changed  # which checks names and types
else:

    def changed(job: Job, **values: Any) -> Job:
        """`dataclasses.replace` for the fifty fields of a job, in a twentieth of its time."""
        copy = object.__new__(Job)
        copy.__dict__.update(job.__dict__)
        copy.__dict__.update(values)
        return copy
