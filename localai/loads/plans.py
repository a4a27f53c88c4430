"""What loading a model means on this frontend, and how its bytes get here: configs, catalogue and files joined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from localai.backends import catalogue
from localai.galleries.install import InstallProgress, install_files
from localai.jobs.operation_rules import StagedFile
from localai.loads.ports import LoadPlan
from localai.models.config import ModelConfig
from localai.models.loader import ModelConfigs
from localai.models.options import model_options
from localai.models.paths import require_folder
from localai.staging.digests import Digests
from localai.staging.hub_ids import hub_id
from localai.staging.plan import ReadyFile, ready_files


class ConfigPlans:
    """The plans and installs of one models folder (`LoadPlans` and `InstallsModels` of ``localai.loads.ports``)."""

    def __init__(self, configs: ModelConfigs, digests: Digests, *, enable_fault: bool) -> None:
        self._configs, self._digests, self._enable_fault = configs, digests, enable_fault

    def plan(self, model: str, revision: str | None) -> LoadPlan:
        """The plan of a model; the folder is read again when what is known of it is not of ``revision``."""
        config = self._config(model, revision)
        require_folder(self._folder)
        backend = catalogue.name_for_node(config.backend, enable_fault=self._enable_fault)
        main_file = None if hub_id(config, self._folder) else config.model
        files = ready_files(config, self._folder, self._digests)
        return LoadPlan(
            model=config.name,
            revision=config.revision,
            backend=backend,
            identity=None if main_file else config.identity,
            model_file=main_file,
            files=None if files is None else tuple(_staged(file) for file in files),
            model_options=model_options(config),
            file_fields=config.file_fields,
            env=config.env,
            changed_at=self._configs.changed_at(config.name),
        )

    def holds(self, model: str, revision: str | None) -> bool:
        """Whether the folder, read again, has the config of this revision."""
        self._configs.refresh()
        config = self._configs.find(model, revision)
        return config is not None and config.revision == revision

    def install(self, model: str, progress: Callable[[InstallProgress], None], cancelled: Callable[[], bool]) -> None:
        """Fetch what is missing, and make every digest known."""
        config = self._config(model, None)
        require_folder(self._folder)
        install_files(config, self._folder, self._digests, progress, cancelled)

    @property
    def _folder(self) -> Path:
        return self._configs.folder

    def _config(self, model: str, revision: str | None) -> ModelConfig:
        return self._configs.find(model, revision) or self._configs.require(model)


def _staged(file: ReadyFile) -> StagedFile:
    """The node pulls the file from any frontend: a path below the URLs it registers with."""
    return StagedFile(
        path=file.path,
        size=file.size,
        sha256=file.sha256,
        sources=(f"/api/node/{{node_id}}/files/{quote(file.path)}",),
    )
