"""How a web process sees that a model's config was edited by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable

from localai import logs
from localai.errors import StorageUnavailable
from localai.models.loader import ModelConfigs

log = logs.get(__name__)

#: Makes a revision the one that may serve.
Revise = Callable[[str, str], object]


class ConfigWatch:
    """Reads the models folder again and again. A config it saw change gets its new revision into the rows.

    A process that merely holds an older file says nothing: only the change itself, seen here, is news.
    """

    def __init__(self, configs: ModelConfigs, revise: Revise, interval_s: float) -> None:
        self._configs, self._revise, self._interval_s = configs, revise, interval_s
        #: The last revision seen of each model, also of one whose file is away or cannot be used for a while.
        self._seen: dict[str, str] = {}
        self._unsaid: set[str] = set()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Read the folder once, then go on beside the caller."""
        self._configs.refresh()
        self._see()
        threading.Thread(target=self._run, name="config-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def step(self) -> None:
        """Read the folder and say what changed; what could not be said is said the next time."""
        changes = self._configs.refresh()
        if changes:
            log.info(
                "model configs changed",
                extra=logs.fields(added=changes.added, changed=changes.changed, removed=changes.removed),
            )
        self._unsaid.update(self._see())
        for model in sorted(self._unsaid):
            config = self._configs.get(model)
            if config is not None:
                self._revise(model, config.revision)
            self._unsaid.discard(model)

    def _see(self) -> list[str]:
        """The models whose revision is another than the last one seen here."""
        found = {config.name: config.revision for config in self._configs.all()}
        edited = [name for name, revision in found.items() if self._seen.get(name, revision) != revision]
        self._seen.update(found)
        return edited

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.step()
            except StorageUnavailable as error:
                log.warning("a changed model config is not in force yet: %s", error.message)
            except Exception:
                log.exception("reading the models folder failed")
