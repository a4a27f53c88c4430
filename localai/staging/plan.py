"""Which files a model needs, which of them are missing here, and what a node must be given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause
from localai.models.config import DownloadFile, ModelConfig
from localai.models.paths import files_of, find_file, is_config, why_unusable
from localai.staging.digests import Digests
from localai.staging.hub_ids import hub_id

#: A model split into several files names its first; the engine opens the others itself.
_FIRST_SHARD = re.compile(r"(?P<stem>.+)-00001-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a model on this frontend."""

    #: Relative to the models folder here, and to the model's own folder on the node.
    path: str
    local: Path
    size: int
    #: What the config promises; empty when it promises nothing.
    declared_sha256: str = ""


def missing_files(config: ModelConfig, models_folder: Path) -> tuple[DownloadFile, ...]:
    """Declared downloads that are not in the folder yet."""
    return tuple(file for file in config.download_files if find_file(models_folder, file.filename) is None)


def staged_files(config: ModelConfig, models_folder: Path) -> tuple[PlannedFile, ...]:
    """Everything a node must have before the start, the main file first. Raises OperationFailed (file_missing)."""
    declared = {file.filename: file.sha256 for file in config.download_files}
    planned: dict[str, PlannedFile] = {}
    for name in _named(config, models_folder):
        for path in _expanded(name, config, models_folder):
            if is_config(models_folder, path):
                text = f"model {config.name} needs {name}, which is a model config; configs are not given to nodes"
                raise OperationFailed(Cause.BAD_CONFIG, text)
            status = path.stat()
            relative = path.relative_to(models_folder).as_posix()
            planned[relative] = PlannedFile(relative, path, status.st_size, declared.get(relative, ""))
    return tuple(planned.values())


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """One file a node can be given now."""

    path: str
    local: Path
    size: int
    sha256: str


def ready_files(config: ModelConfig, models_folder: Path, digests: Digests) -> tuple[ReadyFile, ...] | None:
    """Everything a node must be given, or None while something has to be fetched or read first.

    Reads no file's content, so a step that must not block may call it. Raises OperationFailed (file_missing) when a
    file is nowhere and no address is known for it.
    """
    if missing_files(config, models_folder):
        return None
    found = []
    for file in staged_files(config, models_folder):
        sha256 = digests.known(file.local)
        if sha256 is None or (file.declared_sha256 and sha256 != file.declared_sha256):
            return None
        found.append(ReadyFile(file.path, file.local, file.size, sha256))
    return tuple(found)


def _named(config: ModelConfig, models_folder: Path) -> Iterator[str]:
    if config.model and hub_id(config, models_folder) is None:
        yield from _shards(config.model)
    yield from config.file_fields.values()
    yield from (file.filename for file in config.download_files)
    for option in config.options:
        # An option may name a companion file; everything else in options is not a file, and never a reason to fail.
        value = option.partition(":")[2].strip()
        found = find_file(models_folder, value)
        if found is not None and not is_config(models_folder, found):
            yield value


def _shards(name: str) -> list[str]:
    match = _FIRST_SHARD.fullmatch(name)
    if not match:
        return [name]
    count = int(match["count"])
    return [f"{match['stem']}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]


def _expanded(name: str, config: ModelConfig, models_folder: Path) -> list[Path]:
    """The file, or all files of the folder, of a name."""
    files = files_of(models_folder, name)
    if not files:
        text = f"model {config.name} needs {name}, {why_unusable(models_folder, name)}"
        raise OperationFailed(Cause.FILE_MISSING, text)
    return files
