"""Which model configs the files of the models folder hold right now."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from localai import logs
from localai.errors import BadInput
from localai.models.config import ModelConfig, parse_config
from localai.models.documents import read_documents

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Changes:
    """Names of models that a refresh found new, different or gone."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class ModelConfigs:
    """The configs of one folder. Reads never block on a refresh; a bad file hides its own models only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._configs: Mapping[str, ModelConfig] = {}
        #: What is wrong, by the file (and model) it is wrong in.
        self.problems: Mapping[str, str] = {}
        self._refreshing = threading.Lock()

    def get(self, name: str) -> ModelConfig | None:
        return self._configs.get(name)

    def all(self) -> list[ModelConfig]:
        """Every config, by name."""
        return [config for _, config in sorted(self._configs.items())]

    def refresh(self) -> Changes:
        """Read the folder again. A folder that is not there yet has no models."""
        with self._refreshing:
            before, known_problems = self._configs, self.problems
            found, problems = _read_folder(self.folder)
            self._configs, self.problems = found, problems
        for place, problem in problems.items():
            if known_problems.get(place) != problem:
                log.warning("model config skipped: %s: %s", place, problem)
        common = before.keys() & found.keys()
        return Changes(
            added=tuple(sorted(found.keys() - before.keys())),
            changed=tuple(sorted(name for name in common if before[name].revision != found[name].revision)),
            removed=tuple(sorted(before.keys() - found.keys())),
        )


def _read_folder(folder: Path) -> tuple[dict[str, ModelConfig], dict[str, str]]:
    found: dict[str, ModelConfig] = {}
    problems: dict[str, str] = {}
    for path in _files(folder):
        try:
            documents = list(read_documents(path))
        except (OSError, ValueError, yaml.YAMLError) as error:
            problems[path.name] = f"cannot be read: {error}"
            continue
        for number, raw in enumerate(documents):
            place = path.name if len(documents) == 1 else f"{path.name}[{number}]"
            try:
                _add(found, parse_config(raw))
            except BadInput as error:
                problems[place] = error.message
    return found, problems


def _files(folder: Path) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [path for path in paths if path.suffix in (".yaml", ".yml") and not path.name.startswith(".")]


def _add(found: dict[str, ModelConfig], config: ModelConfig) -> None:
    if config.name in found:
        raise BadInput("name", config.name, "a name no other config has")
    found[config.name] = config
