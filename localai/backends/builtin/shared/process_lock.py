"""The lock of a model process: calls must show the secret that the agent gave it.

The agent puts the secret into the environment. Without it there is no lock, as in a process that was started by hand.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterator
from typing import Any

import grpc

VARIABLE = "LOCALAI_GRPC_AUTH_TOKEN"
REFUSAL = "this model process answers only calls that show its secret"


def interceptors() -> list[grpc.ServerInterceptor]:
    """What the server is made with. The secret leaves the environment, so that no program started later inherits it."""
    secret = os.environ.pop(VARIABLE, "")
    return [_Lock(secret)] if secret else []


class _Lock(grpc.ServerInterceptor):
    """Lets calls pass that show the secret, of whatever method, Health included."""

    def __init__(self, secret: str) -> None:
        self._wanted = f"Bearer {secret}".encode()

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        if self._is_shown(handler_call_details.invocation_metadata or ()):
            return continuation(handler_call_details)
        return _REFUSED

    def _is_shown(self, metadata: Any) -> bool:
        shown = [value for key, value in metadata if key == "authorization"]
        return len(shown) == 1 and hmac.compare_digest(shown[0].encode(), self._wanted)


def _refuse(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSAL)
    yield b""


#: Streamed both ways whatever the method is: then no message of the call is read.
_REFUSED = grpc.stream_stream_rpc_method_handler(_refuse)
