"""How a model is loaded into a started process: Health, then LoadModel, over loopback and by this agent itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from google.protobuf.json_format import ParseDict, ParseError

from localai.errors import OperationFailed
from localai.inference.process_secrets import metadata
from localai.jobs.operation_rules import Cause, Order
from protos import backend_pb2, backend_pb2_grpc
from worker_agent.processes.process import Group
from worker_agent.work import Work

#: Longest one Health call may take.
HEALTH_TIMEOUT_S = 2.0
#: How long after its connection broke the end of a process may be seen.
EXIT_SEEN_S = 1.0
_MESSAGE_LIMIT = 50 * 1024 * 1024
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", _MESSAGE_LIMIT),
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # A connection of its own: one that an earlier process on this port left would otherwise be shared.
    ("grpc.use_local_subchannel_pool", 1),
)


class Loader:
    """Calls to a model process of this node."""

    def __init__(self, dial_host: str, *, default_threads: int) -> None:
        self._dial_host = dial_host
        self._default_threads = default_threads

    def answers_health(self, port: int, secret: str | None = None) -> bool:
        """Whether Health says OK within its limit."""
        with self._stub(port) as stub:
            try:
                reply = stub.Health(backend_pb2.HealthMessage(), timeout=HEALTH_TIMEOUT_S, metadata=metadata(secret))
            except grpc.RpcError:
                return False
            return bool(reply.message == b"OK")

    def model_options(self, order: Order, folder: Path) -> backend_pb2.ModelOptions:
        """What LoadModel gets: the order's options with the paths of this node. Raises OperationFailed."""
        try:
            options = ParseDict(order.model_options, backend_pb2.ModelOptions())
            for field, path in order.file_fields.items():
                setattr(options, field, str(folder / path))
        except (ParseError, AttributeError, TypeError) as error:
            raise OperationFailed(Cause.BAD_CONFIG, f"the model's options do not fit ModelOptions: {error}") from None
        main_file = str(folder / order.model_file) if order.model_file else ""
        options.Model = order.identity or main_file
        options.ModelFile = main_file
        options.ModelPath = str(folder)
        options.Threads = options.Threads or self._default_threads
        return options

    def load(
        self,
        port: int,
        options: backend_pb2.ModelOptions,
        *,
        order: Order,
        group: Group,
        secret: str | None,
        work: Work,
        sent: Callable[[], object],
    ) -> None:
        """Return once LoadModel succeeded; ``sent`` is called while it is under way.

        Raises OperationFailed, OperationStopped; the process may run on then.
        """
        with self._stub(port) as stub:
            call = stub.LoadModel.future(options, timeout=order.load_timeout_s, metadata=metadata(secret))
            try:
                call.add_done_callback(lambda _: work.nudge())
                sent()
                work.wait_for(lambda: call.done() or group.has_exited(), order.load_timeout_s + HEALTH_TIMEOUT_S)
                if _has_exited(group, call):
                    raise OperationFailed(
                        Cause.PROCESS_ENDED,
                        f"the process ended during LoadModel with status {group.returncode}",
                        stderr_tail=group.output.tail(),
                    )
                _judge(call, order, group)
            finally:
                call.cancel()

    @contextmanager
    def _stub(self, port: int) -> Iterator[backend_pb2_grpc.BackendStub]:
        with grpc.insecure_channel(f"{self._dial_host}:{port}", options=_CHANNEL_OPTIONS) as channel:
            yield backend_pb2_grpc.BackendStub(channel)  # type: ignore[no-untyped-call]  # generated


def _has_exited(group: Group, call: grpc.Future[backend_pb2.Result]) -> bool:
    """Whether the process ended. A broken call is seen a moment before its end is: then that is waited for."""
    error = call.exception() if call.done() else None
    if isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.UNAVAILABLE:
        return group.exited.wait(EXIT_SEEN_S)
    return group.has_exited()


def _judge(call: grpc.Future[backend_pb2.Result], order: Order, group: Group) -> None:
    """Raise OperationFailed unless the answer is a success."""
    tail = group.output.tail()
    if not call.done():
        raise _too_slow(order, tail)
    error = call.exception()
    if isinstance(error, grpc.RpcError):
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise _too_slow(order, tail)
        raise OperationFailed(
            Cause.LOAD_REFUSED, f"LoadModel failed: {error.code().name}: {error.details()}", stderr_tail=tail
        )
    result = call.result()
    if not result.success:
        raise OperationFailed(
            Cause.LOAD_REFUSED,
            f"the backend refused the model: {result.message or 'it gave no reason'}",
            stderr_tail=tail,
        )


def _too_slow(order: Order, tail: str) -> OperationFailed:
    return OperationFailed(
        Cause.LOAD_TIMEOUT,
        f"LoadModel took longer than its budget of {round(order.load_timeout_s, 1):g} s ({order.load_timeout_reason})",
        stderr_tail=tail,
    )
