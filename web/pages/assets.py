"""Where are the files a page needs? Below an address that names all their bytes, so that a browser never asks twice."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent.parent / "static"
_IMPORT = re.compile(r'^(?:import|export)\b[^;]*?from "(\.[^"]+)";$', re.MULTILINE)


def assets_root() -> str:
    """The path below which the files lie; a changed byte in one file changes every address."""
    return f"/assets/{assets_version()}"


@cache
def assets_version() -> str:
    """One hash over all static files."""
    return hashlib.sha256(b"".join(_contents(STATIC))).hexdigest()[:16]


@cache
def modules_of(entry: str) -> tuple[str, ...]:
    """A module and everything it imports: named in the page, they come in one round trip."""
    found, waiting = [], [entry]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.append(name)
        text = (STATIC / name).read_text(encoding="utf-8")
        waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in _IMPORT.findall(text)]
    return tuple(found)


def _contents(folder: Path) -> Iterable[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes()
