"""Names of models on a hub, which a backend fetches by itself on its node.

A hub id and a missing file look alike. A name is taken for a hub id only if nothing suggests a file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from localai.backends import catalogue
from localai.models.config import ModelConfig

#: ``owner/name``: letters, digits, ``-``, ``_`` and ``.``, at most 96 in each part.
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
#: Endings of model files. A dot alone says nothing: versions have one.
_FILE = re.compile(
    r".+\.(gguf|ggml|bin|safetensors|onnx|pt|pth|ckpt|h5|tflite|pb|npz|nemo|model|json|txt|ya?ml|xml|wav|zip|tar|t?gz|xz)",
    re.IGNORECASE,
)


def hub_id(config: ModelConfig, models_folder: Path) -> str | None:
    """The hub id in ``parameters.model``, or None.

    It has the form ``owner/name`` without the ending of a model file, its backend does not read files only, no download
    of the config brings it, and the models folder has no ``owner``.
    """
    name = config.model
    if not name or not _HUB_ID.fullmatch(name) or _FILE.fullmatch(name) or catalogue.reads_files_only(config.backend):
        return None
    if any(f"{file.filename}/".startswith(f"{name}/") for file in config.download_files):
        return None
    return None if os.path.lexists(models_folder / name.partition("/")[0]) else name
