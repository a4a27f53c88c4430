"""Run many schedules and say what they showed: `python -m tests.simulator.run --seeds 5000 --minutes 3`."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from tests.simulator.checker import Violation, check
from tests.simulator.network import Weather
from tests.simulator.schedules import ALL, Profile, without
from tests.simulator.world import World, errors_of_services

#: Broken rules after which a process stops to look for more.
ENOUGH = 5


@dataclass(slots=True)
class Seen:
    """What schedules showed."""

    schedules: int = 0
    moves: int = 0
    virtual_s: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    #: Seed and what was broken.
    broken: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        self.schedules += other.schedules
        self.moves += other.moves
        self.virtual_s += other.virtual_s
        self.events += other.events
        self.passed += other.passed
        self.struck += other.struck
        self.broken += other.broken


def one(seed: int, profile: Profile = ALL, *, trace: bool = False) -> tuple[World, list[Violation]]:
    """One schedule, and what it broke. An error that a service survived counts too."""
    with errors_of_services() as errors:
        world = World(seed, profile, trace=trace)
        broken = check(world.run())
    return world, broken + [Violation("no_fault_inside", text) for text in [*world.hub.errors, *errors]]


def several(seeds: range, least: int | None = None, until: float = 0.0) -> Seen:
    """Schedules of these seeds: ``least`` of them (None: all), and more until then (monotonic). A few broken are enough."""
    least = len(seeds) if least is None else least
    seen = Seen()
    gc.freeze()  # what was imported is never garbage
    gc.set_threshold(100_000)  # a world dies with its schedule: looking for garbage within one finds nothing
    for seed in seeds:
        if (seen.schedules >= least and time.monotonic() >= until) or len(seen.broken) >= ENOUGH:
            break
        world, broken = one(seed)
        seen.schedules += 1
        seen.moves += world.facts.moves
        seen.virtual_s += world.hub.now
        seen.events.update(event.event for event in world.tables.job_events)
        seen.passed += world.hub.passed
        seen.struck += world.hub.crashed
        seen.broken += [(seed, str(violation)) for violation in broken]
    return seen


def smaller(seed: int, rule: str, near: int = 30) -> tuple[int, Profile]:
    """A schedule with less trouble that breaks the same rule: each kind of trouble is left out where that is possible."""
    best = (seed, ALL)
    for changes in (
        {"weather": Weather()},
        {"crash": 0.0},
        {"freeze": 0.0},
        {"blows_most": 0},
        {"blows_most": 1},
        {"cancels": 0.0},
        {"refusals": 0.0, "corruption": 0.0},
        {"delay": 0.0},
        {"models": (1,)},
        {"nodes": (1,)},
        {"controls": (2,)},
        {"trouble_s": (90.0,)},
    ):
        profile = without(best[1], **changes)
        for other in chain([best[0]], range(seed, seed + near)):
            if any(violation.rule == rule for violation in one(other, profile)[1]):
                best = (other, profile)
                break
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5000, help="how many schedules at least")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long at least; 0 = no schedule more")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--trace", type=int, metavar="SEED", help="run one schedule and print what happened")
    given = parser.parse_args(arguments)
    if given.trace is not None:
        return _print_one(given.trace)
    began = time.monotonic()
    until = began + given.minutes * 60
    shares = [
        (
            range(given.first + job, sys.maxsize, given.jobs),
            len(range(job, given.seeds, given.jobs)),
            until,
        )
        for job in range(given.jobs)
    ]
    seen = Seen()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for part in pool.starmap(several, shares):
            seen.add(part)
    return _tell(seen, time.monotonic() - began, given.first)


def _tell(seen: Seen, took_s: float, first: int) -> int:
    out = sys.stdout
    out.write(
        f"{seen.schedules} schedules from seed {first} in {took_s:.1f} s ({seen.schedules / took_s:.1f} each second): "
        f"{seen.moves} moves, {seen.virtual_s / 3600:.1f} h of virtual time, "
        f"{sum(seen.struck.values())} crashes and freezes at {len(seen.struck)} of {len(seen.passed)} step boundaries\n"
    )
    out.write("events: " + ", ".join(f"{name} {number}" for name, number in sorted(seen.events.items())) + "\n")
    if not seen.broken:
        out.write("nothing broken\n")
        return 0
    for seed, text in seen.broken[:20]:
        out.write(f"seed {seed}: {text}\n")
    seed, text = seen.broken[0]
    out.write(f"\nsmallest schedule near seed {seed} that breaks the same rule:\n")
    smallest, profile = smaller(seed, text.partition(":")[0])
    _print_world(smallest, profile)
    return 1


def _print_one(seed: int) -> int:
    return _print_world(seed, ALL)


def _print_world(seed: int, profile: Profile) -> int:
    world, broken = one(seed, profile, trace=True)
    out = sys.stdout
    changed = {
        name: getattr(profile, name) for name in Profile.__slots__ if getattr(profile, name) != getattr(ALL, name)
    }
    out.write(f"seed {seed}, profile: {changed or 'all'}\n")
    lines = [(float(line[:8]), line[9:]) for line in world.hub.trace or ()]
    for event in world.tables.job_events:
        job = world.tables.jobs[event.job_id]
        at = (event.at - world._at(0.0)).total_seconds()
        detail = f" {event.detail}" if event.detail else ""
        text = f"  {job.kind} {job.subject[:8]}#{job.slot} {job.id[-6:]} {event.event} by {event.actor}{detail}"
        lines.append((at, text))
    for at, text in sorted(lines, key=lambda line: line[0]):
        out.write(f"{at:8.2f} {text}\n")
    for violation in broken:
        out.write(f"{violation}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
