"""The secret in a worker's data folder, by which it proves that its node name is its own."""

from __future__ import annotations

from pathlib import Path

from localai.embedded.private_files import replace_private
from localai.errors import StartRefused
from localai.nodes.credentials import draw

FILE_NAME = "node-secret"
#: Fewer characters than this were not written by `draw`.
LEAST_LENGTH = 32

_REMEDY = "restore it, or delete it: then an administrator has to approve this node again"


def read_or_make(path: Path) -> str:
    """The secret, made at the first start. A file that exists is never replaced. Raises StartRefused.

    The caller is the only writer: it holds the lock of the data folder, or has not started the worker yet.
    """
    _make_if_missing(path)
    try:
        secret = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise StartRefused(f"the node secret {path} cannot be read: {error.strerror}; {_REMEDY}") from None
    except UnicodeDecodeError:
        secret = ""
    if len(secret) < LEAST_LENGTH or len(secret.split()) != 1:
        raise StartRefused(f"the node secret {path} is damaged; {_REMEDY}")
    return secret


def _make_if_missing(path: Path) -> None:
    try:
        if not path.exists() and not path.is_symlink():
            replace_private(path, draw() + "\n")
    except OSError as error:
        raise StartRefused(f"the node secret {path} cannot be made: {error.strerror}") from None
