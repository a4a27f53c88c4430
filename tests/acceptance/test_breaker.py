"""What a hostile reviewer tried on real processes: each test is a case that once broke something, or must never."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import pytest

from tests.acceptance.cluster import LIMIT_S, Cluster, Frontend, wait_for

T = TypeVar("T")

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


class Background(Generic[T]):
    """A call on another thread, and what it returned."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._answers: list[T] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(call()), daemon=True)
        self._thread.start()

    def result(self) -> T:
        self._thread.join(LIMIT_S)
        return self._answers[0]


@pytest.fixture(scope="module")
def up(shared_cluster: Cluster) -> Iterator[Frontend]:
    """Started with the limit of open files that most machines give a user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        frontend = shared_cluster.up()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    frontend.wait_for_nodes(1)
    yield frontend


def test_last_words_that_no_row_can_hold_fail_their_load_and_no_other(shared_cluster: Cluster, up: Frontend) -> None:
    """A report names all operations of a node: refused for one text, none of them would be renewed."""
    shared_cluster.model("garbled", "fault", "load_delay:3s", "load_fail:no such luck")
    up.wait_for_model("garbled")
    asking = Background(lambda: up.chat("garbled"))
    log = shared_cluster.state_dir / "worker" / "logs"
    output = wait_for("its log", lambda: next(iter(log.glob("garbled*.err.log")), None))
    with output.open("ab") as file:
        file.write(b"nul \0 and half a pair \xed\xa0\x80 here\n")
    response = asking.result()
    assert response.status_code == 503, response.text
    assert response.json()["error"]["code"] == "model_load_failed"
    (job,) = up.jobs(kind="model.load", subject="garbled")
    assert (job["state"], job["error_cause"]) == ("failed", "load_refused")
    assert "and half a pair" in job["error_detail"]["stderr_tail"]


def test_a_thousand_waiting_clients_do_not_exhaust_the_open_files_of_a_web_process(up: Frontend) -> None:
    """With the usual limit of 1,024 the process took no further connection, heartbeats of agents included."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 4000:
        pytest.skip("this machine allows no more open files")
    master = up.process.child("gunicorn")
    worker = wait_for("a web worker", lambda: next(iter(master.children()), None))
    soft, _ = worker.rlimit(resource.RLIMIT_NOFILE)
    assert soft >= 4000
