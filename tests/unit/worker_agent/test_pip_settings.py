"""Which of a machine's pip settings reach the install of a backend."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from localai.errors import OperationFailed
from worker_agent.install.pip_settings import environment, kept

pytestmark = pytest.mark.unit

PIP = (sys.executable, "-m", "pip")

LISTED = """\
:env:.cert='/etc/ssl/ours.pem'
:env:.target='/somewhere'
:env:.user='1'
:env:.index-url=''
global.extra-index-url='https://a/simple\\nhttps://b/simple'
global.index-url='https://global/simple'
global.timeout='30'
global.user='true'
install.constraint='/etc/constraints.txt'
install.index-url='https://install/simple'
install.prefix='/opt'
install.root='/mnt'
download.index-url='https://download/simple'
install.proxy=not a literal
nonsense
"""


def test_index_proxy_and_certificates_are_kept_and_places_are_dropped() -> None:
    assert kept(LISTED) == {
        "PIP_CERT": "/etc/ssl/ours.pem",
        "PIP_EXTRA_INDEX_URL": "https://a/simple\nhttps://b/simple",
        "PIP_INDEX_URL": "https://install/simple",
        "PIP_TIMEOUT": "30",
    }


def test_pip_reads_no_config_file_and_no_variable_beside_what_is_kept(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://mirror/simple\ntarget = /elsewhere\n")
    given = {
        "PATH": "/bin",
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": str(config),
        "PIP_PREFIX": "/x",
        "PIP_PROXY": "p:1",
    }
    found = environment(PIP, given)
    assert found["PIP_INDEX_URL"] == "https://mirror/simple" and found["PIP_PROXY"] == "p:1"
    assert found["PIP_CONFIG_FILE"] == os.devnull and found["PATH"] == "/bin"
    assert not {"PIP_PREFIX", "PIP_TARGET"} & set(found)


def test_a_config_file_that_pip_cannot_read_fails_the_install_with_its_words(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("no section\n")
    with pytest.raises(OperationFailed, match="pip cannot read its settings") as failed:
        environment(PIP, {**os.environ, "PIP_CONFIG_FILE": str(config)})
    assert "pip.conf" in failed.value.stderr_tail
