"""A backend without a model that fails on request, so that every failure of the cluster can be tried in seconds."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import answers
import backend_pb2
import backend_pb2_grpc
import faults
import grpc
import serving

#: A child that a stop of the leader alone would leave behind. Stop signals come blocked from its parent.
_CHILD = """
import signal, sys, time
if sys.argv[1] == "obey":
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
time.sleep(86400)
"""


class FaultBackend(backend_pb2_grpc.BackendServicer):
    """One "model" at a time, as the other backends."""

    def __init__(self, stopping: threading.Event, *, ignores_sigterm: bool) -> None:
        self.ignores_sigterm = ignores_sigterm
        self._stopping = stopping
        self._lock = threading.Lock()
        self._faults = faults.Faults()
        self._identity: str | None = None
        self._name = ""
        self._loaded_at = 0.0
        self._answered = 0
        self._weights: mmap.mmap | None = None

    def Health(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.Reply:
        return backend_pb2.Reply(message=b"OK")

    def Status(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.StatusResponse:
        state = "UNINITIALIZED" if self._identity is None else "READY"
        return backend_pb2.StatusResponse(state=state)

    def Free(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.Result:
        self._identity = None
        return backend_pb2.Result(success=True)

    def LoadModel(self, request: backend_pb2.ModelOptions, context: grpc.ServicerContext) -> backend_pb2.Result:
        try:
            wanted = faults.parse(request.Options)
        except ValueError as error:
            return backend_pb2.Result(success=False, message=str(error))
        self.ignores_sigterm = wanted.ignore_sigterm
        if wanted.fork_child:
            _fork_child(wanted)
        # As in real engines, a client that leaves does not end the load.
        self._stopping.wait(wanted.load_delay)
        refusal = self._act_at_load(wanted, Path(request.ModelPath), Path(request.ModelFile))
        if refusal:
            return backend_pb2.Result(success=False, message=refusal)
        with self._lock:
            self._faults, self._identity, self._answered = wanted, request.Model, 0
            self._name, self._loaded_at = _shown_name(request), time.monotonic()
        return backend_pb2.Result(success=True, message="loaded")

    def Predict(self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext) -> backend_pb2.Reply:
        return answers.joined(list(self._answer(request, context)))

    def PredictStream(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> Iterator[backend_pb2.Reply]:
        yield from self._answer(request, context)

    def TokenizeString(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> backend_pb2.TokenizationResponse:
        self._check(request.ModelIdentity, context)
        words = len(request.Prompt.split())
        return backend_pb2.TokenizationResponse(length=words, tokens=range(1, words + 1))

    def _act_at_load(self, wanted: faults.Faults, folder: Path, model_file: Path) -> str:
        if wanted.kill_parent and os.getppid() > 1:
            os.kill(os.getppid(), signal.SIGKILL)
        missing = [name for name in wanted.require_files if not (folder / name).exists()]
        if missing:
            return f"required files are missing below {folder}: {', '.join(missing)}"
        if wanted.map_model:
            self._weights = _mapped(model_file)
        if wanted.load_fail:
            serving.log(f"load failed: {wanted.load_fail}")
        return wanted.load_fail

    def _check(self, identity: str, context: grpc.ServicerContext) -> faults.Faults:
        with self._lock:
            wanted, loaded, age_s = self._faults, self._identity, time.monotonic() - self._loaded_at
            if loaded is not None and wanted.forget is not None and self._answered >= wanted.forget:
                loaded = self._identity = None
        if loaded is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "model not loaded")
        if wanted.wrong_identity:
            context.abort(grpc.StatusCode.NOT_FOUND, "model identity mismatch: asked of the fault backend by option")
        serving.check_identity(identity, loaded or "", context)
        if age_s < wanted.resource_exhausted_for:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no free slot")
        return wanted

    def _answer(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> Iterator[backend_pb2.Reply]:
        wanted = self._check(request.ModelIdentity, context)
        gone = serving.ended(context)
        _crash_at(wanted, 0)
        _hold_interpreter(wanted.hold_interpreter)
        if wanted.hang_in_predict:
            gone.wait()
        pause_s = wanted.first_token_delay
        if wanted.emit_tool_call:
            parts = answers.tool_call(wanted.emit_tool_call, request)
        else:
            parts = answers.replies(self._name, wanted.tokens, request)
        complete = False
        try:
            for part in parts:
                if gone.wait(pause_s) or gone.is_set():
                    return
                yield part
                _crash_at(wanted, part.tokens)
                pause_s = wanted.token_delay
            complete = True
        finally:  # gRPC drops the generator where the cancel meets a part that is being sent
            if not complete:
                serving.log("a call ended early")
        with self._lock:
            self._answered += 1


def _fork_child(wanted: faults.Faults) -> None:
    manner = "ignore" if wanted.ignore_sigterm else "obey"
    child = subprocess.Popen([sys.executable, "-c", _CHILD, manner])
    serving.log(f"forked child pid={child.pid}")


def _mapped(path: Path) -> mmap.mmap:
    """The file in memory, with every page of it read."""
    with open(path, "rb") as file:
        weights = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    for offset in range(0, len(weights), mmap.PAGESIZE):
        weights[offset]
    return weights


def _hold_interpreter(seconds: float) -> None:
    """As an engine that computes in native code and lets no other thread of Python run meanwhile."""
    if seconds:
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def _crash_at(wanted: faults.Faults, tokens: int) -> None:
    """Die as by a fault in native code: no handler runs, nothing is flushed."""
    if wanted.crash_after == tokens:
        os.kill(os.getpid(), signal.SIGKILL)


def _shown_name(request: backend_pb2.ModelOptions) -> str:
    # A staged model's identity is a path on this node; its folder carries the model's name.
    staged = os.path.isabs(request.Model) and request.ModelPath
    return Path(request.ModelPath).name if staged else request.Model


def main(argv: list[str]) -> int:
    address = serving.parse_address(argv)
    try:
        start = faults.parse(os.environ.get("LOCALAI_FAULT_OPTIONS", "").split("\n"))
    except ValueError as error:
        serving.log(str(error))
        return 2
    if start.stderr:
        serving.log(start.stderr)
    if start.start_exit is not None:
        return start.start_exit
    stopping = threading.Event()
    backend = FaultBackend(stopping, ignores_sigterm=start.ignore_sigterm)
    serving.stop_on_signals(stopping, obeys=lambda: not backend.ignores_sigterm)
    if stopping.wait(start.bind_delay):
        return 0
    return serving.serve(backend, address, stopping)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
