"""What the agent does as the first process of a container."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.embedded_servers import clean_environment

pytestmark = pytest.mark.integration

#: Orphans come to a subreaper as they come to process 1.
_SCRIPT = """
import ctypes, os, subprocess
from worker_agent.processes import orphans, proc_table
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
orphans.os.getpid, me = lambda: 1, os.getpid()
proc_table_zombies, own = proc_table.zombies_of, subprocess.Popen(["true"], start_new_session=True)
orphans.proc_table.zombies_of = lambda parent: proc_table_zombies(me)
subprocess.run(["sh", "-c", "(sleep 0.2) & exit 0"])
while not proc_table_zombies(me):
    pass
orphans.reap_orphans()
assert proc_table_zombies(me) == []
assert own.wait() == 0 and own.returncode == 0
"""


def test_orphans_are_collected_and_own_children_are_left_to_who_waits_for_them() -> None:
    command = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
