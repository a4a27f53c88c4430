"""Secrets of the command line disappear from what other accounts see of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from localai.cli.arguments import secret_flags, secret_spans

pytestmark = pytest.mark.unit

_PROGRAM = """
import sys
from localai.cli.arguments import hide_secrets
hide_secrets()
print(sys.argv[1:])
print(open("/proc/self/cmdline").read().encode("unicode_escape").decode())
"""


def masked(*arguments: str) -> str:
    line = bytearray(b"\0".join(argument.encode() for argument in arguments))
    for offset, length in secret_spans([argument.encode() for argument in arguments], secret_flags()):
        line[offset : offset + length] = b"*" * length
    return line.decode().replace("\0", " ")


def test_every_form_of_a_secret_flag_is_masked() -> None:
    assert masked("localai", "run", "--api-key", "abc", "--port", "1") == "localai run --api-key *** --port 1"
    assert masked("localai", "run", "--nats-url=nats://t@h") == "localai run --nats-url=**********"
    assert masked("localai", "run", "--database-url", "postgresql://") == "localai run --database-url *************"
    assert masked("localai", "run", "--auth-database-url=x") == "localai run --auth-database-url=*"


def test_what_is_no_secret_stays() -> None:
    for arguments in (("localai", "run", "--api-key-file", "/run/secrets/key"), ("localai", "run", "--api-key")):
        assert masked(*arguments) == " ".join(arguments)


def test_a_running_process_shows_no_secret_of_its_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "--api-key", "äquator-key", "--broker-url=redis://:pw@h/0", "end"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    known, shown = done.stdout.splitlines()
    assert "äquator-key" in known and "redis://:pw@h/0" in known, "the program still knows its arguments"
    assert "quator-key" not in shown and ":pw@" not in shown
    assert "--api-key" in shown and shown.endswith("end\\x00")
