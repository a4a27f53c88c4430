"""What the processes of a model wrote: the last lines, and what came since."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localai.lines import lines_of
from worker_agent.processes.logs import process_of

#: Bytes of one file that one answer holds at most.
READ_BYTES = 256 * 1024
#: Lines of one file that one answer holds at most.
MOST_LINES = 2000

STREAMS: Mapping[str, str] = {".err.log": "stderr", ".out.log": "stdout"}
_PLACE = re.compile(r"(\d+)(stderr|stdout):(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Source:
    """One file that a process writes, or wrote before it ended."""

    slot: int
    stream: str
    path: Path


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one source."""

    slot: int
    stream: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Lines of all processes of a model, and the text that asks for what comes after them."""

    parts: tuple[Part, ...]
    cursor: str


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a file was read. A new process gets a new file."""

    inode: int
    offset: int


def models_with_logs(folder: Path) -> list[str]:
    """The models whose processes wrote something here, also before this agent started."""
    return sorted({key[0] for path in _files(folder) if (key := _key_of(path)) is not None})


def read_logs(folder: Path, model: str, *, lines: int, after: str = "") -> Page | None:
    """The last lines of each process of a model, or what each wrote since ``after``; None where there is no log.

    A file that was cut or begun anew since is read like one that was not read before. Raises ValueError for a cursor
    that is none of ours.
    """
    sources = _sources_of(folder, model)
    if not sources:
        return None
    places = _parse(after)
    parts, said = [], []
    for source in sources:
        known = places.get((source.slot, source.stream))
        text, place = _since(source.path, known) if known else _last(source.path, lines)
        if text:
            parts.append(Part(source.slot, source.stream, tuple(text)))
        said.append(f"{source.slot}{source.stream}:{place.inode}:{place.offset}")
    return Page(tuple(parts), ",".join(said))


def _files(folder: Path) -> list[Path]:
    return sorted(path for ending in STREAMS for path in folder.glob(f"*{ending}"))


def _key_of(path: Path) -> tuple[str, int] | None:
    return process_of(path.name.removesuffix("".join(path.suffixes[-2:])))


def _sources_of(folder: Path, model: str) -> Sequence[Source]:
    found = []
    for path in _files(folder):
        key = _key_of(path)
        if key is not None and key[0] == model:
            found.append(Source(key[1], STREAMS["".join(path.suffixes[-2:])], path))
    return sorted(found, key=lambda source: (source.slot, source.stream))


def _parse(cursor: str) -> dict[tuple[int, str], _Place]:
    places = {}
    for text in cursor.split(",") if cursor else []:
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ValueError(text)
        slot, stream, inode, offset = match.groups()
        places[(int(slot), stream)] = _Place(int(inode), int(offset))
    return places


def _last(path: Path, lines: int) -> tuple[list[str], _Place]:
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        begin = max(0, status.st_size - READ_BYTES)
        file.seek(begin)
        data = file.read(status.st_size - begin)
    found = lines_of(data.decode(errors="replace"))
    if begin and len(found) > 1:
        del found[0]  # its beginning was not read
    count = min(lines, MOST_LINES)
    return found[-count:] if count else [], _Place(status.st_ino, begin + len(data))


def _since(path: Path, known: _Place) -> tuple[list[str], _Place]:
    """Whole lines only: what a process is still writing comes with the next reading."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_ino != known.inode or status.st_size < known.offset:
            return _last(path, MOST_LINES)
        file.seek(known.offset)
        data = file.read(READ_BYTES)
    whole = data.rfind(b"\n") + 1
    if not whole and len(data) == READ_BYTES:
        whole = len(data)
    return lines_of(data[:whole].decode(errors="replace")), _Place(known.inode, known.offset + whole)
