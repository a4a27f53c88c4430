"""How long may a load still take, judged by the loads of the same model that finished on machines of the same class?

Each finished load stands for a handful of loads like it, somewhat faster and somewhat slower. Those that the load under
way cannot be any more, because it has lasted longer, are left out; what the others still had before them is sorted: the
middle is the ETA, a tenth from each end are its bounds. So an ETA grows where quick loads are out of the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

from localai.jobs.job import Job, State
from localai.jobs.operation_rules import OpState, Phase

#: Fewer finished loads say nothing about the next one.
LEAST_LOADS = 3
#: Loads of another size tell another story; a file that was cut anew by a few bytes does not.
SAME_SIZE = 1.1
#: The part of all likely loads that must still be possible; what takes longer than nearly all that are known is new.
LEAST_LEFT = 0.05
#: eta_low and eta_high: one load in ten is quicker, one in ten slower.
LOW, HIGH = 0.1, 0.9
#: A rate taken over less than this says nothing.
RATE_AFTER_S = 1.0
#: How far the rest of a transfer strays from its rate so far, as a share.
RATE_SPREAD = 0.15
#: Two loads of one model on one machine differ by at least this share, however alike the known ones are.
LEAST_SPREAD, MOST_SPREAD = 0.08, 1.0
#: Bounds of a few known loads are guesses; each gap between them counts this much, more where they are few.
GAP_WEIGHT, FEW_WEIGHT = 0.9, 2.0
#: Durations below it differ by chance only.
TICK_S = 0.5

_ORDER = (Phase.PENDING, Phase.INSTALLING, Phase.STAGING, Phase.LOADING)
_LIKENESSES = 9
#: Evenly likely places of a normal distribution, and the same in an order that has nothing to do with the first.
_FIRST = tuple(NormalDist().inv_cdf((number + 0.5) / _LIKENESSES) for number in range(_LIKENESSES))
_SECOND = tuple(_FIRST[number * 4 % _LIKENESSES] for number in range(_LIKENESSES))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDurations:
    """What each phase of one finished load took, in seconds."""

    pending_s: float
    installing_s: float
    staging_s: float
    loading_s: float
    backend: str
    #: Of all files that were staged; 0 where nothing is.
    size_bytes: int

    def seconds(self, phase: Phase) -> float:
        return {
            Phase.PENDING: self.pending_s,
            Phase.INSTALLING: self.installing_s,
            Phase.STAGING: self.staging_s,
            Phase.LOADING: self.loading_s,
        }[phase]

    def after(self, phase: Phase) -> float:
        """What came after a phase."""
        return sum(self.seconds(later) for later in _ORDER[_ORDER.index(phase) + 1 :])


@dataclass(frozen=True, slots=True)
class Eta:
    """Whole seconds until the model serves; of a load without comparable ones, until its files are staged.

    The bounds are known where finished loads are: four of five loads end between them.
    """

    seconds: int
    low: int | None = None
    high: int | None = None


def eta(job: Job, history: Sequence[LoadDurations] = ()) -> Eta | None:
    """The rest of a load, or None while nothing is known that would mean anything."""
    if job.state != State.RUNNING or job.op_generation is None or job.op_state == OpState.ENDED:
        return None
    known = comparable(job, history)
    moving_s = staging_rest_s(job) if job.phase == Phase.STAGING else None
    if len(known) < LEAST_LOADS:
        return Eta(math.ceil(moving_s)) if moving_s else None
    rests = sorted(_after_rate(moving_s, known) if moving_s is not None else _after_elapsed(job, known))
    if len(rests) < max(1.0, LEAST_LEFT * len(known) * _LIKENESSES):
        return None
    middle = math.ceil(_quantile(rests, 0.5))
    return Eta(middle, min(middle, math.floor(_quantile(rests, LOW))), max(middle, math.ceil(_quantile(rests, HIGH))))


def comparable(job: Job, history: Sequence[LoadDurations]) -> list[LoadDurations]:
    """The finished loads that had the same backend and about the same bytes to stage."""
    order = job.args.get("order") or {}
    backend, size = order.get("backend"), order_size(order)
    return [past for past in history if past.backend == backend and _same_size(past.size_bytes, size)]


def order_size(order: object) -> int:
    """Bytes of all files an order has staged."""
    files = order.get("files") if isinstance(order, dict) else None
    return sum(int(file["size"]) for file in files or ())


def staging_rest_s(job: Job) -> float | None:
    """Seconds until all bytes are there, at the job's own rate as of its last report; None until it means something."""
    seen_at = job.op_seen_at or job.read_at
    if job.phase_started_at is None or job.bytes_done <= 0 or job.bytes_total <= 0:
        return None
    moved_for_s = (seen_at - job.phase_started_at).total_seconds()
    if moved_for_s < RATE_AFTER_S:
        return None
    left_s = max(0, job.bytes_total - job.bytes_done) * moved_for_s / job.bytes_done
    # Bytes that the row does not show as moved may have moved since; as long as it shows some as missing, some are.
    return max(min(left_s, 1.0), left_s - (job.read_at - seen_at).total_seconds())


def _same_size(one: int, other: int) -> bool:
    return one == other or (min(one, other) > 0 and max(one, other) <= SAME_SIZE * min(one, other))


def _after_rate(moving_s: float, known: Sequence[LoadDurations]) -> Iterator[float]:
    """Rests of a load whose bytes move: what its rate says, then what is known of the phase after that."""
    later = [past.after(Phase.STAGING) for past in known]
    spread = _spread(later)
    for tail in later:
        for first, second in zip(_FIRST, _SECOND, strict=True):
            yield moving_s * math.exp(RATE_SPREAD * first) + tail * math.exp(spread * second)


def _after_elapsed(job: Job, known: Sequence[LoadDurations]) -> Iterator[float]:
    """Rests of a load in a phase that says nothing of itself but how long it has lasted."""
    # Until the agent's first word a load is pending, and it has been since somebody asked.
    since = job.created_at if job.phase == Phase.PENDING else job.phase_started_at or job.created_at
    elapsed_s = max(0.0, (job.read_at - since).total_seconds())
    here, later = [past.seconds(job.phase) for past in known], [past.after(job.phase) for past in known]
    here_spread, later_spread = _spread(here), _spread(later)
    for took, tail in zip(here, later, strict=True):
        for first, second in zip(_FIRST, _SECOND, strict=True):
            rest = max(took, TICK_S) * math.exp(here_spread * first) - elapsed_s
            if rest > 0:
                yield rest + tail * math.exp(later_spread * second)


def _spread(values: Sequence[float]) -> float:
    """How much a load like one of these may differ from it: the usual gap between neighbours, in logarithms.

    The median gap and not the distance of all: loads from a warm and from a cold disk are two heaps, and what lies
    between them is no likely load.
    """
    logs = sorted(math.log(max(value, TICK_S)) for value in values)
    gaps = sorted(right - left for left, right in pairwise(logs))
    if not gaps:
        return LEAST_SPREAD
    weight = GAP_WEIGHT + FEW_WEIGHT / len(gaps)
    return min(MOST_SPREAD, max(LEAST_SPREAD, weight * gaps[len(gaps) // 2]))


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
