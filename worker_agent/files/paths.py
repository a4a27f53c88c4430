"""Where a model's files lie on this node, and nothing outside that folder."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def model_folder(models: Path, model: str) -> Path:
    """The model's own folder. A name that is no plain folder name is spelled out and told apart by its digest."""
    plain = _UNSAFE.sub("_", model)
    if plain != model or plain.startswith("."):
        plain = f"{plain.lstrip('.')}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
    return models / plain


def within(folder: Path, relative: str) -> Path:
    """The absolute path of a file below ``folder``. Raises OperationFailed for a path that leads elsewhere."""
    parts = PurePosixPath(relative).parts
    bad = not parts or relative.startswith("/") or "\0" in relative or "\\" in relative or ".." in parts
    path = folder.joinpath(*parts) if not bad else folder
    # A symbolic link below the folder may not lead out of it either.
    if bad or not path.resolve().is_relative_to(folder.resolve()):
        raise OperationFailed(Cause.BAD_CONFIG, f"the file {relative!r} would lie outside the model's folder")
    return path
