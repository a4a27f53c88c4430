"""How do the processes of one frontend answer a scrape as one?

Each keeps its figures in memory and puts them into a file of its own every few seconds. Whoever is scraped writes its
own file first and then adds up all of them, so no total ever shown can fall. A process that starts takes over the files
of dead ones, so they do not pile up. Nothing of this is on the path of a request, and a full disk costs the newest
figures and nothing else. Why not the library's memory-mapped files: docs/decisions/0003-metrics.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric as Family

from localai import logs, metrics
from localai.settings import Settings, default_state_dir

log = logs.get(__name__)

#: What a killed process loses at most.
WRITE_INTERVAL_S = 5.0

Sample = tuple[str, tuple[tuple[str, str], ...]]


def folder_of(settings: Settings) -> Path:
    """Where the processes of this frontend meet. A state folder may be shared, an address of a host cannot."""
    state = settings.state_dir or default_state_dir()
    return state / "metrics" / f"{socket.gethostname()}-{settings.port}"


def wipe(folder: Path) -> None:
    """A frontend begins: what an earlier one counted is over. Called before its processes start."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (*folder.glob("*.json"), *folder.glob("*.alive")):
            path.unlink()
    except OSError as error:
        log.warning("metrics of an earlier start stay: %s", error)


@dataclass
class _Totals:
    """Sums over processes, by family and sample."""

    families: dict[str, tuple[str, str, dict[Sample, float]]]

    def add(self, families: Iterable[Family], *, gauges: bool) -> None:
        for family in families:
            if family.type == "gauge" and not gauges:
                continue
            samples = self.families.setdefault(family.name, (family.type, family.documentation, {}))[2]
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                samples[key] = samples.get(key, 0.0) + sample.value

    def collect(self) -> Iterator[Family]:
        for name, (kind, meaning, samples) in self.families.items():
            family = Family(name, meaning, kind)
            for (sample, labels), value in samples.items():
                family.add_sample(sample, dict(labels), value)
            yield family


class SharedCounts:
    """The part of this process in the figures of its frontend. Safe for threads; made after the fork."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{os.getpid()}.json"
        #: Held open and locked for as long as this process lives: a pid alone may be another's tomorrow.
        self._alive: int | None = None
        self._lock = threading.Lock()
        #: What dead processes had counted and this one took over.
        self._inherited = _Totals({})
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Take over what dead processes left, and begin to write."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                self._inherit()
                self._alive = _lock(_sign(self._path), fcntl.LOCK_EX)
        except OSError as error:
            log.warning("metrics are not shared with other processes: %s", error)
        self._thread.start()

    def stop(self) -> None:
        """Write a last time."""
        self._stopping.set()
        self._thread.join(WRITE_INTERVAL_S)
        self._write()

    def collect(self) -> list[Family]:
        """The figures of all processes of this frontend."""
        self._write()
        totals = _Totals({})
        try:
            with self._locked():
                for path in self._folder.glob("*.json"):
                    if path != self._path:
                        self._add(totals, path)
        except OSError as error:
            log.warning("metrics of other processes cannot be read: %s", error)
        totals.add(self._own(), gauges=True)
        return list(totals.collect())

    def _own(self) -> Iterator[Family]:
        yield from self._inherited.collect()
        yield from metrics.collected(metrics.FRONTEND)

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_INTERVAL_S):
            self._write()

    def _write(self) -> None:
        totals = _Totals({})
        totals.add(self._own(), gauges=True)
        try:
            _replace(self._path, _to_json(totals.collect()))
        except OSError as error:
            if not self._failing:
                log.warning("metrics cannot be written for other processes: %s", error)
            self._failing = True
            return
        self._failing = False

    def _inherit(self) -> None:
        """Under the lock: nobody reads a dead process's figures while they are in two files."""
        dead = [path for path in self._folder.glob("*.json") if not _owner_lives(path)]
        for path in dead:
            self._add(self._inherited, path)
        if dead:
            self._write()
        for path in dead:
            if path != self._path:
                path.unlink(missing_ok=True)
                _sign(path).unlink(missing_ok=True)

    @staticmethod
    def _add(totals: _Totals, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            totals.add(_from_json(content), gauges=_owner_lives(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("figures of another process cannot be read", extra=logs.fields(path=path, error=error))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Held for milliseconds, and released by the kernel when its holder dies."""
        with self._lock:  # a greenlet that waited for the kernel's lock would keep its holder from running
            descriptor = _lock(self._folder / "lock", fcntl.LOCK_EX)
            try:
                yield
            finally:
                os.close(descriptor)


def _to_json(families: Iterable[Family]) -> str:
    listed = [
        {
            "name": family.name,
            "type": family.type,
            "meaning": family.documentation,
            "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
        }
        for family in families
    ]
    return json.dumps(listed)


def _from_json(content: Iterable[Mapping[str, Any]]) -> Iterator[Family]:
    for listed in content:
        family = Family(listed["name"], listed["meaning"], listed["type"])
        for name, labels, value in listed["samples"]:
            family.add_sample(name, labels, value)
        yield family


def _sign(path: Path) -> Path:
    """The file whose lock says that the owner of figures lives."""
    return path.with_suffix(".alive")


def _owner_lives(path: Path) -> bool:
    try:
        os.close(_lock(_sign(path), fcntl.LOCK_EX | fcntl.LOCK_NB))
    except BlockingIOError:
        return True
    return False


def _lock(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
