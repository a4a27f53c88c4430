"""Loads that never ran, from seeded shapes: what the ETA is measured on, because nobody has a year of a cluster's loads."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from localai.jobs.job import Job
from localai.jobs.operation_rules import Phase
from localai.loads.eta_rules import LoadDurations
from tests.unit.jobs.builders import NOW, claimed

GIB = 1024**3
#: The agent reports this often; a row knows no newer bytes.
REPORT_S = 5.0
_PHASES = (Phase.PENDING, Phase.INSTALLING, Phase.STAGING, Phase.LOADING)

Shape = Callable[[random.Random, int], LoadDurations]


def steady(draw: random.Random, number: int) -> LoadDurations:
    """Files and backend are there already; the disk is always as fast: spread 0.1."""
    return _load(draw, staging=8.0, loading=60.0, spread=0.1)


def lognormal(draw: random.Random, number: int) -> LoadDurations:
    """A busy machine: `LoadModel` takes 90 s in the middle, spread 0.5."""
    return _load(draw, staging=10.0, loading=90.0, spread=0.5)


def warm_or_cold_disk(draw: random.Random, number: int) -> LoadDurations:
    """Six of ten loads read from memory (15 s), the others from a cold disk (140 s); spread 0.2."""
    return _load(draw, staging=6.0, loading=15.0 if draw.random() < 0.6 else 140.0, spread=0.2)


def first_load_or_later(draw: random.Random, number: int) -> LoadDurations:
    """One of four loads installs the backend (200 s) and moves all bytes (600 s); the others find both there."""
    if draw.random() < 0.25:
        return _load(draw, installing=200.0, staging=600.0, loading=80.0, spread=0.25)
    return _load(draw, installing=0.2, staging=20.0, loading=60.0, spread=0.25)


def moving_bytes(draw: random.Random, number: int) -> LoadDurations:
    """Every load moves all bytes, over a network of which others have their share; the median is 400 s, spread 0.4."""
    return _load(draw, staging=400.0, loading=45.0, spread=0.4)


def size_changed(draw: random.Random, number: int) -> LoadDurations:
    """The file is another one since the last few loads: four times the bytes, four times as long; spread 0.3."""
    if number < 0:
        return replace(_load(draw, staging=10.0, loading=30.0, spread=0.3), size_bytes=10 * GIB)
    return replace(_load(draw, staging=40.0, loading=120.0, spread=0.3), size_bytes=40 * GIB)


SHAPES: Mapping[str, Shape] = {
    shape.__name__.replace("_", " "): shape
    for shape in (steady, lognormal, warm_or_cold_disk, first_load_or_later, moving_bytes, size_changed)
}


def history_of(shape: Shape, draw: random.Random, known: int) -> list[LoadDurations]:
    """What is known of the last loads, the newest first; older ones of another size may lie behind them."""
    older = [shape(draw, -number) for number in range(1, 11)] if shape is size_changed else []
    return [shape(draw, number) for number in range(known)] + older


@dataclass(frozen=True, slots=True)
class Course:
    """One load on its way. ``second_half`` is how much slower the second half of its bytes moves than the first."""

    durations: LoadDurations
    second_half: float

    @classmethod
    def draw(cls, shape: Shape, draw: random.Random, number: int) -> Course:
        return cls(shape(draw, number), draw.lognormvariate(0.0, 0.2))

    @property
    def total_s(self) -> float:
        return self.durations.pending_s + self.durations.after(Phase.PENDING)

    def at(self, elapsed_s: float) -> Job:
        """The row of the load when it has run for so long."""
        phase, begun_s = _PHASES[0], 0.0
        for phase in _PHASES:
            if elapsed_s < begun_s + self.durations.seconds(phase) or phase is _PHASES[-1]:
                break
            begun_s += self.durations.seconds(phase)
        since = NOW + timedelta(seconds=begun_s)
        now = NOW + timedelta(seconds=elapsed_s)
        changes: dict[str, Any] = {}
        if phase is Phase.STAGING and self.durations.size_bytes:
            seen_s = (elapsed_s - begun_s) // REPORT_S * REPORT_S
            done = int(self._moved(seen_s / self.durations.staging_s) * self.durations.size_bytes)
            changes = {"op_seen_at": since + timedelta(seconds=seen_s), "bytes_done": done}
        return claimed(
            created_at=NOW,
            phase=phase,
            phase_started_at=since,
            read_at=now,
            bytes_total=self.durations.size_bytes,
            args={"order": {"backend": "llama-cpp", "files": [{"size": self.durations.size_bytes}]}},
            **changes,
        )

    def _moved(self, share_of_time: float) -> float:
        """The share of the bytes that is there: the first half moves at one rate, the second at another."""
        middle = 1.0 / (1.0 + self.second_half)
        if share_of_time < middle:
            return 0.5 * share_of_time / middle
        return 0.5 + 0.5 * (share_of_time - middle) / (1.0 - middle)


def _load(
    draw: random.Random, *, staging: float, loading: float, spread: float, installing: float = 0.2
) -> LoadDurations:
    def about(seconds: float) -> float:
        return seconds * draw.lognormvariate(0.0, spread)

    return LoadDurations(
        pending_s=draw.uniform(0.05, 0.3),
        installing_s=about(installing),
        staging_s=about(staging),
        loading_s=about(loading),
        backend="llama-cpp",
        size_bytes=8 * GIB,
    )
