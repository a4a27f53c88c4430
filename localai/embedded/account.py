"""Which account do the embedded servers run as, and can it reach a path?

PostgreSQL refuses to run as root, so root's servers run as another account. What that account may reach is read from
the mode bits: trying it with a privileged process would always succeed.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from localai.errors import StartRefused


@dataclass(frozen=True, slots=True)
class Account:
    """An account other than our own. It gets no group but its primary one."""

    name: str
    uid: int
    gid: int


def server_account(name: str) -> Account | None:
    """The account that servers run as; None = our own, because we are not root. Raises StartRefused."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise StartRefused(f"LOCALAI_SERVER_USER={name!r}: this machine has no such account") from None
    if entry.pw_uid == 0:
        raise StartRefused("LOCALAI_SERVER_USER: the embedded servers do not run as root; name another account")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


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


def give(path: Path, account: Account | None) -> None:
    """Make ``account`` the owner of one file or folder; None leaves it."""
    if account is not None:
        # The folder may be that account's: a link it put there must not make us give away what it points at.
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
