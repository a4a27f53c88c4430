"""How a backend becomes a folder of this node: built beside its place, then renamed into it, or not there at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from localai import logs
from localai.backends import catalogue
from localai.backends.catalogue import Entry
from localai.backends.layout import lay_out
from localai.backends.platform_rules import Platform
from localai.errors import OperationFailed
from localai.jobs.disk_full import cause_of
from localai.jobs.operation_rules import Cause, Order
from worker_agent.hooks import Hooks
from worker_agent.install.commands import Commands, Errand
from worker_agent.install.environment import make_environment
from worker_agent.processes.backend_account import BackendAccount, show, take_back
from worker_agent.work import Work

log = logs.get(__name__)

METADATA = "metadata.json"
#: How often a lock that another install holds is tried again.
_LOCK_POLL_S = 0.2
#: The backend whose install can be delayed, for tests.
SLOW_BACKEND = "fault-slow"


@dataclass(frozen=True, slots=True)
class Rights:
    """What the settings allow an install on this node."""

    may_install: bool
    enable_fault: bool
    fault_delay_s: float


class BackendInstaller:
    """The backends folder of this node."""

    def __init__(
        self,
        folder: Path,
        *,
        machine: Platform,
        rights: Rights,
        commands: Commands,
        hooks: Hooks | None = None,
        account: BackendAccount | None = None,
    ) -> None:
        self._folder = folder
        self._machine = machine
        self._rights = rights
        self._commands = commands
        self._hooks = hooks or Hooks()
        self._account = account

    def ensure(self, order: Order, *, said: Callable[[str], None], work: Work) -> Path:
        """The folder of the order's backend, installed when it is not there in this version.

        ``said`` gets lines about what is going on. Raises OperationFailed, OperationStopped.
        """
        name = catalogue.canonical(order.backend)
        place = self._folder / _folder_name(name)
        entry = self._entry(name, place)
        if entry is None or _is_installed(place, entry):
            _make_runnable(place / "run.sh")
            self._show(place, entry)
            return place
        if not self._rights.may_install:
            raise OperationFailed(
                Cause.BACKEND_INSTALL_DISABLED,
                f"this node does not have backend {name}, and LOCALAI_DISABLE_BACKEND_INSTALL forbids installing it",
            )
        catalogue.check_machine(entry, self._machine)
        errand = Errand(order, time.monotonic() + order.install_timeout_s, said, work)
        with self._one_at_a_time(name, errand):
            if not _is_installed(place, entry):
                self._install(entry, place, errand)
        self._show(place, entry)
        return place

    def _show(self, place: Path, entry: Entry | None) -> None:
        """Let the account of model processes read a backend that was installed without it. A person's own stays."""
        account = self._account
        if account is not None and entry is not None and account.blocked_at(place / "run.sh", os.R_OK | os.X_OK):
            show(place, account)

    def _entry(self, name: str, place: Path) -> Entry | None:
        """The gallery's entry, or None for a folder somebody put there that the gallery does not know."""
        try:
            return catalogue.find(name, enable_fault=self._rights.enable_fault)
        except OperationFailed:
            if (place / "run.sh").is_file() and not (place / METADATA).exists():
                return None
            raise

    def _install(self, entry: Entry, place: Path, errand: Errand) -> None:
        log.info("installing a backend", extra=logs.fields(backend=entry.name, version=entry.version))
        if entry.name == SLOW_BACKEND:
            errand.said("waiting as LOCALAI_FAULT_INSTALL_DELAY asks")
            errand.work.pause(self._rights.fault_delay_s)
        temporary = place.with_name(f"{place.name}.install-tmp")
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True, mode=0o700)
            lay_out(entry, temporary)
            if entry.lock is not None:
                self._make_environment(temporary, entry.lock, errand)
            if self._account is not None:
                show(temporary, self._account)
            _write_metadata(temporary, entry)
            self._hooks.installing(entry.name)
            _swap(temporary, place)
        except OSError as error:
            cause = cause_of(error, Cause.BACKEND_INSTALL_FAILED)
            raise OperationFailed(cause, f"backend {entry.name} could not be installed: {error}") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _make_environment(self, folder: Path, lock: Path, errand: Errand) -> None:
        """Packages are installed by the account of model processes, and then no longer its own."""
        if self._account is not None:
            show(folder, self._account)
        make_environment(folder, lock, commands=self._commands, errand=errand)
        if self._account is not None:
            take_back(folder / "venv")

    @contextmanager
    def _one_at_a_time(self, name: str, errand: Errand) -> Iterator[None]:
        """The right to install this backend."""
        with _lock_file(self._folder, name) as descriptor:
            while not _try_lock(descriptor):
                errand.said("waiting for another install of this backend")
                if not errand.left_s:
                    raise OperationFailed(
                        Cause.BACKEND_INSTALL_FAILED,
                        f"another install of backend {name} did not end within {errand.order.install_timeout_s:g} s "
                        "(LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT)",
                    )
                errand.work.pause(_LOCK_POLL_S)
            yield


def _is_installed(place: Path, entry: Entry) -> bool:
    """Whether the folder was installed from this very entry. A folder without our metadata is somebody's own."""
    if not (place / "run.sh").is_file():
        return False
    try:
        metadata = json.loads((place / METADATA).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return isinstance(metadata, dict) and metadata.get("version") == entry.version


def _make_runnable(script: Path) -> None:
    """A folder that somebody copied here may have lost the mode of its script."""
    if not os.access(script, os.X_OK):
        script.chmod(0o700)


def _write_metadata(folder: Path, entry: Entry) -> None:
    metadata = {
        "name": entry.name,
        "version": entry.version,
        "installed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        # Who runs it: its own environment, or the interpreter that LOCALAI_PYTHON names (the agent's).
        "interpreter": "venv/bin/python" if entry.requirements is not None else "LOCALAI_PYTHON",
    }
    (folder / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def _swap(temporary: Path, place: Path) -> None:
    """Put the new folder in its place; the old one comes back when that fails."""
    if place.exists() and not place.is_dir():
        place.unlink()
    backup = place.with_name(f"{place.name}.install-backup")
    shutil.rmtree(backup, ignore_errors=True)
    had_one = place.exists()
    if had_one:
        os.rename(place, backup)
    try:
        os.rename(temporary, place)
    except BaseException:
        if had_one:
            os.rename(backup, place)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def recover(folder: Path) -> None:
    """Undo what an agent left that died in the middle of an install. Called before anything is installed.

    What another agent on the same folder is installing at this moment stays.
    """
    for left in sorted(folder.glob("*.install-*")):
        name, _, what = left.name.rpartition(".install-")
        with _lock_file(folder, name) as descriptor:
            if not _try_lock(descriptor):
                continue
            place = left.with_name(name)
            if what == "backup" and not place.exists():
                os.rename(left, place)
            else:
                shutil.rmtree(left, ignore_errors=True)


def _folder_name(name: str) -> str:
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise OperationFailed(Cause.BACKEND_UNKNOWN, f"{name!r} cannot be the name of a backend")
    return name


@contextmanager
def _lock_file(folder: Path, name: str) -> Iterator[int]:
    """The open lock file of a backend. A lock on it is the kernel's: it ends with its holder, however that dies."""
    descriptor = os.open(folder / f".{_folder_name(name)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
