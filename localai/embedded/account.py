"""The account of the embedded servers, and the paths that it can reach.

PostgreSQL refuses to run as root, so root's servers run as another account. Its access is read from the mode bits: a
try by a privileged process would always succeed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localai.errors import StartRefused


@dataclass(frozen=True, slots=True)
class Account:
    """An account other than our own. It gets no group but its primary one."""

    name: str
    uid: int
    gid: int


#: Account of root's servers, created if it is missing.
OWN_NAME = "localai"
#: Account of root's servers before they had one of their own, and still if that cannot be created.
SHARED_NAME = "nobody"
_SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_USERADD_LIMIT_S = 10.0


def server_account(name: str, say: Callable[[str], None]) -> Account | None:
    """The account that servers run as; None = our own, because we are not root. Raises StartRefused.

    The account ``localai`` is created if it is missing; any other name must exist.
    """
    if os.geteuid() != 0:
        return None
    account = _account(name)
    if account is None and name == OWN_NAME:
        account = _created(say)
    if account is None:
        raise StartRefused(f"LOCALAI_SERVER_USER={name!r}: this machine has no such account")
    if account.uid == 0:
        raise StartRefused("LOCALAI_SERVER_USER: the embedded servers do not run as root; name another account")
    return account


def _account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _created(say: Callable[[str], None]) -> Account | None:
    """The new account ``localai``; ``nobody`` with a warning if the machine does not let us create one."""
    failure = _useradd()
    account = _account(OWN_NAME)  # also if another start created it at the same moment
    if account is not None:
        say(f"created the system account {OWN_NAME} (number {account.uid}): the embedded servers run as it")
        return account
    say(
        f"WARNING: the system account {OWN_NAME} cannot be created ({failure}): the embedded servers run as "
        f"{SHARED_NAME}, which other services may share; create it with `useradd --system {OWN_NAME}`, or name another "
        "account with --server-user"
    )
    return _account(SHARED_NAME)


def _useradd() -> str:
    """Create the account, with a group of its own and without a home and a shell. Why it failed; empty: it did not."""
    program = shutil.which("useradd", path=_SYSTEM_PATH)
    if program is None:
        return "useradd is not installed"
    shell = shutil.which("nologin", path=_SYSTEM_PATH) or "/bin/false"
    places = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", shell]
    try:
        done = subprocess.run(
            [program, "--system", "--user-group", *places, "--comment", "localai servers", OWN_NAME],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_USERADD_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program}: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (said[-1] if said else f"{program} ended with {done.returncode}")


def allows(mode: int, owner_uid: int, owner_gid: int, account: Account, wanted: int) -> bool:
    """Whether the mode bits of a file give ``account`` all of ``wanted`` (a sum of os.R_OK, os.W_OK, os.X_OK)."""
    shift = 6 if owner_uid == account.uid else 3 if owner_gid == account.gid else 0
    return (mode >> shift) & wanted == wanted


def blocked_at(path: Path, account: Account, wanted: int) -> Path | None:
    """The first part of a path that keeps ``account`` from ``wanted`` on it; None = it can. Follows links."""
    real = path.resolve()
    for part in (*reversed(real.parents), real):
        needed = wanted if part == real else os.X_OK
        found = part.stat()
        if not allows(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, account, needed):
            return part
    return None


def may_take_over(uid: int) -> bool:
    """Whether files of this account number may be given to the account of the servers.

    ``nobody`` had them in earlier versions. A number without an account comes with a folder from another machine.
    """
    try:
        return pwd.getpwuid(uid).pw_name == SHARED_NAME
    except KeyError:
        return True


def take_over(folder: Path, account: Account) -> None:
    """Give a folder with all in it to ``account``. Raises OSError, StartRefused.

    A folder is first made root's own, so that its earlier owner can change no entry in it, and given at the end: after
    an interruption the next start goes on. A file with a second name is refused, because that name may lie anywhere:
    the earlier owner could have linked a file of another account.
    """
    os.chown(folder, os.geteuid(), -1, follow_symlinks=False)
    folder.chmod(0o700)
    for name in os.listdir(folder):
        path = folder / name
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode):
            take_over(path, account)
            continue
        if found.st_nlink > 1:
            raise StartRefused(f"{path} has a second name (a hard link) and is not taken over: replace it by a copy")
        give(path, account)
    give(folder, account)


def give(path: Path, account: Account | None) -> None:
    """Make ``account`` the owner of one file or folder; None leaves it."""
    if account is not None:
        # The folder may be that account's: a link it put there must not make us give away what it points at.
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
