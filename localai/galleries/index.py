"""Which models the built-in gallery offers, and which of them this machine has been given already."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localai.models.config import parse_config

_BUILTIN = Path(__file__).resolve().parent / "builtin" / "models.yaml"
_NOTE = "# Written once from the built-in gallery. Yours to change or to remove; it is not written again.\n"


@dataclass(frozen=True, slots=True)
class GalleryModel:
    """One model of a gallery."""

    name: str
    description: str
    license: str
    tags: tuple[str, ...]
    size: int  # bytes
    #: The model's config, its files included.
    config: Mapping[str, Any]


def builtin_models() -> list[GalleryModel]:
    """The entries that ship with the program, in their order."""
    return [_entry(raw) for raw in yaml.safe_load(_BUILTIN.read_text(encoding="utf-8"))]


def write_new_entries(models_folder: Path, marker: Path) -> list[str]:
    """Write the config of each entry that was never written here; returns their names.

    ``marker`` remembers what was written, so that a removed config stays removed. A config of that name which is
    already there is left alone. Two processes may not call this at once. Raises OSError.
    """
    given = _read_marker(marker)
    new = [entry for entry in builtin_models() if entry.name not in given]
    written = []
    for entry in new:
        path = models_folder / f"{entry.name}.yaml"
        if not path.exists():
            text = yaml.safe_dump(dict(entry.config), sort_keys=False, allow_unicode=True)
            _replace(path, _NOTE + text)
            written.append(entry.name)
    if new:
        _replace(marker, json.dumps(sorted(given | {entry.name for entry in new})) + "\n")
    return written


def _entry(raw: Mapping[str, Any]) -> GalleryModel:
    shown = {"name": raw["name"], "description": raw["description"]}
    config = {**shown, **raw["config_file"], "download_files": raw["files"]}
    parse_config(config)  # an entry that cannot be used is a fault of this release, found by its first test
    return GalleryModel(
        name=raw["name"],
        description=raw["description"],
        license=raw["license"],
        tags=tuple(raw["tags"]),
        size=raw["size"],
        config=config,
    )


def _read_marker(marker: Path) -> set[str]:
    try:
        return set(json.loads(marker.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return set()
    except (ValueError, TypeError):
        # Damaged: better to lack an entry than to bring back what somebody removed.
        return {entry.name for entry in builtin_models()}


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
