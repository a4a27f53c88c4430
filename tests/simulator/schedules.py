"""What goes wrong in a schedule: a weather and a list of blows, drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.simulator.network import Weather


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The kind of trouble a schedule is drawn from. Chances are for each step boundary or message."""

    name: str = "all"
    controls: tuple[int, ...] = (2, 2, 3)
    nodes: tuple[int, ...] = (1, 1, 2)
    models: tuple[int, ...] = (1, 1, 2, 3)
    #: How long faults last, in seconds.
    trouble_s: tuple[float, ...] = (90.0, 150.0, 240.0)
    crash: float = 0.002
    freeze: float = 0.002
    delay: float = 0.1
    weather: Weather = field(
        default_factory=lambda: Weather(
            lost=0.08, doubled=0.12, late=0.15, answer_lost=0.06, statement_refused=0.01, commit_lost=0.02
        )
    )
    freezes_s: tuple[float, ...] = (2.0, 20.0, 40.0, 80.0, 120.0, 220.0)
    #: Freeze at step boundaries with this in their name only.
    freeze_at: str = ""
    #: How many models' bytes are here from the beginning.
    fetched: float = 0.7
    #: Blows from outside and how often in a schedule: kill, freeze or cut an agent, kill, freeze or end a control process,
    #: take the database away, end a model process, edit a config.
    blows: tuple[str, ...] = (
        "kill agent",
        "freeze agent",
        "cut agent",
        "kill control",
        "freeze control",
        "end control",
        "database",
        "end process",
        "edit",
    )
    blows_most: int = 4
    cancels: float = 0.25
    #: In how many schedules a load whose owner is lost may be adopted.
    adoption: float = 0.8
    refusals: float = 0.1
    corruption: float = 0.05
    #: Seconds of LoadModel.
    load_s: tuple[float, ...] = (2.0, 8.0, 30.0, 100.0)


ALL = Profile()


def without(profile: Profile, **changes: object) -> Profile:
    """A profile with some of its trouble changed."""
    return replace(profile, **changes)  # type: ignore[arg-type]  # named by the caller


def drawn_weather(draw: random.Random, profile: Profile) -> Weather:
    """Some schedules are calm in one respect, so that single causes are seen alone."""
    names = ("lost", "doubled", "late", "answer_lost", "statement_refused", "commit_lost")
    return replace(profile.weather, **dict.fromkeys((name for name in names if draw.random() < 0.4), 0.0))
