"""What must hold before a move. Each guard says it in its docstring; the statements repeat it in their ``WHERE``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from localai.jobs.job import Job, StopState
from localai.jobs.operation_rules import OpState

#: Owners that a load may lose and still go on.
MAX_ADOPTIONS = 3


def generation_matches(job: Job, event: Any, now: datetime) -> bool:
    """the event names the generation of the row"""
    return bool(job.generation == event.generation)


def owned(job: Job, event: Any, now: datetime) -> bool:
    """the event names generation and owner of the row"""
    return bool(job.generation == event.generation and job.owner == event.owner)


def lease_valid(job: Job, event: Any, now: datetime) -> bool:
    """the lease has not lapsed by the database clock"""
    return job.lease_valid(now)


def lease_lapsed(job: Job, event: Any, now: datetime) -> bool:
    """the lease has lapsed by the database clock"""
    return job.lease_expires_at is not None and job.lease_expires_at <= now


def adoptions_left(job: Job, event: Any, now: datetime) -> bool:
    """it was adopted fewer than three times, or its owner gave it back"""
    return job.given_back or job.adoptions < MAX_ADOPTIONS


def heard_of(job: Job, event: Any, now: datetime) -> bool:
    """no operation was sent yet, or a report younger than three intervals lists it"""
    if job.op_generation is None:
        return True
    return job.op_seen_at is not None and job.op_seen_at > now - timedelta(seconds=event.fresh_s)


def not_placed(job: Job, event: Any, now: datetime) -> bool:
    """no operation was sent yet"""
    return job.op_generation is None


def unclaimed(job: Job, event: Any, now: datetime) -> bool:
    """the order was sent and is not claimed"""
    return job.op_state == OpState.SENT and job.node_incarnation is None


def claims_its_orders(job: Job, event: Any, now: datetime) -> bool:
    """it was not sent to a legacy node, which works without a claim"""
    return not job.legacy


def dispatch_window_over(job: Job, event: Any, now: datetime) -> bool:
    """the dispatch window is over"""
    return job.dispatch_expires_at is not None and job.dispatch_expires_at <= now


def names_operation(job: Job, event: Any, now: datetime) -> bool:
    """the event names operation and node of the row"""
    return bool(job.op_generation == event.op_generation and job.node_id == event.node_id)


def unclaimed_or_same_incarnation(job: Job, event: Any, now: datetime) -> bool:
    """nobody has claimed it, or the same incarnation has"""
    return job.node_incarnation is None or bool(job.node_incarnation == event.incarnation)


def claimed_by_it(job: Job, event: Any, now: datetime) -> bool:
    """the incarnation of the event has claimed it"""
    return bool(job.node_incarnation == event.incarnation)


def younger_than_claim(job: Job, event: Any, now: datetime) -> bool:
    """the report was made after the claim"""
    return bool(event.seq > (job.op_claim_seq or 0))


def operation_ready(job: Job, event: Any, now: datetime) -> bool:
    """the operation is ready"""
    return job.op_state == OpState.READY


def revision_unchanged(job: Job, event: Any, now: datetime) -> bool:
    """the revision of the locked subject is the one of the job"""
    return bool(job.revision == event.revision)


def same_incarnation(job: Job, event: Any, now: datetime) -> bool:
    """the incarnation of the locked node is the one that claimed"""
    return bool(job.node_incarnation == event.incarnation)


def older_incarnation(job: Job, event: Any, now: datetime) -> bool:
    """an older incarnation of that node has claimed it"""
    return bool(
        job.node_id == event.node_id and job.node_incarnation is not None and job.node_incarnation < event.incarnation
    )


def stop_pending(job: Job, event: Any, now: datetime) -> bool:
    """the stop is pending"""
    return job.stop_state == StopState.PENDING


def proves_end(job: Job, event: Any, now: datetime) -> bool:
    """the proof names the operation and comes from its incarnation or a newer one"""
    return bool(job.op_generation == event.op_generation and (job.node_incarnation or 0) <= event.incarnation)


def stop_due(job: Job, event: Any, now: datetime) -> bool:
    """the pause since the last stop is over"""
    return job.stop_next_at is not None and job.stop_next_at <= now


def sent_to_legacy_node(job: Job, event: Any, now: datetime) -> bool:
    """it was sent to a legacy node, which proves nothing"""
    return job.legacy


def stop_window_over(job: Job, event: Any, now: datetime) -> bool:
    """the stop window is over"""
    return job.stop_deadline is not None and job.stop_deadline <= now


def about_process_there(job: Job, event: Any, now: datetime) -> bool:
    """the job is about a process of that node, and has no operation of its own"""
    return bool(job.node_id == event.node_id and job.op_generation is None)
