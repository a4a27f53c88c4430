"""The secret of a model process: how it is drawn and shown, and where it never appears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localai.inference import process_secrets
from localai.inference.ports import Endpoint
from localai.jobs.operation_rules import OperationReport, OpState, Phase
from localai.replicas.store import RoutingReplica
from localai.routing.picks import endpoint_of
from tests.fakes.routing import Replica
from tests.unit.worker_agent.factories import operation, running
from worker_agent.processes.logs import OutputFiles
from worker_agent.processes.starter import Launch

pytestmark = pytest.mark.unit

SECRET = "a-secret-of-a-process"


def test_each_process_gets_another_secret_that_a_call_can_show() -> None:
    drawn = {process_secrets.draw() for _ in range(50)}
    assert len(drawn) == 50
    assert all(len(secret) >= 43 and process_secrets.is_usable(secret) for secret in drawn)


def test_a_call_shows_the_secret_and_nothing_if_there_is_none() -> None:
    assert process_secrets.metadata(SECRET) == (("authorization", f"Bearer {SECRET}"),)
    assert process_secrets.metadata(None) is None


@pytest.mark.parametrize("secret", ["", "short", "x" * 257, "a line\nand another one", "caf\xe9" * 8, 5, b"x" * 20])
def test_what_no_call_could_show_is_not_usable(secret: Any) -> None:
    assert not process_secrets.is_usable(secret)


def _launch(folder: Path) -> Launch:
    return Launch(
        instance="i",
        name="m#0",
        job_id="j",
        op_generation=1,
        port=1,
        argv=["/run.sh"],
        folder=folder,
        environ={process_secrets.VARIABLE: SECRET},
        output=OutputFiles(folder / "out", folder / "err"),
    )


def test_no_value_that_holds_a_secret_shows_it_as_text(tmp_path: Path) -> None:
    holders = (
        Endpoint("n", "127.0.0.1:1", "i", SECRET),
        OperationReport(
            job_id="j", op_generation=1, op_state=OpState.READY, phase=Phase.LOADING, process_secret=SECRET
        ),
        RoutingReplica(
            replica_id="r",
            model="m",
            slot=0,
            node_id="n",
            node_name="one",
            address="127.0.0.1:1",
            process_instance="i",
            identity="m",
            revision="r1",
            process_secret=SECRET,
        ),
        operation(process_secret=SECRET),
        running(secret=SECRET),
        _launch(tmp_path),
    )
    for holder in holders:
        assert SECRET not in f"{holder!r} {holder}", type(holder).__name__


def test_a_routed_replica_is_called_with_its_secret_and_known_by_its_process() -> None:
    routed = endpoint_of(Replica(process_secret=SECRET))
    assert routed.secret == SECRET
    assert routed == endpoint_of(Replica())
    assert hash(routed) == hash(endpoint_of(Replica()))
