"""How long each part of a load may last, and what is said when it lasted longer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from localai.jobs.job import Job, after
from localai.jobs.operation_rules import OpState, Phase
from localai.settings import Settings

GIB = 1024**3
#: What LoadModel may take for a model of no size.
LOAD_BASE_S = 300.0
#: Reading weights at about 54 MB/s, below what any supported storage sustains: a budget that is too long delays the
#: report of a failure, one that is too short fails a healthy load.
LOAD_PER_GIB_S = 20.0
LOAD_CAP_S = 6 * 3600.0
#: The owner's bound stands behind the agent's own one, which knows more and says it better.
SLACK_S = 300.0
#: Least budget of the steps that report no progress.
BASE_LEAST_S = 25 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Settings of the bounds, in seconds. ``pinned_load_s`` 0 means derived from the size."""

    install_s: float = 900.0
    start_s: float = 30.0
    pinned_load_s: float = 0.0
    stall_s: float = 300.0
    max_duration_s: float = 24 * 3600.0
    silent_s: float = 105.0

    @classmethod
    def of(cls, settings: Settings) -> Budgets:
        return cls(
            install_s=settings.backend_install_timeout_s,
            start_s=settings.backend_start_timeout_s,
            pinned_load_s=settings.model_load_timeout_s,
            stall_s=settings.staging_stall_window_s,
            max_duration_s=settings.staging_max_duration_s,
            silent_s=settings.silent_worker_s,
        )


@dataclass(frozen=True, slots=True)
class LoadBudget:
    """What LoadModel may take, and why: the reason is part of the error at the bound."""

    seconds: float
    reason: str


def load_budget(size_bytes: int | None, pinned_s: float = 0.0) -> LoadBudget:
    """5 min + 20 s for each GiB, at most 6 h; a pinned value wins; of an unknown size the base alone."""
    setting = "LOCALAI_NATS_MODEL_LOAD_TIMEOUT"
    if pinned_s > 0:
        return LoadBudget(pinned_s, f"{pinned_s:g} s, pinned by {setting}")
    if size_bytes is None:
        return LoadBudget(LOAD_BASE_S, f"{LOAD_BASE_S:g} s for a model of unknown size; {setting} pins another")
    gib = size_bytes / GIB
    seconds = min(LOAD_BASE_S + LOAD_PER_GIB_S * gib, LOAD_CAP_S)
    capped = ", the cap" if seconds == LOAD_CAP_S else ""
    reason = f"{seconds:.0f} s{capped}, derived from {gib:.2f} GiB ({LOAD_BASE_S:.0f} s + {LOAD_PER_GIB_S:.0f} s/GiB)"
    return LoadBudget(seconds, f"{reason}; {setting} pins another")


@dataclass(frozen=True, slots=True)
class Bound:
    """When the owner gives up on the part of the load that runs, and what it says then."""

    at: datetime
    text: str
    #: A transfer moved nothing, rather than the whole took too long.
    stalled: bool = False


def bound(job: Job, budgets: Budgets, budget: LoadBudget) -> Bound | None:
    """The bound of a placed load, or None before it is placed: until then other jobs' bounds hold.

    Staging is bounded by silence only, everything else by the base budget, which the load phase widens to the budget
    of the checkpoint; all of it by the absolute cap.
    """
    if job.placed_at is None or job.started_at is None:
        return None
    cap = Bound(
        after(job.started_at, budgets.max_duration_s),
        f"the load lasted longer than {budgets.max_duration_s:g} s; LOCALAI_STAGING_MAX_DURATION sets the cap",
    )
    load_s = budgets.pinned_load_s or LOAD_BASE_S
    base_s = max(budgets.install_s + load_s + SLACK_S, BASE_LEAST_S)
    base = Bound(
        after(job.placed_at, base_s),
        f"the load did not end within {base_s:.0f} s; LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT ({budgets.install_s:g} s) "
        f"and LOCALAI_NATS_MODEL_LOAD_TIMEOUT ({load_s:g} s) widen it",
    )
    since = job.phase_started_at or job.placed_at
    match job.phase:
        case Phase.STAGING:
            moved = max(since, job.progress_at or since)
            text = (
                f"staging moved nothing for {budgets.stall_s:g} s, at {job.bytes_done} of {job.bytes_total} bytes; "
                "LOCALAI_STAGING_STALL_WINDOW sets the limit"
            )
            return _earlier(cap, Bound(after(moved, budgets.stall_s), text, stalled=True))
        case Phase.LOADING:
            wide_s = budgets.start_s + budget.seconds + SLACK_S
            text = f"LoadModel did not end within {wide_s:.0f} s; its budget is {budget.reason}"
            return _earlier(cap, max(base, Bound(after(since, wide_s), text), key=lambda item: item.at))
        case _:
            return _earlier(cap, base)


def silent(job: Job, budgets: Budgets, now: datetime) -> str | None:
    """What is said of an operation that nobody claims, or of which nobody reports; None while it is heard of."""
    node = job.node_name or job.node_id
    if job.op_state == OpState.SENT and _over(job.placed_at, budgets, now):
        return f"node {node} did not take the order within {budgets.silent_s:g} s"
    if job.op_state == OpState.CLAIMED and _over(job.op_seen_at, budgets, now):
        return f"node {node} has not reported for {budgets.silent_s:g} s"
    return None


def _over(since: datetime | None, budgets: Budgets, now: datetime) -> bool:
    return since is not None and now > after(since, budgets.silent_s)


def _earlier(one: Bound, other: Bound) -> Bound:
    return min(one, other, key=lambda item: item.at)
