"""The confinement of the processes that one agent starts: their account, and the files that they reach."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localai import logs
from localai.settings import Settings, default_state_dir
from worker_agent.folders import Folders
from worker_agent.processes import rights as known
from worker_agent.processes.backend_account import BackendAccount, backend_account, let_pass, show
from worker_agent.processes.environ import is_inherited
from worker_agent.processes.launcher import landlock_version
from worker_agent.processes.logs import OutputFiles
from worker_agent.processes.rights import Rights

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """The files of one start beside those that every process needs."""

    #: Folders of the agent that the process reads.
    reads: tuple[Path, ...] = ()
    #: Folders that it may change.
    writes: tuple[Path, ...] = ()
    #: It installs packages: it reads the settings of pip, and uses pip's cache.
    installs: bool = False


class Start(Protocol):
    """What is read of a start."""

    @property
    def instance(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def output(self) -> OutputFiles: ...
    @property
    def access(self) -> Access: ...


class Confinement:
    """Makes the rights of each start. Its calls come from the thread that forks, and from threads that watch."""

    def __init__(
        self,
        *,
        folders: Folders,
        kept_out: Sequence[Path],
        account: BackendAccount | None = None,
        landlock: int = 0,
        reads: Sequence[Path] = (),
        writes: Sequence[Path] = (),
    ) -> None:
        self.account = account
        self._folders = folders
        self._kept_out = tuple(path.resolve() for path in kept_out)
        self._landlock = landlock
        root = account is None and os.geteuid() == 0
        self._etc = known.readable_to_all(Path("/etc")) if landlock and root else [Path("/etc")]
        self._reads, self._writes = tuple(reads), tuple(writes)

    @classmethod
    def of(cls, settings: Settings, folders: Folders) -> Confinement:
        """That of these settings; the folders exist. Raises StartRefused."""
        account = backend_account(settings.backend_user)
        state = (settings.state_dir or default_state_dir()).absolute()
        shutil.rmtree(folders.scratch, ignore_errors=True)
        for folder in (folders.scratch, folders.home):
            folder.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            above = [state] if folders.data.is_relative_to(state) else []
            let_pass([*above, folders.data, folders.models, folders.backends, folders.scratch], account)
            os.chown(folders.home, account.uid, account.gid)
            for path in folders.data.iterdir():  # an earlier version made some of them readable to all
                if path.is_file() and not path.is_symlink():
                    path.chmod(0o600)
        return cls(
            folders=folders,
            kept_out=[state, folders.data],
            account=account,
            landlock=_landlock(settings.backend_landlock),
            reads=[Path(text).absolute() for text in settings.backend_reads],
            writes=[Path(text).absolute() for text in settings.backend_writes],
        )

    def rights(self, start: Start) -> Rights:
        """The rights of one start; its folder for temporary files is made. Raises OSError."""
        scratch = self._folders.scratch / start.instance
        scratch.mkdir(mode=0o700)
        added = {"TMPDIR": str(scratch), **self._home(start)}
        if self.account is not None:
            self._hand_over(scratch, start, self.account)
        environ = {**start.environ, **added}
        return Rights(
            account=self.account.numbers if self.account is not None else (-1, -1),
            landlock=self._landlock,
            reads=self._all_reads(start, environ) if self._landlock else (),
            writes=self._all_writes(scratch, start, environ) if self._landlock else (),
            environ=added,
        )

    def forget(self, instance: str) -> None:
        """Remove the temporary files of a process that has ended."""
        shutil.rmtree(self._folders.scratch / instance, ignore_errors=True)

    def _home(self, start: Start) -> dict[str, str]:
        """A home that the process may write to, unless the model's config names one.

        An install of the agent's own account keeps that of the agent, with the settings and the cache of pip.
        """
        account = self.account
        if account is None and (start.access.installs or not self._landlock):
            return {}
        wanted = {"HOME": str(self._folders.home)}
        if account is not None:
            wanted |= {"USER": account.name, "LOGNAME": account.name}
        return {name: value for name, value in wanted.items() if is_inherited(name, start.environ.get(name))}

    def _hand_over(self, scratch: Path, start: Start, account: BackendAccount) -> None:
        # Of the output files too: a program may open its /dev/stderr again.
        for path in {scratch, start.output.out, start.output.err, *start.access.writes}:
            os.chown(path, account.uid, account.gid)
        for path in start.access.reads:
            show(path, account)

    def _all_reads(self, start: Start, environ: Mapping[str, str]) -> tuple[str, ...]:
        general = [
            *map(Path, known.SYSTEM),
            *self._etc,
            *interpreter_folders(),
            *known.named_by(environ, known.READ),
            *self._reads,
        ]
        if start.access.installs:
            home = environ.get("HOME", "/nonexistent")
            general += [Path(text.replace("~", home, 1)) for text in known.PIP_FILES]
            general += known.local_indexes(environ)
        folder = start.folder
        # A backend that a person put there may lead elsewhere by links.
        own = [folder, folder.resolve(), (folder / "run.sh").resolve().parent, *start.access.reads]
        return _texts((part for path in general for part in known.without(path, self._kept_out)), own)

    def _all_writes(self, scratch: Path, start: Start, environ: Mapping[str, str]) -> tuple[str, ...]:
        general = [
            *(path for pattern in known.DEVICES for path in Path("/dev").glob(pattern)),
            *known.named_by(environ, known.WRITTEN),
            Path("/tmp"),  # programs write there whatever TMPDIR says; other accounts' files stay theirs
            *self._writes,
        ]
        if start.access.installs and self.account is None:
            cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pip"
            with suppress(OSError):  # pip works without
                cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            general.append(cache)
        allowed = (path for path in general if not any(out.is_relative_to(path) for out in self._kept_out))
        own = [scratch, self._folders.home, start.output.out, start.output.err, *start.access.writes]
        return _texts(allowed, own)


def _texts(*lists: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(path) for paths in lists for path in paths))


def interpreter_folders() -> list[Path]:
    """The folders of the agent's interpreter and of its packages, with which backends may run too."""
    packages = [Path(text) for text in sys.path if Path(text).name in ("site-packages", "dist-packages")]
    return list(dict.fromkeys([*map(Path, (sys.prefix, sys.exec_prefix, sys.base_prefix)), *packages]))


def _landlock(wanted: bool) -> int:
    version = landlock_version() if wanted else 0
    if wanted and not version:
        log.warning(
            "this kernel has no Landlock: the files of model processes are guarded by their account alone; "
            "LOCALAI_BACKEND_USER gives them one of their own"
        )
    return version
