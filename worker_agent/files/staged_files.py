"""Which model files lie on this node, whole or received in part, as frontends are to know."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from localai.nodes.holding_rules import DIGEST_CHARS, FILES_MOST, HeldFile
from worker_agent.files.digests import DigestCache

PARTIAL_SUFFIX = ".partial"
#: Other programs also leave files of that ending. A report with a digest that is none would be refused as a whole.
_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_CHARS}}}")


def partial_of(target: Path, sha256: str) -> Path:
    """Where a file lies until it is whole."""
    return target.with_name(f"{target.name}.{sha256[:DIGEST_CHARS]}{PARTIAL_SUFFIX}")


class StagedFiles:
    """The list of files. A whole file counts as soon as its digest is known; a partial one with the bytes it has."""

    def __init__(self, models: Path, digests: DigestCache) -> None:
        self._models, self._digests = models, digests
        self._lock = threading.Lock()
        self._partials = set(models.rglob(f"*{PARTIAL_SUFFIX}"))

    def receiving(self, partial: Path) -> None:
        """A transfer has begun to write this file."""
        with self._lock:
            self._partials.add(partial)

    def held(self) -> list[HeldFile]:
        """The largest files first, as many as one report may name."""
        # Partial files first: one that becomes whole meanwhile is named twice, and the two never add up.
        found = [held for path in self._known_partials() if (held := self._partial(path)) is not None]
        found += [
            held
            for path, size, digest in self._digests.entries()
            if (held := self._held(path, digest, size)) is not None
        ]
        return sorted(found, key=lambda file: (-file.bytes, file.path, file.sha256))[:FILES_MOST]

    def _known_partials(self) -> list[Path]:
        with self._lock:
            return sorted(self._partials)

    def _partial(self, path: Path) -> HeldFile | None:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            with self._lock:
                self._partials.discard(path)
            return None
        name, _, digest = path.name.removesuffix(PARTIAL_SUFFIX).rpartition(".")
        return self._held(path.with_name(name), digest, size) if name and _DIGEST.fullmatch(digest) else None

    def _held(self, path: Path, digest: str, size: int) -> HeldFile | None:
        """None if a frontend would refuse the report: the digest is none, or the name is no text."""
        if not path.is_relative_to(self._models) or not _DIGEST.fullmatch(digest[:DIGEST_CHARS]) or not _is_text(path):
            return None
        return HeldFile(path=path.relative_to(self._models).as_posix(), sha256=digest[:DIGEST_CHARS], bytes=size)


def _is_text(path: Path) -> bool:
    """Whether the name can stand in JSON that a database takes."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
