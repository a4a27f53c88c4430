"""The program between the agent's fork and a command of its own: it waits for the gate, gives up rights, and execs.

Run as a file by the agent's interpreter with ``-SEsI``; it imports no package, so that it starts in a few
milliseconds. Arguments: see `worker_agent.processes.rights.Rights.arguments`.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_LINUX = sys.platform == "linux"
#: Numbers of <linux/prctl.h>.
_PDEATHSIG, _CAPBSET_DROP, _NO_NEW_PRIVS, _CAP_AMBIENT, _CLEAR_ALL = 1, 24, 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
#: System calls of Landlock: the same numbers on every architecture that Python's wheels are built for.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE = 1, 2, 4, 8, 1 << 13, 1 << 14
#: Everything about files that the first version of Landlock knows: the rights above, and making and removing.
_VERSION_1 = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_SCOPE_SIGNAL = 2
_READS = _EXECUTE | _READ_FILE | _READ_DIR


class Refused(Exception):
    """The kernel did not take rights away as it was asked to; nothing may run then."""


def landlock_version() -> int:
    """The version of Landlock in this kernel; 0 if it has none or a sandbox hides it."""
    if not _LINUX:
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32)]


def make_ruleset(version: int, reads: list[str], writes: list[str]) -> int:
    """A Landlock ruleset that allows reading and executing ``reads`` and anything below ``writes``; its descriptor.

    A path that is not there gets no rule.
    """
    handled = _VERSION_1 | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    # A kernel takes a structure of an earlier version; each version added a field at the end.
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = _Ruleset(handled, 0, _SCOPE_SIGNAL)
    libc = _libc()
    found = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    ruleset = _checked(found, "Landlock makes no ruleset")
    for paths, rights in ((reads, _READS), (writes, handled)):
        for path in paths:
            _allow(libc, ruleset, path, rights)
    return ruleset


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = rights if os.path.isdir(path) else rights & _OF_FILES
        rule = _PathBeneath(rights, descriptor)
        _checked(libc.syscall(_ADD_RULE, ruleset, 1, ctypes.byref(rule), 0), f"Landlock takes no rule for {path}")
    finally:
        os.close(descriptor)


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Change to an account for good; -1 keeps the present one."""
    if uid >= 0:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """No capability now, and none by a later exec."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked(libc.capset(header, (ctypes.c_uint32 * 6)()), "capabilities cannot be dropped")


def _close_bounding_set(libc: ctypes.CDLL) -> None:
    """Needs CAP_SETPCAP; without it NO_NEW_PRIVS alone keeps an exec from gaining any."""
    libc.prctl(_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    capability = 0
    while capability < 64 and libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1


def _die_with(parent: int) -> None:
    """Ask for SIGKILL at the parent's death. The parent is compared after: it may have died before."""
    if _LINUX:
        _libc().prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(125)


def _give_up(version: int, account: str, reads: list[str], writes: list[str]) -> None:
    uid, gid, *groups = map(int, account.split(","))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not _LINUX:
        become(uid, gid, groups)
        return
    libc = _libc()
    # While this process may still open every path.
    ruleset = make_ruleset(version, reads, writes) if version else -1
    _checked(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    _close_bounding_set(libc)
    become(uid, gid, groups)
    drop_capabilities(libc)
    if ruleset >= 0:
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock does not take the ruleset")
        os.close(ruleset)


def _take(arguments: list[str]) -> list[str]:
    """Remove a list from the front: its length, then its items."""
    count = int(arguments.pop(0))
    taken = arguments[:count]
    del arguments[:count]
    return taken


def main(arguments: list[str]) -> None:
    """Never returns."""
    gate, parent = int(arguments.pop(0)), int(arguments.pop(0))
    _die_with(parent)
    # End of file means that the agent died, or that it changed its mind.
    if os.read(gate, 1) != b"g":
        os._exit(125)
    os.close(gate)
    version, mask, account = int(arguments.pop(0)), int(arguments.pop(0), 8), arguments.pop(0)
    reads, writes = _take(arguments), _take(arguments)
    try:
        os.umask(mask)
        _give_up(version, account, reads, writes)
        _die_with(parent)  # a change of account cleared the signal
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execv(arguments[0], arguments)
    except (OSError, ValueError, Refused) as error:
        os.write(2, f"cannot start {arguments[0]}: {error}\n".encode())
        os._exit(126)


if __name__ == "__main__":
    main(sys.argv[1:])
