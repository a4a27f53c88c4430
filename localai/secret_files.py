"""Secrets that settings name by the path of a file, as containers and service managers hand them over."""

from __future__ import annotations

import os
from pathlib import Path

from localai.errors import BadSetting

#: More than any secret; the path of a device or a log is refused before it is read whole.
LARGEST_BYTES = 64 * 1024


def read_secret(named: str, path: str, *, many: bool = False) -> str:
    """The text of the file; several lines become one list if ``many``. Raises BadSetting with the path.

    The error never holds what the file holds.
    """
    try:
        with open(Path(path).expanduser(), "rb") as file:
            found = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise BadSetting(named, path, f"the path of a file with the secret ({reason})") from None
    if len(found) > LARGEST_BYTES:
        raise BadSetting(named, path, f"the path of a file of at most {LARGEST_BYTES} bytes")
    try:
        lines = [line.strip() for line in found.decode("utf-8").strip().split("\n")]
    except UnicodeDecodeError:
        raise BadSetting(named, path, "the path of a text file in UTF-8") from None
    lines = [line for line in lines if line]
    if not lines:
        raise BadSetting(named, path, "the path of a file with the secret (this one is empty)")
    if len(lines) > 1 and not many:
        raise BadSetting(named, path, f"the path of a file with the secret on one line (this one has {len(lines)})")
    return ",".join(lines)
