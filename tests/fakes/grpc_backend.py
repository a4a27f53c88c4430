"""A real gRPC model process inside the test's own process, answering by a script of `tests.fakes.inference`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from localai.ids import new_id
from localai.inference.channels import MESSAGE_LIMIT_BYTES
from localai.inference.ports import Endpoint
from protos import backend_pb2, backend_pb2_grpc
from tests.fakes.inference import Abort, Asked, Script, joined, only


class GrpcBackend(backend_pb2_grpc.BackendServicer):
    """Serves on loopback until `stop`. `asked` holds the options of every call."""

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self.script = script
        self.asked: list[Any] = []
        #: What each call showed as its authorization.
        self.shown: list[str | None] = []
        self._server = grpc.server(
            ThreadPoolExecutor(32),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
                ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
            ],
        )
        backend_pb2_grpc.add_BackendServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()
        self.endpoint = Endpoint(node_id="node-1", address=f"127.0.0.1:{self.port}", process_instance=new_id())

    def stop(self) -> None:
        """End as a killed process does: calls break, connections close."""
        self._server.stop(None).wait(30)

    def Predict(self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext) -> backend_pb2.Reply:
        return joined(self._run(request, context))

    def PredictStream(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> Iterator[backend_pb2.Reply]:
        yield from self._run(request, context)

    def Embedding(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> backend_pb2.EmbeddingResult:
        return only(self._run(request, context)) or backend_pb2.EmbeddingResult()

    def Rerank(self, request: backend_pb2.RerankRequest, context: grpc.ServicerContext) -> backend_pb2.RerankResult:
        return only(self._run(request, context)) or backend_pb2.RerankResult()

    def _run(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.asked.append(request)
        metadata = {one.key: one.value for one in context.invocation_metadata()}
        self.shown.append(metadata.get("authorization"))
        asked = Asked(request)
        if not context.add_callback(asked.over.set):
            asked.over.set()
        try:
            yield from self.script(asked)
        except Abort as abort:
            context.abort(abort.status, abort.text)
        if asked.finish_reason:
            context.set_trailing_metadata((("finish-reason", asked.finish_reason),))
