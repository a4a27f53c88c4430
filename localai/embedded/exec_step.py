"""How does a child get its parent-death signal and its account without Python code between fork and exec?

A small step is started instead of the target. It changes the account, asks for the parent-death signal (a change of
account clears it, so it comes second), looks whether the parent is still the one that started it, and becomes the
target by exec. The signal fires when the *thread* that forked ends, so children are started from the main thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from localai.embedded.account import Account

#: PR_SET_PDEATHSIG is 1. Elsewhere than on Linux there is no such call, and a killed supervisor leaves its children.
#: Python itself ignores SIGPIPE and SIGXFSZ, which an exec would hand down.
_STEP = """
import os, signal, sys
death, parent, uid, gid = map(int, sys.argv[1:5])
if sys.platform == "linux":
    import ctypes
    prctl = ctypes.CDLL(None).prctl
if uid >= 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    if prctl(1, death, 0, 0, 0) != 0:
        sys.exit("the parent-death signal cannot be set")
    if os.getppid() != parent:
        sys.exit("the parent has ended")
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execv(sys.argv[5], sys.argv[5:])
except OSError as error:
    sys.exit(f"{sys.argv[5]} cannot be started: {error.strerror}")
"""


def command(argv: Sequence[str], *, death_signal: int, account: Account | None = None) -> list[str]:
    """The command line that becomes ``argv``. ``argv[0]`` is an absolute path.

    To be started by this process, from a thread that lives as long as the child shall.
    """
    uid, gid = (account.uid, account.gid) if account else (-1, -1)
    step = [sys.executable, "-SEsI", "-c", _STEP]
    return [*step, str(int(death_signal)), str(os.getpid()), str(uid), str(gid), *argv]
