"""The account of model processes and installs (LOCALAI_BACKEND_USER), and what is opened to it."""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localai.embedded.account import Account, blocked_at
from localai.errors import StartRefused

#: Numbers of <linux/capability.h>: without one of them the agent cannot start, see or end processes of another account.
_NEEDED = {
    "CAP_CHOWN": 0,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_PTRACE": 19,
}
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class BackendAccount:
    """An account other than the agent's, with its groups: those of devices, such as `render`, are among them."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """As the launcher takes them."""
        return (self.uid, self.gid, *self.groups)

    def blocked_at(self, path: Path, wanted: int) -> Path | None:
        """The first part of a path that keeps the account from ``wanted`` on it, whatever its group; None = it can."""
        found = [blocked_at(path, Account(self.name, self.uid, gid), wanted) for gid in (self.gid, *self.groups)]
        return None if None in found else found[0]


def backend_account(name: str) -> BackendAccount | None:
    """The account of that name; None for an empty name. Raises StartRefused if this agent cannot switch to it."""
    if not name:
        return None
    if os.geteuid() != 0:
        raise StartRefused(
            f"LOCALAI_BACKEND_USER={name!r}: only a worker that runs as root can start processes as another account; "
            "leave it empty, and model processes run as the worker's account"
        )
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise StartRefused(f"LOCALAI_BACKEND_USER={name!r}: this machine has no such account") from None
    if entry.pw_uid == 0:
        raise StartRefused(f"LOCALAI_BACKEND_USER={name!r}: this account is root; name one without rights of its own")
    if missing := _missing_capabilities():
        raise StartRefused(
            f"LOCALAI_BACKEND_USER={name!r}: the worker is root without {', '.join(missing)} and cannot start, see "
            "and end processes of another account; give it these capabilities, or leave the setting empty"
        )
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return BackendAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)


def _missing_capabilities() -> list[str]:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:  # no Linux: root has all rights
        return []
    held = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return [name for name, number in _NEEDED.items() if not held >> number & 1]


def let_pass(folders: Sequence[Path], account: BackendAccount) -> None:
    """Let the account pass through folders of ours, which it can still not list. Raises StartRefused."""
    for folder in folders:
        found = folder.stat()
        if found.st_uid == os.geteuid():
            folder.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)
    for path, wanted in (*((folder, os.X_OK) for folder in folders), (Path(sys.executable), os.R_OK | os.X_OK)):
        if (blocked := account.blocked_at(path, wanted)) is not None:
            raise StartRefused(
                f"LOCALAI_BACKEND_USER={account.name!r}: this account cannot reach {path}, it cannot pass {blocked}; "
                "let it pass there, or place the worker's folders and its Python where it can"
            )


def show(folder: Path, account: BackendAccount) -> None:
    """Let the account read a folder of ours with everything in it, and change nothing there."""
    for path, found in _tree(folder):
        mode = stat.S_IMODE(found.st_mode)
        is_folder = stat.S_ISDIR(found.st_mode)
        wanted = mode | stat.S_IRGRP | (stat.S_IXGRP if is_folder or mode & stat.S_IXUSR else 0)
        wanted &= ~(stat.S_IWGRP | stat.S_IRWXO)
        if found.st_uid != os.geteuid() or (found.st_gid == account.gid and mode == wanted):
            continue
        os.chown(path, -1, account.gid, follow_symlinks=False)
        path.chmod(wanted)


def take_back(folder: Path) -> None:
    """Make the agent the owner of everything below a folder that the account filled."""
    os.chown(folder, os.geteuid(), os.getegid(), follow_symlinks=False)
    for path, _ in _tree(folder, links=True):
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)


def _tree(folder: Path, *, links: bool = False) -> Iterator[tuple[Path, os.stat_result]]:
    """Folders and files, and with ``links`` symbolic links; the target of a link is never looked at."""
    for top, folders, files in os.walk(folder):
        for path in (Path(top), *(Path(top, name) for name in (*files, *folders))):
            found = path.lstat()
            kind = stat.S_IFMT(found.st_mode)
            if kind in (stat.S_IFDIR, stat.S_IFREG) or (links and kind == stat.S_IFLNK):
                yield path, found
