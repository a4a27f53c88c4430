"""What lies where in the state folder, and who may use it?"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localai.embedded.account import Account, allows, blocked_at, may_take_over, take_over
from localai.embedded.private_files import create_private, replace_private
from localai.errors import StartRefused
from localai.settings import KEY_ACCEPTED, KEY_LEAST_LENGTH, KEY_RECIPE, usable_as_key


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The names inside one state folder."""

    path: Path

    @property
    def api_key(self) -> Path:
        return self.path / "api-key"

    @property
    def secrets(self) -> Path:
        return self.path / "secrets.json"

    @property
    def env(self) -> Path:
        return self.path / "env"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def known_models(self) -> Path:
        """The names of the sample configs that were written (`localai.galleries.index`)."""
        return self.path / "known-models.json"

    @property
    def known_configs(self) -> Path:
        """The last usable configs of the models folder (`localai.models.memory`)."""
        return self.path / "model-configs.json"

    @property
    def digests(self) -> Path:
        """Digests of model files, if the models folder does not take them (`localai.staging.digests`)."""
        return self.path / "digests.json"

    @property
    def worker(self) -> Path:
        return self.path / "worker"

    @property
    def binaries(self) -> Path:
        """Copies of server programs, only where the servers' account cannot reach the installed ones."""
        return self.path / "binaries"

    def server(self, name: str) -> Path:
        """The data folder of one embedded server."""
        return self.path / name

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"


def prepare(path: Path, account: Account | None = None) -> StateFolder:
    """Make the folder, or see that it can be used. Raises StartRefused with one line.

    ``account`` is that of the servers. It may pass through the folder but not list it, and parents stay as they are.
    """
    folder = StateFolder(Path(os.path.abspath(path)))
    try:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.logs.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            _let_through(folder.path, account)
    except OSError as error:
        raise StartRefused(f"the state folder {folder.path} cannot be used: {error.strerror}") from None
    if not os.access(folder.path, os.R_OK | os.W_OK | os.X_OK):
        raise StartRefused(f"the state folder {folder.path} cannot be used: this account may not write to it")
    return folder


def _let_through(path: Path, account: Account) -> None:
    found = path.stat()
    if not allows(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, account, os.X_OK):
        os.chown(path, -1, account.gid)
        path.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXGRP)
    blocked = blocked_at(path, account, os.X_OK)
    if blocked is not None:
        raise StartRefused(
            f"the state folder {path} cannot be used: the servers run as {account.name}, which cannot pass {blocked}; "
            "choose another folder with --state-dir or another account with --server-user"
        )


def server_folder(path: Path, account: Account | None) -> Path:
    """The data folder of a server: 0700, of the account that runs it. Raises StartRefused.

    A folder that ``nobody`` had, or a number without an account, is taken over with all in it.
    """
    owner = account.uid if account else os.geteuid()
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.stat().st_uid
        if account is not None and found != owner and (found == os.geteuid() or may_take_over(found)):
            take_over(path.resolve(), account)
        if path.stat().st_uid == owner:
            path.chmod(0o700)
    except OSError as error:
        raise StartRefused(f"{path} cannot be used: {error.strerror}") from None
    found = path.stat().st_uid
    if found != owner:
        raise StartRefused(
            f"{path} belongs to account number {found}, the servers run as number {owner}: "
            "start as the account that made the state folder, or give its files to this one"
        )
    return path


@contextmanager
def held(folder: StateFolder) -> Iterator[None]:
    """Hold the lock of the folder. Raises StartRefused with the pid of the holder.

    The lock is the system's and ends with this process, however that ends; the file stays.
    """
    try:
        number = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartRefused(f"{folder.lock} cannot be opened: {error.strerror}") from None
    with os.fdopen(number, "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _refusal(folder, error) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _refusal(folder: StateFolder, error: OSError) -> StartRefused:
    if error.errno not in (errno.EAGAIN, errno.EACCES):
        return StartRefused(f"{folder.lock} cannot be locked: {error.strerror}")
    pid = folder.lock.read_text(encoding="utf-8").strip() or "unknown"
    return StartRefused(f"the state folder {folder.path} is in use by process {pid}: stop it, or choose --state-dir")


def admin_key(folder: StateFolder, given: str) -> str:
    """The admin key of this folder: ``given`` when there is one, else the kept one, drawn the first time.

    The file holds the key in force, so that client commands on this machine find it.
    """
    if given:
        if _kept_key(folder) != given:
            replace_private(folder.api_key, given + "\n")
        return given
    create_private(folder.api_key, f"lk-{secrets.token_urlsafe(24)}\n")
    key = _kept_key(folder)
    if not key:
        raise StartRefused(f"{folder.api_key} is empty: write a key into it, or remove it and a new one is drawn")
    if not usable_as_key(key):
        raise StartRefused(f"the key in {folder.api_key} cannot be used; accepted: {KEY_ACCEPTED}")
    if len(key) < KEY_LEAST_LENGTH:
        raise StartRefused(
            f"the key in {folder.api_key} has {len(key)} characters and could be guessed; accepted: at least "
            f"{KEY_LEAST_LENGTH}: remove the file and a new key is drawn, or write one into it ({KEY_RECIPE})"
        )
    return key


def _kept_key(folder: StateFolder) -> str:
    try:
        return folder.api_key.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise StartRefused(f"{folder.api_key} cannot be read: {error}") from None
