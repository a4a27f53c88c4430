"""What of a machine's pip settings an install of a backend keeps: where packages come from, and how they are reached.

Everything else is dropped: a `user`, `target`, `prefix` or `root` in a variable or a config file would put the packages
of a backend into another place than its environment, and a `constraint` or `requirement` would add to them.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Mapping, Sequence

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause

KEPT = frozenset(
    {
        "index-url",
        "extra-index-url",
        "no-index",
        "find-links",
        "trusted-host",
        "proxy",
        "cert",
        "client-cert",
        "keyring-provider",
        "use-feature",
        "timeout",
        "default-timeout",
        "retries",
        "cache-dir",
        "no-cache-dir",
    }
)
#: Sections of pip's settings that count for an install; a later one wins.
_SECTIONS = ("global", "install", ":env:")
_LIMIT_S = 60.0


def environment(pip: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with those pip settings of variables and config files that an install keeps, and no others.

    Raises OperationFailed with pip's words if pip cannot read its config files.
    """
    command = [*pip, "config", "list"]
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OperationFailed(Cause.BACKEND_INSTALL_FAILED, f"pip does not show its settings: {error}") from None
    if done.returncode != 0:
        text = "pip cannot read its settings; `pip config debug` shows the files"
        raise OperationFailed(Cause.BACKEND_INSTALL_FAILED, text, stderr_tail=done.stderr[-2000:])
    others = {name: value for name, value in environ.items() if not name.upper().startswith("PIP_")}
    return {**others, **kept(done.stdout), "PIP_CONFIG_FILE": os.devnull}


def kept(listed: str) -> dict[str, str]:
    """The variables that stand for the kept settings in the output of `pip config list`."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listed.splitlines():
        name, sign, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if sign and section in found and option in KEPT:
            found[section][option] = _text(value)
    merged = {option: value for section in _SECTIONS for option, value in found[section].items() if value}
    return {f"PIP_{option.upper().replace('-', '_')}": value for option, value in merged.items()}


def _text(shown: str) -> str:
    """A value as pip shows it, which is as Python would."""
    try:
        value = ast.literal_eval(shown)
    except (ValueError, SyntaxError):
        return ""
    return value if isinstance(value, str) else ""
