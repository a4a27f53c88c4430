"""What a gRPC server with default settings says to a new connection, while it is idle, busy and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import grpc
import psutil
import pytest

from protos import backend_pb2, backend_pb2_grpc
from tests.acceptance.cluster import free_port, wait_for
from worker_agent.processes import activity
from worker_agent.processes.hearing import hear
from worker_agent.processes.stall_rules import Activity, Heard

pytestmark = pytest.mark.integration

#: As a backend of another project: no options, one thread for all calls. A prompt "gil" lets nothing else run.
SERVER = """
import ctypes, sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc
from protos import backend_pb2, backend_pb2_grpc

class Backend(backend_pb2_grpc.BackendServicer):
    def Health(self, request, context):
        return backend_pb2.Reply(message=b"OK")
    def Predict(self, request, context):
        if request.Prompt == "gil":
            ctypes.PyDLL(None).sleep(3600)
        time.sleep(3600)

server = grpc.server(ThreadPoolExecutor(1))
backend_pb2_grpc.add_BackendServicer_to_server(Backend(), server)
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
"""


class Server:
    """One such process, and the calls that keep it busy."""

    def __init__(self) -> None:
        self.port = free_port()
        self.calls: list[object] = []
        command = [sys.executable, "-c", SERVER, str(self.port)]
        self.popen = subprocess.Popen(command, start_new_session=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        grpc.channel_ready_future(self.channel).result(60)

    def call(self, prompt: str) -> None:
        stub = backend_pb2_grpc.BackendStub(self.channel)  # type: ignore[no-untyped-call]  # generated
        self.calls.append(stub.Predict.future(backend_pb2.PredictOptions(Prompt=prompt)))  # it ends with its object
        wait_for("the only thread is taken", lambda: self.hear() is Heard.GREETED)

    def hear(self) -> Heard:
        return hear("127.0.0.1", {self.port: None})[self.port]

    def activity(self) -> Activity:
        found = activity.of_instance(self.popen.pid, "no instance")
        assert found is not None
        return found

    def stop(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)
        wait_for("it is stopped", lambda: psutil.Process(self.popen.pid).status() == psutil.STATUS_STOPPED)

    def end(self) -> None:
        self.channel.close()
        self.popen.kill()
        self.popen.wait(30)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.end()


def test_an_idle_server_answers(server: Server) -> None:
    assert server.hear() is Heard.ANSWERED


@pytest.mark.parametrize("prompt", ["thread", "gil"])
def test_a_busy_server_greets_and_a_stopped_one_says_nothing(server: Server, prompt: str) -> None:
    server.call(prompt)
    assert server.hear() is Heard.GREETED
    server.stop()
    assert server.hear() is Heard.NOTHING
    server.popen.send_signal(signal.SIGCONT)
    assert server.hear() is Heard.GREETED


def test_a_stopped_group_uses_no_processor_time_and_a_living_one_does(server: Server) -> None:
    first = server.activity()
    assert server.hear() is Heard.ANSWERED
    assert server.activity().used != first.used
    server.stop()
    before = server.activity()
    assert server.hear() is Heard.NOTHING
    assert server.activity() == before
    assert not before.wants_to_run


def test_nothing_listens_where_a_server_has_ended(server: Server) -> None:
    server.end()
    assert server.hear() is Heard.REFUSED
    assert activity.of_instance(server.popen.pid, "no instance") is None


def test_several_are_asked_at_the_same_time(server: Server) -> None:
    server.stop()
    free = free_port()
    assert hear("127.0.0.1", {server.port: None, free: None}) == {server.port: Heard.NOTHING, free: Heard.REFUSED}
    assert hear("127.0.0.1", {}) == {}
