"""What the node says about its machine. A reading that failed is left out: absent is not zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from localai import logs
from worker_agent.files.staged_files import StagedFiles
from worker_agent.telemetry import cpu, disk, gpu, memory
from worker_agent.telemetry.model_memory import ModelMemoryReading

log = logs.get(__name__)

Reading = Callable[[], Mapping[str, Any]]


class Figures:
    """All readings of one machine."""

    def __init__(self, readings: Mapping[str, Reading]) -> None:
        self._readings = readings
        self._failing: set[str] = set()

    @classmethod
    def of_this_machine(cls, models: Path, staged_files: StagedFiles, model_memory: ModelMemoryReading) -> Figures:
        """What a node holds is read just before what it has free: a byte that comes between counts twice, not never."""
        return cls(
            {
                "memory": lambda: memory.read(model_memory()),
                "disk": lambda: disk.read(models, staged_files.held()),
                "cpu": cpu.CpuReading(),
                "gpu": gpu.read,
            }
        )

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, reading in self._readings.items():
            try:
                found.update(reading())
                self._failing.discard(name)
            except Exception as error:  # noqa: BLE001  whatever a driver raises, the heartbeat goes on
                self._tell_once(name, error)
        return found

    def _tell_once(self, name: str, error: Exception) -> None:
        if name not in self._failing:
            self._failing.add(name)
            level = log.debug if name == "gpu" else log.warning
            level("reading left out", extra=logs.fields(reading=name, error=error))
