"""Edits and deletions of config files, as one web process sees them, brought into the rows.

The process compares each file that is still with what it knew before. What it knew survives a restart in the state
folder, so an edit made while no process ran is seen by the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from localai import logs
from localai.errors import StorageUnavailable
from localai.models.loader import STILL_S, ModelConfigs, Settled
from localai.models.revision_rules import Evidence, Standing

log = logs.get(__name__)

#: Ends the loads of a model and unloads its replicas; running requests finish.
Unload = Callable[[str], object]


class Revisions(Protocol):
    """The revisions in force. Both methods raise StorageUnavailable."""

    def revisions(self, models: Sequence[str]) -> Mapping[str, str]: ...

    def revise(self, model: str, revision: str, evidence: Evidence) -> Standing: ...


class ConfigWatch:
    """Reads the models folder again and again, and reports what changed there to the rows.

    A process that only holds an older file changes nothing (see `revision_rules`). A model whose definition this
    process saw disappear is unloaded, if the revision in force is the one that disappeared.
    """

    def __init__(self, configs: ModelConfigs, rows: Revisions, unload: Unload, interval_s: float) -> None:
        self._configs, self._rows, self._unload, self._interval_s = configs, rows, unload, interval_s
        #: The revision of each model that the rows have been told of, or that an earlier process told them of.
        self._told = {config.name: config.revision for config in configs.kept()}
        #: Models that this process has compared with the rows at least once.
        self._compared: set[str] = set()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Read the folder once, then go on in the background."""
        self._configs.refresh()
        threading.Thread(target=self._run, name="config-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def step(self) -> None:
        """Read the folder and report what changed; a report that failed is made again by the next step."""
        changes = self._configs.refresh()
        if changes:
            log.info(
                "model configs changed",
                extra=logs.fields(added=changes.added, changed=changes.changed, removed=changes.removed),
            )
        self._report_edits()
        self._report_deletions()
        self._configs.remember()

    @property
    def next_look_s(self) -> float:
        """Time until the next step: short while a changed file must prove that it is still."""
        return self._interval_s if self._configs.is_settled else min(self._interval_s, STILL_S)

    def _report_edits(self) -> None:
        news = [one for one in self._configs.settled if self._is_news(one)]
        in_force = self._rows.revisions([one.config.name for one in news]) if news else {}
        for one in news:
            self._report_edit(one, in_force.get(one.config.name))

    def _is_news(self, one: Settled) -> bool:
        name = one.config.name
        is_known = name in self._compared and name not in self._configs.outdated
        return not is_known or self._told.get(name) != one.config.revision

    def _report_edit(self, one: Settled, in_force: str | None) -> None:
        name, revision = one.config.name, one.config.revision
        standing = Standing.STANDS
        if in_force not in (None, revision):
            evidence = Evidence(was=self._told.get(name), changed_at=one.changed_at)
            standing = self._rows.revise(name, revision, evidence)
        self._configs.mark_outdated(name, standing is Standing.OTHER)
        self._told[name] = revision
        self._compared.add(name)
        if standing is Standing.SET:
            log.info("model config in force", extra=logs.fields(model=name, revision=revision))

    def _report_deletions(self) -> None:
        if self._configs.folder_problem is not None:
            return
        gone = [name for name in self._told if self._configs.get(name) is None]
        in_force = self._rows.revisions(gone) if gone else {}
        for name in gone:
            if in_force.get(name) == self._told[name]:
                log.info("model config deleted", extra=logs.fields(model=name))
                self._unload(name)
            del self._told[name]

    def _run(self) -> None:
        while not self._stopping.wait(self.next_look_s):
            try:
                self.step()
            except StorageUnavailable as error:
                log.warning("a changed model config is not in force yet: %s", error.message)
            except Exception:
                log.exception("reading the models folder failed")
