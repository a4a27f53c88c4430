"""The model configs of one folder, as they are in force in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from localai import logs
from localai.clock import boottime
from localai.errors import ModelNotFound, ModelsFolderUnavailable
from localai.models.config import ModelConfig
from localai.models.files import ConfigFile
from localai.models.memory import ConfigMemory, Identity, Kept
from localai.models.paths import is_config_name, link_problem

log = logs.get(__name__)

#: How long a changed file must be still. Editors and copy programs write a config within milliseconds.
STILL_S = 1.0
_OUTDATED = (
    "another revision of this model is in force, set by a newer file on another frontend; "
    "run `touch` on this file to put it in force"
)


@dataclass(frozen=True, slots=True)
class Changes:
    """Names of models that a refresh found new, different or gone."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class Settled:
    """A config whose file is still, and when this content was written, if that is known."""

    config: ModelConfig
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Known:
    """One consistent state of the folder; replaced as a whole."""

    configs: Mapping[str, ModelConfig] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    settled: Sequence[Settled] = ()
    is_settled: bool = True
    folder_problem: str | None = None


class ModelConfigs:
    """The configs of one folder. Reads never wait for a refresh.

    A file keeps its last usable definitions until it can be used again or is deleted. A folder that cannot be listed
    changes nothing.
    """

    def __init__(
        self,
        folder: Path,
        *,
        memory: ConfigMemory | None = None,
        still_s: float = STILL_S,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.folder = folder
        self._memory, self._still_s, self._clock = memory, still_s, clock
        kept = memory.read() if memory is not None else Kept()
        self._identity: Identity | None = kept.identity
        self._files = {name: ConfigFile(folder / name, configs) for name, configs in kept.files.items()}
        self._kept = _merged(self._files, {})
        self._known = _Known(configs=self._kept)
        self._outdated: frozenset[str] = frozenset()
        self._refreshing = threading.Lock()

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong, by the folder, file or model it is wrong in."""
        return {**self._known.problems, **dict.fromkeys(sorted(self._outdated), _OUTDATED)}

    @property
    def folder_problem(self) -> str | None:
        """Why the folder cannot be listed now; None if it can."""
        problem = self._known.folder_problem
        return problem and f"the models folder {self.folder} {problem}"

    @property
    def outdated(self) -> frozenset[str]:
        """Models of which another revision is in force than this folder has."""
        return self._outdated

    def mark_outdated(self, name: str, is_outdated: bool) -> None:
        """Show, or show no more, that another revision of a model is in force."""
        self._outdated = self._outdated | {name} if is_outdated else self._outdated - {name}

    def kept(self) -> list[ModelConfig]:
        """The configs that an earlier process left in the memory."""
        return list(self._kept.values())

    @property
    def is_settled(self) -> bool:
        """Whether no file waits to be still."""
        return self._known.is_settled

    @property
    def settled(self) -> Sequence[Settled]:
        """The configs whose files are still."""
        return self._known.settled

    def get(self, name: str) -> ModelConfig | None:
        return self._known.configs.get(name)

    def require(self, name: str) -> ModelConfig:
        """The config of a model. Raises ModelNotFound, or ModelsFolderUnavailable if the folder might have it."""
        config, problem = self._known.configs.get(name), self.folder_problem
        if config is None:
            raise ModelsFolderUnavailable(problem) if problem else ModelNotFound(name)
        return config

    def all(self) -> list[ModelConfig]:
        """Every config, by name."""
        return [config for _, config in sorted(self._known.configs.items())]

    def refresh(self) -> Changes:
        """Look at the folder again."""
        with self._refreshing:
            before, now = self._known, self._clock()
            names, folder_problem = self._listed()
            if names is None:
                for file in self._files.values():
                    file.look_anew()
            else:
                for name in sorted({*names, *self._files}):
                    file = self._files.setdefault(name, ConfigFile(self.folder / name))
                    file.look(now, self._still_s, before.configs)
                self._files = {name: file for name, file in self._files.items() if not file.is_deleted}
            self._known = known = self._joined(folder_problem)
        for place, problem in known.problems.items():
            if before.problems.get(place) != problem:
                log.warning("model config: %s: %s", place, problem)
        return _changes(before.configs, known.configs)

    def find(self, name: str, revision: str | None) -> ModelConfig | None:
        """The config of a model, of this revision if the folder has it.

        The revision is a digest of the content. If a file that is not still yet has it, the file is complete.
        """
        config = self.get(name)
        if config is not None and revision in (None, config.revision):
            return config
        self.refresh()
        with self._refreshing:
            config = self._known.configs.get(name)
            if revision is None or (config is not None and config.revision == revision):
                return config
            if any(file.adopt(name, revision) for file in self._files.values() if not file.is_settled):
                self._known = self._joined(self._known.folder_problem)
            return self._known.configs.get(name)

    def changed_at(self, name: str) -> datetime | None:
        """When the content that defines a model was written, if that is known."""
        return next((one.changed_at for one in self._known.settled if one.config.name == name), None)

    def remember(self) -> None:
        """Keep the present definitions for the next start. Called when the rows know every edit among them."""
        if self._memory is not None and self._known.folder_problem is None:
            with self._refreshing:
                files = {name: file.kept for name, file in self._files.items()}
                usable = {name: configs for name, configs in files.items() if configs is not None}
                self._memory.write(Kept(self._identity, usable))

    def _listed(self) -> tuple[list[str] | None, str | None]:
        """The names of config files; None and why if the folder cannot be listed."""
        stays = "; known models stay as they were" if self._files else ""
        try:
            found = self.folder.stat()
            names = [path.name for path in self.folder.iterdir() if is_config_name(path.name)]
        except OSError as error:
            return None, f"cannot be listed: {error.strerror}{stays}"
        identity = (found.st_dev, found.st_ino)
        if not names and self._files and identity != self._identity:
            # The place where a disk is mounted is an empty folder while it is not.
            return None, f"is another folder than before and has no configs: is its disk mounted?{stays}"
        self._identity = identity
        return names, None

    def _joined(self, folder_problem: str | None) -> _Known:
        problems: dict[str, str] = {str(self.folder): folder_problem} if folder_problem else {}
        for file in self._files.values():
            problems.update(file.problems)
        configs = _merged(self._files, problems)
        if folder_problem is None:
            problems.update(_refused_links(self.folder, configs.values()))
        settled = [
            Settled(config, _time(file.changed_ns))
            for file in self._files.values()
            if file.is_settled
            for config in file.configs
            if configs.get(config.name) is config
        ]
        is_settled = folder_problem is not None or all(file.is_settled for file in self._files.values())
        return _Known(configs, problems, settled, is_settled, folder_problem)


def _merged(files: Mapping[str, ConfigFile], problems: dict[str, str]) -> dict[str, ModelConfig]:
    """The definitions of all files. The first file by name wins; one that is away gives way to any other."""
    found: dict[str, ModelConfig] = {}
    for name, file in sorted(files.items(), key=lambda item: (item[1].is_missing, item[0])):
        for number, config in enumerate(file.configs):
            if found.setdefault(config.name, config) is not config and not file.is_missing:
                place = name if len(file.configs) == 1 else f"{name}[{number}]"
                problems[place] = f"name: {config.name!r} cannot be used; accepted: a name no other config has"
    return found


def _refused_links(folder: Path, configs: Iterable[ModelConfig]) -> Iterator[tuple[str, str]]:
    """Files of configs that no load can use because of a link, and why. A file that is missing may be downloaded."""
    for config in configs:
        for path in (config.model, *config.file_fields.values(), *(file.filename for file in config.download_files)):
            if path and (problem := link_problem(folder, path)) is not None:
                yield path, f"model {config.name} needs this file, {problem}"


def _changes(before: Mapping[str, ModelConfig], after: Mapping[str, ModelConfig]) -> Changes:
    common = before.keys() & after.keys()
    return Changes(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(name for name in common if before[name].revision != after[name].revision)),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def _time(changed_ns: int) -> datetime | None:
    return datetime.fromtimestamp(changed_ns / 1e9, UTC) if changed_ns else None
