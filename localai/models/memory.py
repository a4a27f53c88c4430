"""The last usable configs of the models folder, kept in the state folder for the next start.

With them a start is a long pause between two looks at the folder: an edit or a deletion made meanwhile is seen, and a
file or folder that cannot be read at that moment takes no model away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localai import logs
from localai.embedded.private_files import replace_private
from localai.errors import BadInput
from localai.models.config import ModelConfig, parse_config

log = logs.get(__name__)

#: Device and inode of a folder.
Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """What was known of a folder."""

    identity: Identity | None = None
    #: The last usable set of each file, by file name.
    files: Mapping[str, tuple[ModelConfig, ...]] = field(default_factory=dict)


class ConfigMemory:
    """One private file. Writing it is best effort: without it the next start knows what the folder says."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, self._folder = path, str(folder.absolute())
        self._text: str | None = None
        self._warned = False

    def read(self) -> Kept:
        """Nothing if the file is missing, damaged, or about another folder."""
        try:
            text = self._path.read_text(encoding="utf-8")
            body = json.loads(text)
            if body["folder"] != self._folder:
                return Kept()
            identity = _identity(body["identity"])
            files = {str(name): _parsed(raws) for name, raws in body["files"].items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return Kept()
        self._text = text
        usable = {name: configs for name, configs in files.items() if configs is not None}
        return Kept(identity, usable)

    def write(self, kept: Kept) -> None:
        """Keep this, if it differs from what is kept."""
        files = {name: [config.raw for config in configs] for name, configs in sorted(kept.files.items())}
        body = {"folder": self._folder, "identity": kept.identity, "files": files}
        # `default=str` as in the revision: a date that YAML made keeps the revision it had.
        text = json.dumps(body, ensure_ascii=False, default=str)
        if text == self._text:
            return
        try:
            replace_private(self._path, text)
        except OSError as error:
            if not self._warned:
                log.warning("%s cannot be written, so the next start does not know it: %s", self._path, error.strerror)
            self._warned = True
        else:
            self._text = text


def _identity(pair: Sequence[int] | None) -> Identity | None:
    return (int(pair[0]), int(pair[1])) if pair else None


def _parsed(raws: Sequence[Mapping[str, Any]]) -> tuple[ModelConfig, ...] | None:
    """The configs of kept mappings; None if this version does not accept one of them."""
    try:
        return tuple(parse_config(raw) for raw in raws)
    except BadInput:
        return None
