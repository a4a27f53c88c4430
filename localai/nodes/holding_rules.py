"""What a node holds already: bytes of model files on its disk, and memory of its model processes.

An agent reports both with the free figures of the same moment, so that what is on the disk or in memory by then counts
once: as used, and no more as promised.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Characters of a SHA-256 that tell versions of a file apart; also in the name of a partial file.
DIGEST_CHARS = 12
#: Files that one report names at most, the largest first. A file that is not named counts as not there.
FILES_MOST = 1000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")

#: Path below the models folder of the node, and the beginning of the SHA-256.
FileKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """A file on a node, whole or received in part."""

    #: Below the models folder.
    path: str
    #: The first characters of its SHA-256 when it is whole.
    sha256: str
    #: Bytes of it that are there.
    bytes: int

    @property
    def key(self) -> FileKey:
        return self.path, self.sha256[:DIGEST_CHARS]

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "sha256": self.sha256, "bytes": self.bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What one report says of them. None is what it leaves out: an agent of an older version reports neither."""

    files: tuple[HeldFile, ...] | None = None
    #: Resident bytes by process instance.
    memory: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One replica row as its node counts it."""

    model: str
    state: str
    reserved_bytes: int
    process_instance: str | None
    #: It was loaded before the last written heartbeat, whose figures therefore show its memory.
    shown: bool
    #: The files of its order while they may still be coming; None where they are not known.
    files: Mapping[FileKey, int] | None = None

    @property
    def arriving(self) -> bool:
        return self.state in ("staging", "loading")


def promises_of(rows: Iterable[Mapping[str, Any]] | None) -> list[Promise]:
    """Replicas of one node as a statement returns them in JSON, with the files of their orders."""
    return [Promise(**{**row, "files": order_files(row["model"], row.get("files"))}) for row in rows or ()]


def holdings_of(files: Iterable[Mapping[str, Any]] | None, memory: Mapping[str, int] | None) -> Holdings:
    """What a node reported, from JSON of the wire or the database."""
    named = None if files is None else tuple(HeldFile(**file) for file in files)
    return Holdings(files=named, memory=memory)


def model_folder(model: str) -> str:
    """Name of a model's folder on a node. One that is no plain folder name is spelled out and ends in a digest."""
    plain = _UNSAFE.sub("_", model)
    if plain != model or plain.startswith("."):
        plain = f"{plain.lstrip('.')}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
    return plain


def order_files(model: str, files: Iterable[Mapping[str, Any]] | None) -> dict[FileKey, int] | None:
    """Sizes of the files of an order, as the order is written in JSON. None where it names no files."""
    if files is None:
        return None
    folder = model_folder(model)
    return {(f"{folder}/{file['path']}", str(file["sha256"])[:DIGEST_CHARS]): int(file["size"]) for file in files}


def on_disk(files: Iterable[HeldFile] | None) -> dict[FileKey, int]:
    """Bytes of each file. Nothing is known of a node that does not report: every file is still to come there."""
    found: dict[FileKey, int] = {}
    for file in files or ():
        found[file.key] = max(found.get(file.key, 0), file.bytes)
    return found


def arriving(promises: Iterable[Promise], held: Mapping[FileKey, int]) -> dict[FileKey, int]:
    """Bytes still to come of each file that loads on the node have set aside. Loads of one file share it."""
    found: dict[FileKey, int] = {}
    for number, promise in enumerate(promises):
        if not promise.arriving:
            continue
        files = promise.files if promise.files is not None else {(f"order {number}", ""): promise.reserved_bytes}
        for key, size in files.items():
            found[key] = max(found.get(key, 0), size - held.get(key, 0))
    return found


def spared(wanted: Mapping[FileKey, int] | None, held: Mapping[FileKey, int], coming: Mapping[FileKey, int]) -> int:
    """Bytes of wanted files that need no further room: they are there, or a load on the node brings them already."""
    return sum(size if key in coming else min(size, held.get(key, 0)) for key, size in (wanted or {}).items())


def promised_memory(promises: Sequence[Promise], memory: Mapping[str, int] | None, *, gpu: bool) -> int:
    """Memory that replicas have set aside and the node's own figures do not show.

    A process counts in the free memory with what it holds, and here with what its model may still take. Where the node
    does not report that (an older agent, or memory of a GPU), a replica counts until a heartbeat after its load.
    """
    if gpu or memory is None:
        return sum(promise.reserved_bytes for promise in promises if not promise.shown)
    return sum(max(0, promise.reserved_bytes - memory.get(promise.process_instance or "", 0)) for promise in promises)
