"""One operation from its claim to READY, its process, and every way in which it fails."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
from contextlib import ExitStack

import grpc
import psutil
import pytest

from localai.inference.process_secrets import VARIABLE, metadata
from localai.jobs.operation_rules import Answer, Cause, OpState, Order, Phase
from localai.loads.budget_rules import GIB, load_budget
from protos import backend_pb2, backend_pb2_grpc
from tests.integration.worker_agent.conftest import MakeRig, Rig, faults, order
from tests.integration.worker_agent.fake_frontend import LIMIT_S
from tests.loopback import eventually, free_port
from worker_agent.processes import proc_table
from worker_agent.processes.dialing import Dialed, dial
from worker_agent.processes.stall_rules import Heard

pytestmark = pytest.mark.integration


def predict(address: str, identity: str, secret: str | None) -> str:
    with grpc.insecure_channel(address) as channel:
        stub = backend_pb2_grpc.BackendStub(channel)
        options = backend_pb2.PredictOptions(Prompt="hi", ModelIdentity=identity, Tokens=2)
        return stub.Predict(options, timeout=30, metadata=metadata(secret)).message.decode()


def failure(rig: Rig, wanted: Order) -> tuple[str, str, str]:
    """Cause, message and stderr of an operation that ended; nothing of it runs when it says so."""
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None
    assert ended.process_instance is None or not proc_table.carriers(frozenset({ended.process_instance}))
    return ended.error.cause, ended.error.message, ended.error.stderr_tail


def loading_pid(rig: Rig, wanted: Order) -> int:
    """The pid of the process of an operation that is in LoadModel."""

    def pids() -> list[int]:
        newest = rig.frontend.reports[-1:]
        return [process.pid for report in newest for process in report.processes if process.job_id == wanted.job_id]

    return rig.frontend.wait("the process of the order", pids)[0]


def test_a_model_without_files_is_loaded_and_answers_under_its_own_name(rig: Rig) -> None:
    wanted = rig.run(order(model="plain", identity="plain"))
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    assert ready.identity == "plain"
    assert ready.phase is Phase.LOADING
    assert predict(ready.address, ready.identity, ready.process_secret) == "plain says: tok1 tok2"
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    assert rig.frontend.instances() == {ready.process_instance}


def test_lj_09_a_process_that_binds_late_is_waited_for(rig: Rig) -> None:
    wanted = rig.run(order(model_options=faults("bind_delay:1s")))
    assert rig.frontend.wait_report(wanted, OpState.READY).address


def test_lj_09_a_process_that_never_binds_is_stopped_and_its_stderr_is_reported(rig: Rig) -> None:
    wanted = rig.run(order(start_timeout_s=1.0, model_options=faults("bind_delay:10m", "stderr:warming up")))
    cause, message, stderr = failure(rig, wanted)
    assert cause == Cause.START_TIMEOUT
    assert "LOCALAI_BACKEND_START_TIMEOUT" in message
    assert "warming up" in stderr
    assert rig.frontend.reports[-1].processes == ()
    address = rig.frontend.wait_report(wanted, OpState.ENDED).address or ""
    assert dial(address.partition(":")[0], int(address.partition(":")[2])) is Dialed.REFUSED


def test_a_process_that_ends_at_once_fails_the_start_with_its_last_lines(rig: Rig) -> None:
    wanted = rig.run(order(model_options=faults("start_exit:7", "stderr:no such device")))
    cause, message, stderr = failure(rig, wanted)
    assert cause == Cause.START_FAILED
    assert "status 7" in message
    assert stderr == "no such device"


def test_a_refused_load_says_why_and_its_process_is_gone(rig: Rig) -> None:
    wanted = rig.run(order(model_options=faults("load_fail:not a model")))
    cause, message, stderr = failure(rig, wanted)
    assert cause == Cause.LOAD_REFUSED
    assert "not a model" in message
    assert "load failed: not a model" in stderr


def test_options_that_no_load_can_use_fail_before_a_process_starts(rig: Rig) -> None:
    wanted = rig.run(order(model_options={"NoSuchField": 1}))
    cause, message, _ = failure(rig, wanted)
    assert cause == Cause.BAD_CONFIG
    assert "NoSuchField" in message


def test_lj_05_a_load_over_its_budget_names_budget_size_and_setting(rig: Rig) -> None:
    wanted = rig.run(
        order(
            load_timeout_s=0.5,
            load_timeout_reason=load_budget(2 * GIB, 0.5).reason,
            model_options=faults("load_delay:10m"),
        )
    )
    cause, message, _ = failure(rig, wanted)
    assert cause == Cause.LOAD_TIMEOUT
    assert message == (
        "LoadModel took longer than its budget of 0.5 s "
        "(pinned by LOCALAI_NATS_MODEL_LOAD_TIMEOUT; 2.00 GiB would give 340 s)"
    )


def test_a_process_that_dies_while_it_loads_ends_the_operation_at_once(rig: Rig) -> None:
    wanted = rig.run(order(model_options=faults("load_delay:10m")))
    os.kill(loading_pid(rig, wanted), signal.SIGKILL)
    cause, message, _ = failure(rig, wanted)
    assert cause in (Cause.PROCESS_ENDED, Cause.START_FAILED)
    assert "status -9" in message


def test_c10_an_error_is_reported_after_the_group_is_gone_children_included(make_rig: MakeRig) -> None:
    rig = make_rig(stop_grace_s=0.5)
    wanted = rig.run(order(model_options=faults("fork_child:true", "ignore_sigterm:true", "load_fail:no")))
    assert failure(rig, wanted)[0] == Cause.LOAD_REFUSED
    assert rig.frontend.reports[-1].processes == ()


def test_a_serving_process_that_dies_leaves_the_report_at_once(make_rig: MakeRig) -> None:
    rig = make_rig(heartbeat_interval_s=50.0, heartbeat_checkpoint_s=60.0)
    wanted = rig.run(order())
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    os.kill(loading_pid(rig, wanted), signal.SIGKILL)
    rig.frontend.wait_no_process(ready.process_instance)


def test_a_process_that_refuses_connections_while_it_lives_is_ended(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = rig.run(order())
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    pid = loading_pid(rig, wanted)
    monkeypatch.setattr("worker_agent.agent.hear", lambda host, ports: dict.fromkeys(ports, Heard.REFUSED))
    rig.frontend.wait_no_process(ready.process_instance)
    assert not proc_table.is_alive(pid)


def test_the_port_of_an_ended_process_is_free_and_rests(rig: Rig) -> None:
    first = rig.frontend.wait_report(rig.run(order(model="a")), OpState.READY)
    host, _, port = first.address.partition(":")
    rig.frontend.stop_processes = (first.process_instance,)
    rig.frontend.wait_no_process(first.process_instance)
    assert dial(host, int(port)) is Dialed.REFUSED
    second = rig.frontend.wait_report(rig.run(order(model="b")), OpState.READY)
    assert second.address != first.address


def test_a_second_operation_of_one_slot_is_refused_while_an_undoomed_process_serves(rig: Rig) -> None:
    first = rig.run(order(op_generation=1))
    rig.frontend.wait_report(first, OpState.READY)
    second = rig.run(order(op_generation=2))
    cause, message, _ = failure(rig, second)
    assert cause == Cause.START_FAILED
    assert "m#0" in message


def test_a_second_operation_waits_for_the_end_of_a_doomed_process(make_rig: MakeRig) -> None:
    rig = make_rig(stop_grace_s=1.0)
    first = rig.run(order(op_generation=1, model_options=faults("ignore_sigterm:true")))
    old = rig.frontend.wait_report(first, OpState.READY)
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    rig.frontend.stop_processes = (old.process_instance,)
    eventually(lambda: not rig.agent.operations.serving(), "the end of the old process was decided")
    second = rig.run(order(op_generation=2))
    assert rig.frontend.wait_report(second, OpState.READY).process_instance != old.process_instance
    assert not proc_table.carriers(frozenset({old.process_instance}))


def test_a_doomed_process_that_does_not_end_in_time_fails_the_next_start_with_the_limit(make_rig: MakeRig) -> None:
    rig = make_rig(stop_grace_s=4.0)
    old = rig.frontend.wait_report(
        rig.run(order(op_generation=1, model_options=faults("ignore_sigterm:true"))), OpState.READY
    )
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    rig.frontend.stop_processes = (old.process_instance,)
    eventually(lambda: not rig.agent.operations.serving(), "the end of the old process was decided")
    cause, message, _ = failure(rig, rig.run(order(op_generation=2, start_timeout_s=0.3)))
    assert cause == Cause.START_FAILED
    assert "m#0 did not end within 0.3 s; LOCALAI_BACKEND_START_TIMEOUT" in message


def test_a_model_gets_its_own_variables_and_no_secret_of_the_agent(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALAI_REGISTRATION_TOKEN", "secret")
    wanted = rig.run(order(env={"MODEL_SETTING": "1"}))
    rig.frontend.wait_report(wanted, OpState.READY)
    with open(f"/proc/{loading_pid(rig, wanted)}/environ", "rb") as file:
        environ = file.read()
    assert b"MODEL_SETTING=1" in environ
    assert b"REGISTRATION_TOKEN" not in environ


def test_each_process_has_a_secret_of_its_own_that_only_its_environment_and_the_report_of_ready_hold(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "what-the-agent-was-started-with")
    wanted = [rig.run(order(model=name, env={VARIABLE: "what-a-config-says"})) for name in ("one", "two")]
    ready = [rig.frontend.wait_report(one, OpState.READY) for one in wanted]
    secrets = [report.process_secret or "" for report in ready]
    assert len(set(secrets)) == 2
    for order_, report, secret in zip(wanted, ready, secrets, strict=True):
        pid = loading_pid(rig, order_)
        with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/cmdline", "rb") as command:
            assert f"{VARIABLE}={secret}".encode() in environ.read().split(b"\0")
            assert secret.encode() not in command.read()
        for shown in (None, "", *(other for other in secrets if other != secret)):
            with pytest.raises(grpc.RpcError) as caught:
                predict(report.address or "", report.identity or "", shown)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert all(said.process_secret in (None, secret) for said in rig.frontend.said(order_))
        files = [*rig.folders.logs.iterdir(), rig.folders.journal]
        assert all(secret.encode() not in file.read_bytes() for file in files)
        assert secret not in caplog.text
    assert "ignores the secret" not in caplog.text


def test_a_process_listens_on_the_advertised_address_only(make_rig: MakeRig) -> None:
    rig = make_rig(serve_addr="", addr=f"127.0.0.1:{free_port()}")
    wanted = rig.run(order())
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    connections = psutil.Process(loading_pid(rig, wanted)).net_connections("tcp")
    listens = {
        (one.laddr.ip.removeprefix("::ffff:"), one.laddr.port)
        for one in connections
        if one.status == psutil.CONN_LISTEN
    }
    assert listens == {("127.0.0.1", int((ready.address or "").rpartition(":")[2]))}


def test_a_backend_that_ignores_its_secret_is_named_in_the_log(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    name = handmade(rig, f"unset {VARIABLE}")
    ready = rig.frontend.wait_report(rig.run(order(backend=name)), OpState.READY)
    assert predict(ready.address or "", ready.identity or "", None) == predict(
        ready.address or "", ready.identity or "", ready.process_secret
    )
    (line,) = [record for record in caplog.records if "ignores the secret" in record.getMessage()]
    assert line.levelname == "WARNING"


def handmade(rig: Rig, first: str) -> str:
    """A backend folder that somebody put there: the fault backend behind a first line of shell; its name."""
    rig.frontend.wait_report(rig.run(order(model="installs")), OpState.READY)
    folder = rig.folders.backends / "handmade"
    shutil.copytree(rig.folders.backends / "fault", folder)
    (folder / "metadata.json").unlink()
    (folder / "run.sh").write_text(f'#!/bin/sh\n{first}\nexec "$LOCALAI_PYTHON" backend.py "$@"\n')
    return folder.name


def test_a_child_that_left_its_group_is_ended_with_its_process(rig: Rig) -> None:
    name = handmade(rig, "setsid sleep 86400 &")
    wanted = rig.run(order(backend=name))
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    instance = ready.process_instance or ""
    eventually(lambda: len(proc_table.carriers(frozenset({instance}))) == 2)
    rig.frontend.stop_processes = (instance,)
    rig.frontend.wait_no_process(instance)
    assert not proc_table.carriers(frozenset({instance}))


def test_lj_09_a_process_that_shares_its_port_with_a_stranger_is_not_ready(rig: Rig) -> None:
    name = handmade(rig, "")
    backend = rig.folders.backends / name / "serving.py"
    backend.write_text(backend.read_text().replace('("grpc.so_reuseport", 0)', '("grpc.so_reuseport", 1)'))
    with ExitStack() as stack:

        def bound(listener: socket.socket, port: int) -> bool:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:  # somebody looks whether it is free, which takes it for a moment
                return False
            return True

        def stranger(address: str) -> None:
            # It takes the port after the agent looked and before the process binds.
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            eventually(lambda: bound(listener, int(address.rpartition(":")[2])))
            listener.listen()

        wanted = rig.run(order(backend=name, env={"LOCALAI_FAULT_OPTIONS": "bind_delay:2s"}))
        key = (wanted.job_id, wanted.op_generation)
        eventually(lambda: (found := rig.agent.operations.operation(key)) is not None and found.address)
        found = rig.agent.operations.operation(key)
        assert found is not None
        stranger(found.address or "")
        cause, message, _ = failure(rig, wanted)
    assert cause == Cause.START_FAILED
    assert "another program listens" in message


#: As many as fit into some twenty seconds of two cores; each forks a launcher beside live gRPC channels.
PM_01_ROUNDS, PM_01_AT_ONCE = 10, 4


def test_pm_01_many_starts_and_stops_while_health_is_asked_leave_none_stuck(rig: Rig) -> None:
    serving = rig.frontend.wait_report(rig.run(order(model="asked-all-the-time")), OpState.READY)
    over, answered, shown = threading.Event(), list[str](), metadata(serving.process_secret)

    def ask() -> None:
        with grpc.insecure_channel(serving.address) as channel:
            stub = backend_pb2_grpc.BackendStub(channel)
            while not over.wait(0.01):
                reply = stub.Health(backend_pb2.HealthMessage(), timeout=10.0, metadata=shown)
                answered.append(reply.message.decode())

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for round_ in range(PM_01_ROUNDS):
            before = len(answered)
            together = [rig.run(order(model=f"m{round_}-{number}")) for number in range(PM_01_AT_ONCE)]
            ready = [rig.frontend.wait_report(wanted, OpState.READY).process_instance for wanted in together]
            assert len(answered) > before, "Health was asked meanwhile"
            rig.frontend.stop_processes = tuple(instance for instance in ready if instance)
        rig.frontend.wait("only the first is left", lambda: rig.frontend.instances() == {serving.process_instance})
    finally:
        over.set()
        asking.join(LIMIT_S)
    assert set(answered) == {"OK"}


def test_an_answer_stop_ends_a_ready_process_too(rig: Rig) -> None:
    wanted = order()
    rig.frontend.answers[(wanted.job_id, wanted.op_generation)] = Answer.WAIT
    rig.run(wanted)
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    rig.frontend.answers[(wanted.job_id, wanted.op_generation)] = Answer.STOP
    rig.frontend.wait_no_process(ready.process_instance)
    assert rig.frontend.wait_report(wanted, OpState.ENDED).error is not None
    rig.frontend.wait("the tombstone is not reported", lambda: not rig.frontend.reports[-1].operations)
