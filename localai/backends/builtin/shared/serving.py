"""How a Python backend becomes a process: bind, answer, end on SIGTERM.

Copied beside each built-in ``backend.py`` when the backend is installed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import backend_pb2_grpc
import grpc
import process_lock

MESSAGE_LIMIT = 50 * 1024 * 1024
#: Calls wait in them for a slot of the model while Health still answers; idle ones cost nothing, they start on demand.
CALL_THREADS = 256
#: Calls under way get this long after SIGTERM. Below the grace the agent gives before it kills.
STOP_GRACE_S = 2.0
#: Exit code of a process that ends because it can serve nothing any more.
GIVEN_UP = 70
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})


def parse_address(argv: list[str]) -> str:
    """The value of ``--addr``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--addr", default="localhost:50051", help="host:port to listen on")
    return str(parser.parse_args(argv).addr)


def serve(backend: backend_pb2_grpc.BackendServicer, address: str, stopping: threading.Event) -> int:
    """Serve until ``stopping`` is set; the exit code of the process. Call it from the main thread."""
    server = grpc.server(
        ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="call"),
        options=[
            ("grpc.max_send_message_length", MESSAGE_LIMIT),
            ("grpc.max_receive_message_length", MESSAGE_LIMIT),
            # Without this a second server on the same port starts silently and takes every other connection.
            ("grpc.so_reuseport", 0),
            # By default a third ping within 5 minutes ends every silent call of its connection.
            ("grpc.http2.max_ping_strikes", 0),
        ],
        interceptors=process_lock.interceptors(),
    )
    backend_pb2_grpc.add_BackendServicer_to_server(backend, server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        log(f"cannot listen on {address}: {error}")
        return 1
    server.start()
    log(f"listening on {address.rpartition(':')[0]}:{port}")
    stopping.wait()
    server.stop(STOP_GRACE_S).wait()
    log("stopped")
    return 0


def stop_on_signals(stopping: threading.Event, obeys: Callable[[], bool] = lambda: True) -> None:
    """Set ``stopping`` at SIGTERM and SIGINT while ``obeys()``. Call it before any other thread starts.

    A Python handler would not do: it runs in the main thread, and when the system gives the signal to a thread of the
    engine, nothing wakes the main thread. So the signals are blocked in all threads, and one thread waits for them.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)

    def watch() -> None:
        while not stopping.is_set():
            signal.sigwait(STOP_SIGNALS)
            if obeys():
                stopping.set()

    threading.Thread(target=watch, name="signals", daemon=True).start()


def check_identity(asked: str, loaded: str, context: grpc.ServicerContext) -> None:
    """End the call unless it was meant for the loaded model. An empty side skips the check."""
    if asked and loaded and asked != loaded:
        context.abort(grpc.StatusCode.NOT_FOUND, f"model identity mismatch: this process holds {loaded!r}")


def ended(context: grpc.ServicerContext) -> threading.Event:
    """An event that is set when the call ends for any reason, the client's cancel included."""
    event = threading.Event()
    if not context.add_callback(event.set):
        event.set()
    return event


def give_up(why: str) -> None:
    """End the process at once, with the reason as its last line; the agent reports it."""
    log(why)
    os._exit(GIVEN_UP)


def log(line: str) -> None:
    """One line to standard error; its tail is what people see when the process ends badly."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
