"""How do other processes on this machine learn the URLs of the embedded servers?

``<state-dir>/env`` holds ``KEY=VALUE`` lines that a shell, a service manager and our own client commands can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from localai.embedded.private_files import replace_private
from localai.lines import lines_of


def write(path: Path, values: Mapping[str, str]) -> None:
    """Write the file. Values hold no white space and no quotes: they are URLs and URL-safe secrets."""
    for key, value in values.items():
        if not value or any(sign in value for sign in " \t\n\r'\"$`\\"):
            raise ValueError(f"{key} has a value that a shell would read otherwise")
    replace_private(path, "".join(f"{key}={value}\n" for key, value in values.items()))


def read(path: Path) -> dict[str, str]:
    """The values of the file; nothing when there is none. Raises OSError when it may not be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    pairs = (line.partition("=") for line in lines_of(text) if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}
