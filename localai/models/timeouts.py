"""The limits of calls to a model: the settings of the frontend, and the values of the model's config in their place."""

from __future__ import annotations

from dataclasses import dataclass

from localai.inference.ports import Limits
from localai.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The values of a config, in seconds. None is unset and leaves the frontend's setting; 0 is no limit."""

    connect_s: float | None = None
    first_byte_s: float | None = None
    idle_s: float | None = None

    def limits(self, defaults: Limits) -> Limits:
        """The limits of a call to this model."""
        if self == _UNSET:
            return defaults
        return Limits(
            connect_s=_chosen(self.connect_s, defaults.connect_s),
            first_byte_s=_chosen(self.first_byte_s, defaults.first_byte_s),
            idle_s=_chosen(self.idle_s, defaults.idle_s),
        )


_UNSET = Timeouts()


def limits_of(settings: Settings) -> Limits:
    """The limits of calls to models whose config names none."""
    return Limits(
        connect_s=settings.connect_timeout_s or None,
        first_byte_s=settings.first_byte_timeout_s or None,
        idle_s=settings.idle_timeout_s or None,
    )


def _chosen(own_s: float | None, default_s: float | None) -> float | None:
    return default_s if own_s is None else own_s or None
