"""Files of the models folder: one rule for plan, digest, file route and download.

A config names a file by its path below the models folder, in one spelling: forward slashes, no `.` and `..`. Symbolic
links in the folder are followed, also to another disk: the link was put there by an account that may write to the
folder, and a config can name the link only. Special files are refused: reading a pipe would never end. So is a link to
a folder that contains the models folder: what lies beside it, such as keys, is no model.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from localai.errors import ModelsFolderUnavailable
from localai.models.fields import stays_below


def is_config_name(name: str) -> bool:
    """Whether a file of this name, directly in the models folder, is a model config."""
    return name.endswith((".yaml", ".yml")) and not name.startswith(".")


def is_config(folder: Path, path: Path) -> bool:
    """Whether a file is a model config of the folder, or a link to one. Configs may hold secrets: no node gets one."""
    places = (folder, Path(os.path.realpath(folder)))
    found = (path, Path(os.path.realpath(path)))
    return any(one.parent in places and is_config_name(one.name) for one in found)


def find_file(folder: Path, relative: str) -> Path | None:
    """The regular file of a path below the folder, links followed; None if there is none."""
    path = folder / relative
    if not stays_below(relative) or not os.path.isfile(path) or _outer_link(folder, path.parent) is not None:
        return None
    return path


def files_of(folder: Path, relative: str) -> list[Path]:
    """The regular file of a path, or all regular files of the folder it names, by path; empty if there are none."""
    found = find_file(folder, relative)
    if found is not None:
        return [found]
    path = folder / relative
    if not stays_below(relative) or _outer_link(folder, path) is not None:
        return []
    return sorted(_walk(folder, path, ()))


def why_unusable(folder: Path, relative: str) -> str:
    """Why `files_of` finds nothing: the end of a sentence that begins with the path."""
    if not stays_below(relative):
        return f"which is not a path below {folder}"
    if (problem := link_problem(folder, relative)) is not None:
        return problem
    path = folder / relative
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return f"which is not in {folder}"
    except OSError as error:
        return f"but {path} cannot be read: {error.strerror}"
    return f"but {path} holds no file" if stat.S_ISDIR(mode) else f"but {path} is not a regular file"


def link_problem(folder: Path, relative: str) -> str | None:
    """Why a link on the way to a path is refused, as the end of a sentence that begins with the path, or None."""
    path = folder / relative
    for part in (path, *path.parents):
        if part == folder:
            break
        if part.is_symlink() and not part.exists():
            return f"but {part} is a link to {os.readlink(part)}, which cannot be reached"
    if (outer := _outer_link(folder, path)) is not None:
        return f"but {outer} is a link to {os.readlink(outer)}, which contains the models folder"
    return None


def require_folder(folder: Path) -> None:
    """Raise ModelsFolderUnavailable if the folder cannot be listed: then a file that is not found may exist."""
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise ModelsFolderUnavailable(f"the models folder {folder} cannot be read: {error.strerror}") from None


def _outer_link(folder: Path, path: Path) -> Path | None:
    """The link between the folder and a path below it that leads to a folder around the models folder."""
    root = Path(os.path.realpath(folder))
    for part in (path, *path.parents):
        if part == folder:
            return None
        if part.is_symlink() and root.is_relative_to(os.path.realpath(part)):
            return part
    return None


def _walk(folder: Path, path: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    """The regular files below a path. A link to a folder that contains it ends there."""
    try:
        found = path.stat()
        inner = sorted(path.iterdir())
    except OSError:
        return
    identity = (found.st_dev, found.st_ino)
    if identity in above:
        return
    for one in inner:
        if os.path.isdir(one):
            if not one.is_symlink() or _outer_link(folder, one) is None:
                yield from _walk(folder, one, (*above, identity))
        elif os.path.isfile(one):
            yield one
