"""GET /api/node/<id>/files/<path>: a file of the models folder for a node that stages a model, in ranges.

A large file must not stop the other requests of this process: it goes out in pieces read at their offset, and between
two pieces the others have their turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flask import Blueprint, Response, request

from localai.errors import NotAuthorized, NotFound
from localai.models.paths import find_file, is_config, require_folder
from localai.whole_numbers import whole_number
from web.access import Access, open_to
from web.identity import bearer
from web.services import services
from web.turns import Turns

blueprint = Blueprint("node_files", __name__)

#: Larger pieces make other requests wait longer, smaller ones cost more of this process.
PIECE_BYTES = 256 * 1024

_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)|bytes=-([0-9]+)")


@blueprint.get("/api/node/<node_id>/files/<path:path>")
@open_to(Access.NODE)
def get_file(node_id: str, path: str) -> Response:
    """Only what a running operation of this very node stages; never a config, which may hold secrets."""
    node = services().node_keys.require_approved_node(node_id, bearer(request.headers)).id
    if not services().operations.gives(node, path):
        raise NotAuthorized(f"no running operation of this node stages {path!r}")
    folder = services().models_folder
    found = file_below(folder, path)
    if is_config(folder, found):
        raise NotAuthorized("model configs are not given to nodes")
    size = found.stat().st_size
    wanted = wanted_range(request.headers.get("Range"), size)
    if wanted is None:
        return Response(status=416, headers={"Content-Range": f"bytes */{size}"})
    body: Iterator[bytes] | bytes = b"" if request.method == "HEAD" else _Pieces(found, wanted)
    response = Response(body, status=206 if wanted.partial else 200, mimetype="application/octet-stream")
    response.headers["Content-Length"] = str(wanted.length)
    response.headers["Accept-Ranges"] = "bytes"
    if wanted.partial:
        response.headers["Content-Range"] = f"bytes {wanted.start}-{wanted.start + wanted.length - 1}/{size}"
    # Digests are remembered by the name a file has in the folder, and never computed here.
    if digest := services().digests.known(folder / path):
        response.headers["X-Content-SHA256"] = digest
    return response


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a file, in bytes."""

    start: int
    length: int
    partial: bool


def file_below(folder: Path, path: str) -> Path:
    """The file of a relative path, links followed. Raises NotFound, ModelsFolderUnavailable."""
    found = find_file(folder, path)
    if found is None:
        require_folder(folder)
        raise NotFound(f"there is no file {path!r} in the models folder")
    return found


def wanted_range(header: str | None, size: int) -> Range | None:
    """The range a header asks for, the whole file without one; None when it lies outside of the file.

    A header of another form is ignored, as the standard allows.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None:
        return Range(0, size, partial=False)
    first, last, suffix = match.groups()
    if suffix is not None:
        length = _bytes(suffix, size)
        return Range(size - length, length, partial=True) if length else None
    start = _bytes(first, size)
    end = _bytes(last, size - 1) if last else size - 1
    if start > end:
        return None
    return Range(start, end - start + 1, partial=True)


def _bytes(digits: str, most: int) -> int:
    found = whole_number(digits, most)
    assert found is not None  # the pattern allows digits only
    return found


class _Pieces:
    """The bytes of a range. The file is open until `close`, which also ends an answer nobody began to read."""

    def __init__(self, path: Path, wanted: Range) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset, self._left, self._turns = wanted.start, wanted.length, Turns()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._left:
            raise StopIteration
        self._turns.give()
        piece = os.pread(self._file, min(PIECE_BYTES, self._left), self._offset)
        if not piece:
            raise EOFError("the file became shorter while it was sent")
        self._offset += len(piece)
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
