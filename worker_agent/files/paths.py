"""Where a model's files lie on this node, and nothing outside that folder."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause
from localai.nodes import holding_rules


def model_folder(models: Path, model: str) -> Path:
    """The model's own folder."""
    return models / holding_rules.model_folder(model)


def within(folder: Path, relative: str) -> Path:
    """The absolute path of a file below ``folder``. Raises OperationFailed for a path that leads elsewhere."""
    parts = PurePosixPath(relative).parts
    bad = not parts or relative.startswith("/") or "\0" in relative or "\\" in relative or ".." in parts
    path = folder.joinpath(*parts) if not bad else folder
    # A symbolic link below the folder may not lead out of it either.
    if bad or not path.resolve().is_relative_to(folder.resolve()):
        raise OperationFailed(Cause.BAD_CONFIG, f"the file {relative!r} would lie outside the model's folder")
    return path
