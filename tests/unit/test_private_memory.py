"""Other processes of an account read neither memory nor environment of a service, unless it may be debugged."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PR_SET_DUMPABLE"),
]

_PR_GET_DUMPABLE = 3


@pytest.mark.parametrize(("unless", "dumpable"), [(False, 0), (True, 1)])
def test_a_service_is_closed_to_others_unless_it_may_be_debugged(unless: bool, dumpable: int) -> None:
    code = f"""
import ctypes
from localai import private_memory
private_memory.close_to_others(unless={unless})
print(ctypes.CDLL(None).prctl({_PR_GET_DUMPABLE}, 0, 0, 0, 0))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == dumpable
