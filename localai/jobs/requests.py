"""How a request for a job is made: row first, wake-up after the commit."""

from __future__ import annotations

from localai.jobs.announce import Announcer
from localai.jobs.event_rules import WakeControl
from localai.jobs.job import Job
from localai.jobs.ports import Intake, JobIntake, NewJob


def request(intake: JobIntake, announcer: Announcer, new: NewJob) -> tuple[Intake, Job]:
    """Attach to the live attempt, obey the hold of a failed one, or create; a new one wakes a control worker."""
    outcome, job = intake.request(new)
    if outcome is Intake.CREATED:
        announcer.tell((WakeControl(job.id, job.generation),))
    return outcome, job
