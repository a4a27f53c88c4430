"""What a hostile reviewer tried on real processes: each test is a case that once broke something, or must never."""

from __future__ import annotations

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
    frontend = shared_cluster.up()
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
