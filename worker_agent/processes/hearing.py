"""What model processes say to a new connection: all of them are asked at the same time, each over one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

import grpc

from localai.inference.process_secrets import metadata
from protos import backend_pb2, backend_pb2_grpc
from worker_agent.processes.dialing import Dialed, dial
from worker_agent.processes.stall_rules import Heard

#: How long a process has for its answer; a busy one is only greeted within it.
ANSWER_TIMEOUT_S = 2.0
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # A greeting proves something only on a connection that is made now.
    ("grpc.use_local_subchannel_pool", 1),
)
_READY = grpc.ChannelConnectivity.READY.value[0]
#: The call did not reach the process, or its answer did not come in time.
_UNANSWERED = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def hear(host: str, secrets: Mapping[int, str | None]) -> dict[int, Heard]:
    """What the processes on these ports say, each asked with its secret."""
    with ExitStack() as stack:
        questions = {port: stack.enter_context(_Question(host, port, secret)) for port, secret in secrets.items()}
        return {port: question.heard() for port, question in questions.items()}


class _Question:
    """One call of Health on one new connection, begun when it is made."""

    def __init__(self, host: str, port: int, secret: str | None) -> None:
        self._host, self._port = host, port
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS)
        stub = backend_pb2_grpc.BackendStub(self._channel)  # type: ignore[no-untyped-call]  # generated
        self._call = stub.Health.future(
            backend_pb2.HealthMessage(), timeout=ANSWER_TIMEOUT_S, metadata=metadata(secret)
        )

    def __enter__(self) -> _Question:
        return self

    def __exit__(self, *_: object) -> None:
        self._call.cancel()
        self._channel.close()

    def heard(self) -> Heard:
        with suppress(grpc.FutureTimeoutError):
            error = self._call.exception(timeout=ANSWER_TIMEOUT_S * 2)
            if not isinstance(error, grpc.RpcError) or error.code() not in _UNANSWERED:
                return Heard.ANSWERED
        if self._greeted():
            return Heard.GREETED
        return Heard.REFUSED if dial(self._host, self._port) is Dialed.REFUSED else Heard.NOTHING

    def _greeted(self) -> bool:
        """Whether the server has sent its settings, which only a running process does."""
        # The public way to the state is a thread, which fails if the channel is closed before its next look.
        core: Any = self._channel._channel  # type: ignore[attr-defined]
        return bool(core.check_connectivity_state(False) == _READY)
