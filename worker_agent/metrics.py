"""How long did each phase of an operation take?"""

from __future__ import annotations

from collections.abc import Callable

from localai.jobs.operation_rules import Phase
from localai.metrics import LOAD_PHASE_SECONDS


class PhaseTimes:
    """The phases of one operation, each counted when it is over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._model = ""
        self._phase: Phase | None = None
        self._since = 0.0

    def enter(self, model: str, phase: Phase) -> None:
        """The phase before went well, and this one begins."""
        self.end("ok")
        self._model, self._phase, self._since = model, phase, self._clock()

    def end(self, outcome: str) -> None:
        """The phase under way is over; a second call does nothing."""
        if self._phase is not None:
            taken = self._clock() - self._since
            LOAD_PHASE_SECONDS.labels(self._model, self._phase, outcome).observe(taken)
            self._phase = None
