"""A connection whose process stopped answering is lost by the pings of gRPC; a silent process that runs keeps it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from localai.errors import BackendCrashed
from localai.ids import new_id
from localai.inference.channels import Channels, Keepalive
from localai.inference.client import GrpcInference
from localai.inference.ports import Call, Endpoint, Limits
from protos import backend_pb2
from tests.acceptance.cluster import free_port, wait_for

pytestmark = pytest.mark.integration

#: A backend with default settings of gRPC; the prompt says for how many seconds a call is silent.
SERVER = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc
from protos import backend_pb2, backend_pb2_grpc

class Backend(backend_pb2_grpc.BackendServicer):
    def Predict(self, request, context):
        print("called", flush=True)
        time.sleep(float(request.Prompt))
        return backend_pb2.Reply(message=b"done")

server = grpc.server(ThreadPoolExecutor(2))
backend_pb2_grpc.add_BackendServicer_to_server(Backend(), server)
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
print("listens", flush=True)
server.wait_for_termination()
"""


class Server:
    """One such process."""

    def __init__(self) -> None:
        port = free_port()
        self.popen = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(port)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        #: Kept as long as the process: a call ends with its connection.
        self.inference: GrpcInference | None = None
        self.says("listens")
        self.endpoint = Endpoint(node_id="node-1", address=f"127.0.0.1:{port}", process_instance=new_id())

    def says(self, line: str) -> None:
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline().strip() == line

    def stop(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)
        wait_for("it is stopped", lambda: psutil.Process(self.popen.pid).status() == psutil.STATUS_STOPPED)

    def unread(self) -> bool:
        """Whether bytes lie in the system that the process has not read."""
        port = int(self.endpoint.address.rpartition(":")[2])
        tables = [Path("/proc/net", name).read_text(encoding="ascii") for name in ("tcp", "tcp6")]
        fields = [line.split() for table in tables for line in table.splitlines()[1:]]
        return any(int(one[1].rpartition(":")[2], 16) == port and int(one[4].partition(":")[2], 16) for one in fields)

    def end(self) -> None:
        if self.inference is not None:
            self.inference.close()
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.end()


def silent_call(server: Server, keepalive: Keepalive, seconds: float) -> Call:
    server.inference = GrpcInference(Channels(keepalive=keepalive))
    call = server.inference.predict(server.endpoint, backend_pb2.PredictOptions(Prompt=f"{seconds:g}"), Limits())
    server.says("called")
    return call


def test_a_call_to_a_process_that_acknowledges_no_ping_ends_long_before_its_limit(server: Server) -> None:
    call = silent_call(server, Keepalive(after_s=5.0, timeout_s=5.0), 3600)
    server.stop()
    with pytest.raises(BackendCrashed):
        call.result()


def test_a_pause_that_is_shorter_than_the_timeout_costs_no_call(server: Server) -> None:
    call = silent_call(server, Keepalive(after_s=1.0, timeout_s=60.0), 8)
    server.stop()
    wait_for("a ping that is not read", server.unread)
    server.popen.send_signal(signal.SIGCONT)
    assert call.result().message == b"done"
