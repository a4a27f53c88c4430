"""How long each part of a load may last, and what is said when it lasted longer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from localai.jobs.job import Job, after
from localai.jobs.operation_rules import OpState, Phase
from localai.settings import Settings

GIB, MIB = 1024**3, 1024**2
#: What LoadModel may take for a model of no size.
LOAD_BASE_S = 300.0
#: Reading weights at about 54 MB/s, below what any supported storage sustains: a budget that is too long delays the
#: report of a failure, one that is too short fails a healthy load.
LOAD_PER_GIB_S = 20.0
LOAD_CAP_S = 6 * 3600.0
LOAD_SETTING = "LOCALAI_NATS_MODEL_LOAD_TIMEOUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Settings of the bounds, in seconds. ``pinned_load_s`` 0 means derived from the size."""

    install_s: float = 900.0
    start_s: float = 30.0
    pinned_load_s: float = 0.0
    #: The owner's bound stands this far behind the agent's own one, which knows more and says it better.
    slack_s: float = 300.0
    #: Least time of the steps that report no progress, together.
    base_least_s: float = 25 * 60.0
    stall_s: float = 300.0
    max_duration_s: float = 24 * 3600.0
    kill_ttl_s: float = 90.0
    silent_s: float = 105.0

    @classmethod
    def of(cls, settings: Settings) -> Budgets:
        return cls(
            install_s=settings.backend_install_timeout_s,
            start_s=settings.backend_start_timeout_s,
            pinned_load_s=settings.model_load_timeout_s,
            slack_s=settings.model_load_slack_s,
            base_least_s=settings.model_load_least_budget_s,
            stall_s=settings.staging_stall_window_s,
            max_duration_s=settings.staging_max_duration_s,
            kill_ttl_s=settings.worker_kill_ttl_s,
            silent_s=settings.silent_worker_s,
        )

    @property
    def base_s(self) -> float:
        """What install, node and LoadModel get together before the checkpoint's own budget is added."""
        return max(self.install_s + (self.pinned_load_s or LOAD_BASE_S) + self.slack_s, self.base_least_s)


@dataclass(frozen=True, slots=True)
class LoadBudget:
    """What LoadModel may take, and where the number came from: both are part of the error at the bound."""

    seconds: float
    #: Stands in brackets behind the number of seconds.
    reason: str


def load_budget(size_bytes: int | None, pinned_s: float = 0.0) -> LoadBudget:
    """5 min + 20 s for each GiB, at most 6 h; a pinned value wins; of an unknown size the base alone."""
    if size_bytes is None:
        derived, source = LOAD_BASE_S, "the size of the model is not known"
    else:
        derived = min(LOAD_BASE_S + LOAD_PER_GIB_S * size_bytes / GIB, LOAD_CAP_S)
        rate = f"{LOAD_BASE_S:.0f} s + {LOAD_PER_GIB_S:.0f} s/GiB for {size_text(size_bytes)}"
        source = f"the cap of {rate}" if derived == LOAD_CAP_S else rate
    if pinned_s > 0:
        unpinned = source if size_bytes is None else f"{size_text(size_bytes)} would give {derived:.0f} s"
        return LoadBudget(pinned_s, f"pinned by {LOAD_SETTING}; {unpinned}")
    return LoadBudget(derived, f"{source}; {LOAD_SETTING} pins another")


def size_text(size_bytes: int) -> str:
    """A size as people say it."""
    if size_bytes >= GIB // 100:
        return f"{size_bytes / GIB:.2f} GiB"
    return f"{size_bytes / MIB:.1f} MiB" if size_bytes >= MIB // 10 else f"{size_bytes} bytes"


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
    since = job.phase_started_at or job.placed_at
    match job.phase:
        case Phase.STAGING:
            return _earlier(cap, _staging(job, budgets, since))
        case Phase.LOADING:
            return _earlier(cap, max(_base(job.placed_at, budgets), _widened(since, budgets, budget), key=_at))
        case _:
            return _earlier(cap, _base(job.placed_at, budgets))


def install_bound(job: Job, budgets: Budgets) -> Bound | None:
    """The bound of fetching and hashing a model's files on this side, as of staging: silence, and the cap."""
    if job.started_at is None:
        return None
    since = max(job.phase_started_at or job.started_at, job.progress_at or job.started_at)
    text = (
        f"fetching the model's files moved nothing for {budgets.stall_s:g} s, at {job.message or 'the first file'}; "
        "LOCALAI_STAGING_STALL_WINDOW sets the limit"
    )
    cap = Bound(
        after(job.started_at, budgets.max_duration_s),
        f"fetching the model's files took longer than {budgets.max_duration_s:g} s; "
        "LOCALAI_STAGING_MAX_DURATION sets the cap",
    )
    return _earlier(cap, Bound(after(since, budgets.stall_s), text, stalled=True))


def _base(placed_at: datetime, budgets: Budgets) -> Bound:
    load_s = budgets.pinned_load_s or LOAD_BASE_S
    text = (
        f"the load did not end within {budgets.base_s:.0f} s; LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT "
        f"({budgets.install_s:g} s) and {LOAD_SETTING} ({load_s:g} s) widen it"
    )
    return Bound(after(placed_at, budgets.base_s), text)


def _staging(job: Job, budgets: Budgets, since: datetime) -> Bound:
    moved = max(since, job.progress_at or since)
    text = (
        f"staging moved nothing for {budgets.stall_s:g} s, at {job.bytes_done} of {job.bytes_total} bytes; "
        "LOCALAI_STAGING_STALL_WINDOW sets the limit"
    )
    return Bound(after(moved, budgets.stall_s), text, stalled=True)


def _widened(since: datetime, budgets: Budgets, budget: LoadBudget) -> Bound:
    """The load phase begins with the start of the process, which has a limit of its own."""
    wide_s = budgets.start_s + budget.seconds + budgets.slack_s
    text = (
        f"the load phase did not end within {wide_s:.0f} s: {budgets.start_s:g} s to start, {budget.seconds:.0f} s for "
        f"LoadModel ({budget.reason}), {budgets.slack_s:g} s of slack"
    )
    return Bound(after(since, wide_s), text)


def silent(job: Job, budgets: Budgets, now: datetime) -> str | None:
    """What is said of an operation that nobody claims, or of which nobody reports; None while it is heard of."""
    node = job.node_name or job.node_id
    limit = f"{budgets.silent_s:g} s (LOCALAI_WORKER_KILL_TTL of {budgets.kill_ttl_s:g} s and a sixth)"
    if job.op_state == OpState.SENT and _over(job.placed_at, budgets, now):
        return f"node {node} did not take the order within {limit}"
    if job.op_state == OpState.CLAIMED and _over(job.op_seen_at, budgets, now):
        return f"node {node} has not reported for {limit}"
    return None


def _over(since: datetime | None, budgets: Budgets, now: datetime) -> bool:
    return since is not None and now > after(since, budgets.silent_s)


def _earlier(one: Bound, other: Bound) -> Bound:
    return min(one, other, key=_at)


def _at(item: Bound) -> datetime:
    return item.at
