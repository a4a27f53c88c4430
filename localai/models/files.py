"""One file of model configs: its last usable definitions, and when a newer content may replace them.

A content replaces the definitions only after the file was still (same time of change, size and inode in two looks) for
a second. A writer that empties the file first, or writes it in parts, is never read half-way.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from localai.errors import BadInput
from localai.models.config import ModelConfig, parse_config
from localai.models.documents import read_documents

#: A file that changes for so long is named: its writer never ends, or its file system changes what it says of it.
RESTLESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """What `stat` says of a path. Equal looks mean an unchanged file."""

    mtime_ns: int = 0
    size: int = 0
    inode: int = 0
    device: int = 0
    #: Why the path could not be looked at.
    error: str = ""

    @property
    def is_missing(self) -> bool:
        return self == MISSING


MISSING = Look()


def look_at(path: Path) -> Look:
    """The present look of a path, links followed; `MISSING` if nothing has this name."""
    try:
        found = path.stat()
    except OSError as error:
        try:
            target = os.readlink(path)
        except OSError:
            return MISSING if isinstance(error, FileNotFoundError) else Look(error=str(error.strerror))
        return Look(error=f"{error.strerror} (it is a link to {target})")
    return Look(found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


@dataclass(frozen=True, slots=True)
class Reading:
    """The configs of one content of a file, and what is wrong with it, by place."""

    configs: tuple[ModelConfig, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


def read(path: Path) -> Reading:
    """Read a file as it is now; raises nothing."""
    try:
        documents = list(read_documents(path))
    except (OSError, ValueError, yaml.YAMLError) as error:
        return Reading(problems={path.name: f"cannot be read: {error}"})
    configs, problems = [], {}
    for number, raw in enumerate(documents):
        try:
            configs.append(parse_config(raw))
        except BadInput as error:
            problems[path.name if len(documents) == 1 else f"{path.name}[{number}]"] = error.message
    return Reading(tuple(configs), problems)


class ConfigFile:
    """The definitions of one file. ``kept`` are those of an earlier process, if they are known."""

    def __init__(self, path: Path, kept: tuple[ModelConfig, ...] | None = None) -> None:
        self.path = path
        self.configs: tuple[ModelConfig, ...] = kept or ()
        self.problems: Mapping[str, str] = {}
        #: Whether `configs` is a complete usable set, which no unusable content replaces.
        self._usable = kept is not None
        #: The last usable set of a file that was still; None if there never was one.
        self.kept = kept
        self._seen: Look | None = None
        self._seen_at = 0.0
        self._taken: Look | None = None
        #: Since when each look was newer than the content that was taken.
        self._restless_since: float | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the newest look is the one that `configs` and `problems` come from."""
        return self._seen is not None and self._seen == self._taken

    @property
    def is_missing(self) -> bool:
        return self._seen is not None and self._seen.is_missing

    @property
    def is_deleted(self) -> bool:
        """Whether the file stayed away for as long as a change has to be still."""
        return self.is_missing and self.is_settled

    @property
    def changed_ns(self) -> int:
        """Time of change of the content that `configs` come from, in ns since 1970; 0 if it is not known."""
        return self._taken.mtime_ns if self._taken is not None and not self.problems else 0

    def look_anew(self) -> None:
        """Forget a look that is not taken yet: its time of stillness must not count a time without looks."""
        if not self.is_settled:
            self._seen = None

    def look(self, now: float, still_s: float, taken_names: Container[str]) -> None:
        """Look at the file, and take its content if it is new and was still for ``still_s``.

        A file without definitions is read at once, unless it defines one of ``taken_names``: those serve already.
        """
        seen = look_at(self.path)
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        if seen == self._taken:
            self._restless_since = None
            return
        if self._restless_since is None:
            self._restless_since = now
        is_still = now - self._seen_at >= still_s
        if not is_still and (self._usable or self._taken is not None):
            if now - self._restless_since >= RESTLESS_S:
                text = f"changes all the time, for {RESTLESS_S:g} s or more: what it had before stays in force"
                self.problems = {self.path.name: text}
            return
        reading = self._read(seen)
        if look_at(self.path) != seen:
            return
        if is_still:
            self._take(reading, seen)
        elif not any(config.name in taken_names for config in reading.configs):
            self.configs, self._usable = reading.configs, not reading.problems

    def adopt(self, model: str, revision: str) -> bool:
        """Take the present content at once if it defines the model with exactly this revision."""
        seen = look_at(self.path)
        if seen == self._taken or seen.is_missing or seen.error:
            return False
        reading = self._read(seen)
        found = any((config.name, config.revision) == (model, revision) for config in reading.configs)
        if not found or look_at(self.path) != seen:
            return False
        self._seen = seen
        self._take(reading, seen)
        return True

    def _read(self, seen: Look) -> Reading:
        if seen.is_missing:
            return Reading()
        if seen.error:
            return Reading(problems={self.path.name: f"cannot be read: {seen.error}"})
        return read(self.path)

    def _take(self, reading: Reading, seen: Look) -> None:
        self._taken, self._restless_since = seen, None
        if not reading.problems:
            self.configs, self.problems, self._usable = reading.configs, {}, True
            self.kept = reading.configs
            return
        if not self._usable:
            self.configs, self.problems = reading.configs, reading.problems
            return
        names = ", ".join(config.name for config in self.configs)
        kept = f"; the last usable definition of {names} stays in force" if names else ""
        self.problems = {place: problem + kept for place, problem in reading.problems.items()}
