"""The lock of a model process: the server refuses calls that do not send the secret of the process.

The agent puts the secret into the environment. A process without the variable (one started by hand) has no lock.
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
    """The interceptors of the server. The variable is removed, so that child processes do not inherit it."""
    secret = os.environ.pop(VARIABLE, "")
    return [_Lock(secret)] if secret else []


class _Lock(grpc.ServerInterceptor):
    """Passes calls of any method, Health included, if they send the secret, and refuses the others."""

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


#: A handler for streams in both directions fits every method, and with it the server reads no message of the call.
_REFUSED = grpc.stream_stream_rpc_method_handler(_refuse)
