"""The name of a worker whose settings give none."""

from __future__ import annotations

import json
from pathlib import Path

from localai.nodes.name_rules import fitted


def default_name(hostname: str, note: Path) -> str:
    """The host name, fitted to what a node may be called.

    ``note`` is the worker's note of its last registration: a worker that has registered under its host name as it is,
    with an earlier version, keeps that name and with it its node.
    """
    name = fitted(hostname)
    return hostname if hostname not in ("", name) and _noted(note) == hostname else name


def _noted(note: Path) -> str:
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(found.get("name", "")) if isinstance(found, dict) else ""
