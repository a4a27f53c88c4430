"""Load attempts that a test moves by hand, as the load service shows them to waiters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from localai.errors import ModelHeld, StorageUnavailable


@dataclass
class FakeStatus:
    model: str
    job_id: str
    job_state: str = "running"
    state: str = "loading"
    error: str = ""
    retry_after_s: int = 7
    progress: float = 0.0

    def message(self) -> str:
        return self.error or f"model {self.model} is {self.state}"

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "state": self.state,
            "progress": self.progress,
            "job_id": self.job_id,
            "last_error": self.error or None,
        }

    def retry_after_header(self) -> int:
        return self.retry_after_s

    def refusal(self) -> ModelHeld:
        return ModelHeld(self.message(), self.to_json(), self.retry_after_s)


@dataclass
class FakeTicket:
    job_id: str
    state: str
    status: FakeStatus
    generation: int = 1


@dataclass
class FakeLoads:
    """`requests` counts calls; `serves` names models that a replica serves already."""

    requests: list[str] = field(default_factory=list)
    reads: int = 0
    attempts: dict[str, FakeStatus] = field(default_factory=dict)
    serves: set[str] = field(default_factory=set)
    refusing: bool = False
    on_request: Callable[[], object] = lambda: None
    requested: threading.Event = field(default_factory=threading.Event)
    was_read: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def request(self, model: str, revision: str) -> FakeTicket:
        if self.refusing:
            raise StorageUnavailable
        self.on_request()
        self.requests.append(model)
        self.requested.set()
        if model in self.serves:
            return FakeTicket("", "loaded", FakeStatus(model, ""))
        live = next((s for s in self.attempts.values() if s.model == model and s.job_state == "running"), None)
        held = next((s for s in self.attempts.values() if s.model == model and s.job_state == "failed"), None)
        if live or held:
            found = live or held
            assert found
            return FakeTicket(found.job_id, "live" if live else "held", replace(found))
        status = FakeStatus(model, f"job-{len(self.attempts) + 1}")
        self.attempts[status.job_id] = status
        return FakeTicket(status.job_id, "created", replace(status))

    def read(self, job_id: str) -> FakeStatus:
        if self.refusing:
            raise StorageUnavailable
        self.reads += 1
        self.was_read.release()
        return replace(self.attempts[job_id])  # as it is at this moment

    def quarantines(self, node_id: str | None = None) -> tuple[()]:
        """Nothing is kept off any node."""
        return ()

    def move(self, job_id: str, state: str, progress: float = 0.0) -> None:
        """The load gets further."""
        status = self.attempts[job_id]
        status.state, status.progress = state, progress

    def succeed(self, job_id: str) -> None:
        self.attempts[job_id].job_state = "succeeded"

    def fail(self, job_id: str, error: str, retry_after_s: int = 15) -> None:
        status = self.attempts[job_id]
        status.job_state, status.state, status.error, status.retry_after_s = "failed", "failed", error, retry_after_s
