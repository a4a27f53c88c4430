"""How all files of a model get ready on this frontend: the work of a ``model.install`` job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localai.errors import OperationFailed
from localai.galleries import sources
from localai.jobs.operation_rules import Cause
from localai.models.config import ModelConfig
from localai.staging.digests import Cancelled, Digests, never
from localai.staging.plan import staged_files


@dataclass(frozen=True, slots=True)
class InstallProgress:
    """How far an install is. Bytes are of the current file; its total is 0 while it is not known."""

    file: str
    file_index: int  # counts from 1
    files_total: int
    bytes_done: int
    bytes_total: int


def install_files(
    config: ModelConfig,
    models_folder: Path,
    digests: Digests,
    progress: Callable[[InstallProgress], None],
    cancelled: Cancelled = never,
) -> None:
    """Fetch what is declared and missing (or wrong), then make the digest of every file known.

    Blocks for as long as the bytes take, on a thread that must live until it returns; doing it twice changes nothing.
    Raises OperationFailed: model_fetch_failed, digest_mismatch, disk_full, file_missing, cancelled.
    """
    downloads = config.download_files
    for index, file in enumerate(downloads, start=1):

        def fetched(done: int, total: int, name: str = file.filename, index: int = index) -> None:
            progress(InstallProgress(name, index, len(downloads), done, total))

        sources.fetch(
            file.uri,
            file.sha256,
            models_folder / file.filename,
            fetched,
            cancelled,
            models_folder=models_folder,
            digests=digests,
            size=file.size,
        )
    planned = staged_files(config, models_folder)
    for index, present in enumerate(planned, start=1):

        def read(done: int, total: int, name: str = present.path, index: int = index) -> None:
            progress(InstallProgress(name, index, len(planned), done, total))

        try:
            digests.digest(present.local, read, cancelled)
        except OSError as error:
            text = f"{present.local} cannot be read: {error.strerror or error}"
            raise OperationFailed(Cause.FILE_MISSING, text) from None
