"""The bus in a process patched by gevent: answers come to greenlets, and the hub goes on meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from localai.bus import subjects
from localai.bus.nats import NatsBus, ThreadDelivery
from tests.loopback import LIMIT_S, NatsServer

pytestmark = pytest.mark.integration

QUESTIONS = 500


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server on which node `answering` answers at once and node `silent` never."""
    server = NatsServer(tmp_path)
    server.start()
    node = NatsBus(server.url, name="node", delivery=ThreadDelivery())
    release, ready = threading.Event(), threading.Event()

    def never(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        release.wait(LIMIT_S)
        return {}

    try:
        node.serve("answering", subjects.MODEL_STOP, lambda payload: payload)
        node.serve("silent", subjects.MODEL_STOP, never)
        node.on_resync(ready.set)
        assert ready.wait(LIMIT_S)
        yield server.url
    finally:
        release.set()
        node.close()
        server.kill()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_500_parallel_questions_of_greenlets_are_answered_while_the_hub_goes_on(url: str, loop: str) -> None:
    command = [sys.executable, "-m", "tests.integration.bus.gevent_process", url, str(QUESTIONS), loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["resynced"] is True
    assert found["outcomes"] == {"answered": QUESTIONS}
    assert found["longest_stall_s"] < 2
    assert found["turns_of_the_hub"] > 5
    assert found["told"] is True
    assert found["asked_inside_a_handler"] == ["answered"]
    assert found["echo"] == {"a": 1}
    assert (found["nobody"], found["silent"]) == ("NoRoute", "NodeQuiet")
    assert found["close_s"] < 10
    assert found["after_close"] == "NodeUnreachable"
