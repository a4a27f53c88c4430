"""Which revision a model config is: one text for what is on disk, before any default."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def revision(raw: Mapping[str, Any]) -> str:
    """SHA-256 in hex over the canonical JSON of a parsed config. Order of keys, layout and comments do not matter."""
    text = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
