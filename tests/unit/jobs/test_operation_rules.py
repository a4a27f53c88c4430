"""What an agent says is read strictly: a wrong type is named, and never reaches a statement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localai.errors import BadInput
from localai.jobs.operation_rules import (
    OperationError,
    OperationReport,
    OpState,
    Order,
    Phase,
    ProcessReport,
    Report,
    StagedFile,
    needs_env,
)
from tests.unit.worker_agent.factories import order

pytestmark = pytest.mark.unit

OPERATION = OperationReport(
    job_id="job",
    op_generation=1,
    op_state=OpState.ENDED,
    phase=Phase.LOADING,
    error=OperationError(cause="load_refused", message="no"),
)
PROCESS = ProcessReport(
    process_instance="instance",
    model="m",
    slot=0,
    job_id="job",
    op_generation=1,
    address="127.0.0.1:1",
    pid=7,
    ready=True,
)
SECRET = "a-secret-of-a-process"
REPORT = Report(incarnation=2, seq=3, operations=(OPERATION,), processes=(PROCESS,))


def test_a_report_is_read_as_it_was_written() -> None:
    assert Report.from_json(REPORT.to_json()) == REPORT


def test_fields_of_a_later_agent_are_ignored() -> None:
    body = REPORT.to_json()
    for item in (*body["operations"], *body["processes"]):
        item["said_by_a_later_version"] = 1
    assert Report.from_json(body) == REPORT


def test_the_secret_of_a_process_is_reported_if_there_is_one() -> None:
    assert "process_secret" not in REPORT.to_json()["operations"][0], "an earlier frontend knows no such field"
    told = replace(REPORT, operations=(replace(OPERATION, process_secret=SECRET),))
    assert Report.from_json(told.to_json()) == told


@pytest.mark.parametrize("value", ["short", SECRET + "\n", 12345678901234567, [SECRET]])
def test_a_secret_that_no_call_could_show_is_refused_without_being_shown(value: Any) -> None:
    body = REPORT.to_json()
    body["operations"][0]["process_secret"] = value
    with pytest.raises(BadInput) as caught:
        Report.from_json(body)
    assert "process_secret" in caught.value.message
    assert str(value) not in f"{caught.value.message} {caught.value!r}"


@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("operations", "job_id", ["job"]),
        ("operations", "op_generation", {}),
        ("operations", "op_generation", True),
        ("operations", "bytes_done", "many"),
        ("operations", "message", 5),
        ("processes", "pid", None),
        ("processes", "ready", "yes"),
        ("processes", "model", 1.5),
        ("operations", "bytes_done", 2**63),
        ("operations", "op_generation", -(10**100)),
        ("operations", "file_index", 2**31),
        ("processes", "slot", 2**31),
    ],
)
def test_a_field_of_a_wrong_type_is_named(where: str, field: str, value: Any) -> None:
    body = REPORT.to_json()
    body[where] = [{**body[where][0], field: value}]
    with pytest.raises(BadInput) as refused:
        Report.from_json(body)
    assert refused.value.field == field


def test_a_wrong_type_inside_an_error_is_named() -> None:
    body = REPORT.to_json()
    body["operations"][0]["error"] = {"cause": 1, "message": "no"}
    with pytest.raises(BadInput) as refused:
        Report.from_json(body)
    assert refused.value.field == "cause"


@pytest.mark.parametrize("missing", ["incarnation", "seq"])
def test_a_report_without_its_numbers_is_refused(missing: str) -> None:
    body = REPORT.to_json()
    del body[missing]
    with pytest.raises(BadInput) as refused:
        Report.from_json(body)
    assert refused.value.field == missing


@pytest.mark.parametrize("name", ["incarnation", "seq"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, 10**100, -1, 1.5, "1", True, None, [1]])
def test_a_number_that_no_row_can_hold_is_named(name: str, value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        Report.from_json({**REPORT.to_json(), name: value})
    assert refused.value.field == name


def test_sources_of_an_order_are_those_of_the_node_that_claims_it() -> None:
    order = Order(
        job_id="job",
        op_generation=1,
        kind="model.load",
        model="m",
        slot=0,
        backend="fault",
        identity=None,
        model_file="m.gguf",
        files=(StagedFile(path="m.gguf", size=1, sha256="0", sources=("/api/node/{node_id}/files/m.gguf",)),),
        model_options={},
        file_fields={},
        env={},
        deadline_s=1.0,
        install_timeout_s=1.0,
        start_timeout_s=1.0,
        load_timeout_s=1.0,
        load_timeout_reason="",
        stall_window_s=1.0,
    )
    read = Order.from_json(order.to_json()).for_node("node-7")
    assert read.files[0].sources == ("/api/node/node-7/files/m.gguf",)


def test_an_order_in_a_row_has_the_names_of_its_env_and_no_value() -> None:
    with_env, without = order(env={"TOKEN": "private", "A": "b"}), order()
    body = with_env.to_row()
    assert (body["env"], body["env_names"]) == ({}, ["A", "TOKEN"])
    assert "private" not in str(body)
    assert needs_env({"order": body})
    assert Order.from_json(body) == order()
    assert without.to_row() == without.to_json()
    assert not needs_env({"order": without.to_row()})
    assert not needs_env({})
