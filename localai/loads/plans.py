"""What loading a model means on this frontend, and how its bytes get here: configs, catalogue and files joined."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from localai.backends import catalogue
from localai.errors import OperationFailed
from localai.galleries.install import InstallProgress, install_files
from localai.jobs.operation_rules import Cause, StagedFile
from localai.loads.ports import LoadPlan
from localai.models.config import ModelConfig
from localai.models.loader import ModelConfigs
from localai.models.options import model_options
from localai.staging.digests import Digests
from localai.staging.plan import ReadyFile, ready_files


class ConfigPlans:
    """The plans and installs of one models folder (`LoadPlans` and `InstallsModels` of ``localai.loads.ports``)."""

    def __init__(self, configs: ModelConfigs, digests: Digests, *, enable_fault: bool) -> None:
        self._configs, self._digests, self._enable_fault = configs, digests, enable_fault

    def plan(self, model: str, revision: str | None) -> LoadPlan:
        """The plan of a model; the folder is read again when what is known of it is not of ``revision``."""
        config = self._config(model, revision)
        self._require_folder()
        backend = catalogue.find(config.backend, enable_fault=self._enable_fault)
        files = ready_files(config, self._folder, self._digests)
        return LoadPlan(
            model=config.name,
            revision=config.revision,
            backend=backend.name,
            identity=None if config.model else config.identity,
            model_file=config.model,
            files=None if files is None else tuple(_staged(file) for file in files),
            model_options=model_options(config),
            file_fields=config.file_fields,
            env=config.env,
            changed_at=self._configs.changed_at(config.name),
        )

    def install(self, model: str, progress: Callable[[InstallProgress], None], cancelled: Callable[[], bool]) -> None:
        """Fetch what is missing, and make every digest known."""
        config = self._config(model, None)
        self._require_folder()
        install_files(config, self._folder, self._digests, progress, cancelled)

    @property
    def _folder(self) -> Path:
        return self._configs.folder

    def _config(self, model: str, revision: str | None) -> ModelConfig:
        return self._configs.find(model, revision) or self._configs.require(model)

    def _require_folder(self) -> None:
        """A file of a folder that cannot be read is not a missing file."""
        try:
            os.scandir(self._folder).close()
        except OSError as error:
            text = f"the models folder {self._folder} cannot be read: {error.strerror}"
            raise OperationFailed(Cause.MODELS_FOLDER_UNAVAILABLE, text) from None


def _staged(file: ReadyFile) -> StagedFile:
    """The node pulls the file from any frontend: a path below the URLs it registers with."""
    return StagedFile(
        path=file.path,
        size=file.size,
        sha256=file.sha256,
        sources=(f"/api/node/{{node_id}}/files/{quote(file.path)}",),
    )
