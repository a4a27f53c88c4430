"""Where the agent keeps what it has, and who may use it: one agent for each data folder."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localai.errors import StartRefused
from localai.nodes import secret_file
from localai.settings import Settings, default_state_dir


@dataclass(frozen=True, slots=True)
class Folders:
    """The data folder of one agent."""

    data: Path
    models: Path
    backends: Path

    @property
    def journal(self) -> Path:
        return self.data / "journal"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def home(self) -> Path:
        """The home of model processes: caches, and what a backend downloads by itself."""
        return self.data / "home"

    @property
    def scratch(self) -> Path:
        """A folder of temporary files for each process that runs."""
        return self.data / "scratch"

    @property
    def incarnation(self) -> Path:
        return self.data / "incarnation"

    @property
    def node_secret(self) -> Path:
        return self.data / secret_file.FILE_NAME

    @classmethod
    def of(cls, settings: Settings) -> Folders:
        """The folders of these settings, with absolute paths."""
        data = settings.data_path or (settings.state_dir or default_state_dir()) / "worker"
        models = settings.models_path or data / "models"
        backends = settings.backends_path or data / "backends"
        return cls(data.absolute(), models.absolute(), backends.absolute())

    def make(self) -> None:
        """Create what is missing. Raises StartRefused."""
        try:
            for folder in (self.data, self.models, self.backends, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StartRefused(f"the data folder {self.data} cannot be used: {error}") from None


class FolderLock:
    """A kernel lock on the data folder: it dies with its process."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise StartRefused(f"another agent (pid {holder}) uses {folder}; LOCALAI_DATA_PATH names another") from None
        with suppress(OSError):  # the pid is for people; the lock holds without it, also on a full disk
            os.truncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)
