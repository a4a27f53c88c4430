"""How one operation runs, from its claim to READY or its end, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localai import logs
from localai.errors import NotAuthenticated, NotAuthorized, NotFound, OperationFailed
from localai.jobs.disk_full import cause_of
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.operation_rules import Cause, OperationError, Order, Phase, process_key
from worker_agent.files.fetch import Fetcher
from worker_agent.files.paths import model_folder, within
from worker_agent.frontends import ClaimRefused, Frontends, NoFrontend, Registered
from worker_agent.hooks import Hooks
from worker_agent.install.backends import BackendInstaller
from worker_agent.loading import Loader
from worker_agent.metrics import PhaseTimes
from worker_agent.operations import Key, Operations
from worker_agent.processes.rules import StartMove
from worker_agent.processes.supervisor import ModelProcess, Supervisor
from worker_agent.work import OperationStopped, Work

log = logs.get(__name__)

#: Between two claims while no frontend answers: soon at first, the wake-up is fresh.
CLAIM_RETRY_S = (0.2, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything an operation uses."""

    registered: Registered
    frontends: Frontends
    operations: Operations
    installer: BackendInstaller
    fetcher: Fetcher
    supervisor: Supervisor
    loader: Loader
    models: Path
    environ: Callable[[Order], dict[str, str]]
    kill_ttl_s: float
    #: Number of the newest report that was begun.
    last_seq: Callable[[], int]
    clock: Callable[[], float]
    hooks: Hooks


class OperationRunner:
    """Takes operations from the queue, each to a thread of its own."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def submit(self, job_id: str, op_generation: int) -> None:
        """Enter an operation and begin it. A message that is known already, also as a tombstone, does nothing."""
        key = (job_id, op_generation)
        self._parts.hooks.received(job_id)
        work = self._parts.operations.enter(key)
        if work is None:
            log.info("message dropped", extra=logs.fields(job_id=job_id, op_generation=op_generation))
            return
        self._parts.hooks.entered(job_id)
        thread = threading.Thread(
            target=self._run, args=(key, work), name=f"operation-{job_id[:8]}-{op_generation}", daemon=True
        )
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def join(self, timeout_s: float) -> bool:
        """Whether every operation's thread ended within the limit."""
        deadline = self._parts.clock() + timeout_s
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - self._parts.clock()))
        return not any(thread.is_alive() for thread in threads)

    def _run(self, key: Key, work: Work) -> None:
        try:
            with logs.bound(job_id=key[0], op_generation=key[1]):
                OperationRun(self._parts, key, work).run()
        finally:
            self._parts.operations.thread_done(key, work)
            with self._lock:
                self._threads.discard(threading.current_thread())


class OperationRun:
    """One operation on its thread. Every failure becomes the operation's error, after its group has ended."""

    def __init__(self, parts: Parts, key: Key, work: Work) -> None:
        self._parts = parts
        self._key = key
        self._work = work
        self._process: ModelProcess | None = None
        self._times = PhaseTimes(parts.clock)

    def run(self) -> None:
        try:
            order = self._claim()
            if order is not None:
                self._parts.hooks.granted(order.job_id)
                self._execute(order)
        except OperationStopped:
            self._times.end("cancelled")
            log.info("operation stopped")
        except OperationFailed as error:
            log.warning("operation failed", extra=logs.fields(cause=error.cause, error=error.message))
            self._fail(OperationError(cause=error.cause, message=error.message, stderr_tail=error.stderr_tail))
        except OSError as error:
            cause = cause_of(error, Cause.INTERNAL)
            log.warning("operation failed", extra=logs.fields(cause=cause, error=error))
            self._fail(OperationError(cause=cause, message=str(error)))
        except Exception as error:
            log.exception("operation failed unexpectedly")
            self._fail(OperationError(cause=Cause.INTERNAL, message=f"{type(error).__name__}: {error}"))
        finally:
            self._end_unless_ready()

    def _claim(self) -> Order | None:
        """The order, or None when nothing may start. Asks again while nobody answers."""
        parts, retry_s, began = self._parts, CLAIM_RETRY_S[0], self._parts.clock()
        seq = parts.last_seq()  # read after the operation was entered: every later report lists it
        while True:
            try:
                reply = parts.frontends.claim(parts.registered, *self._key, seq=seq)
            except ClaimRefused as error:
                log.info("claim refused", extra=logs.fields(reason=error.message))
                parts.operations.refused(self._key)
                return None
            except (NotFound, NoFrontend, NotAuthenticated, NotAuthorized) as error:
                if isinstance(error, NotFound) or parts.clock() - began >= parts.kill_ttl_s:
                    log.warning("claim given up", extra=logs.fields(reason=error.message))
                    parts.operations.forget(self._key)
                    return None
                self._work.pause(retry_s)
                retry_s = min(retry_s * 2, CLAIM_RETRY_S[1])
                continue
            try:
                order = Order.from_json(reply.body)
            except (TypeError, KeyError, ValueError) as error:
                text = f"the order cannot be read, the frontend may be of another version: {error}"
                parts.operations.reject(self._key, OperationError(cause=Cause.INTERNAL, message=text))
                return None
            return order if parts.operations.granted(self._key, order, reply.sent_at) else None

    def _execute(self, order: Order) -> None:
        operations = self._parts.operations
        if order.kind != MODEL_LOAD:
            raise OperationFailed(Cause.INTERNAL, f"this worker does not know work of kind {order.kind!r}")
        self._enter(order, Phase.INSTALLING)
        backend = self._parts.installer.ensure(
            order, said=lambda line: operations.moved(self._key, message=line), work=self._work
        )
        self._parts.hooks.installed(order.job_id)
        folder = self._stage(order)
        self._enter(order, Phase.LOADING)
        options = self._parts.loader.model_options(order, folder)
        process = self._start(order, backend, folder)
        self._parts.supervisor.wait_healthy(
            process, probe=self._parts.loader.answers_health, timeout_s=order.start_timeout_s, work=self._work
        )
        self._parts.hooks.healthy(order.job_id)
        self._warn_of_an_open_process(order, process)
        self._parts.loader.load(
            process.port,
            options,
            order=order,
            group=process.group,
            secret=process.running.secret,
            work=self._work,
            sent=lambda: self._parts.hooks.loading(order.job_id),
        )
        self._parts.hooks.loaded(order.job_id)
        if not operations.become_ready(self._key, options.Model):
            self._work.check()
            raise OperationFailed(
                Cause.PROCESS_ENDED,
                "the process ended right after LoadModel",
                stderr_tail=process.group.output.tail(),
            )
        self._parts.hooks.ready(order.job_id)
        self._times.end("ok")
        log.info("model loaded", extra=logs.fields(model=order.model, slot=order.slot, address=process.running.address))

    def _enter(self, order: Order, phase: Phase) -> None:
        self._times.enter(order.model, phase)
        self._parts.operations.enter_phase(self._key, phase)

    def _stage(self, order: Order) -> Path:
        """Bring the model's files; its folder on this node."""
        operations, key = self._parts.operations, self._key
        folder = model_folder(self._parts.models, order.model)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (order.model_file, *order.file_fields.values()):
            if path is not None:
                within(folder, path)
        self._enter(order, Phase.STAGING)
        self._parts.fetcher.require_room(folder, order.files)
        total, before = sum(file.size for file in order.files), 0
        operations.moved(key, bytes_total=total, files_total=len(order.files))
        for index, file in enumerate(order.files, start=1):
            operations.moved(key, file_index=index, message=file.path)
            done_before = before
            self._parts.fetcher.fetch(
                folder,
                file,
                stall_window_s=order.stall_window_s,
                moved=lambda done: operations.moved(key, bytes_done=done_before + done),  # noqa: B023  used at once
                work=self._work,
            )
            before += file.size
        return folder

    def _start(self, order: Order, backend: Path, model: Path) -> ModelProcess:
        move = self._parts.operations.start_move(self._key, order.start_timeout_s)
        self._work.check()
        if move is not StartMove.START:
            raise _in_the_way(move, order)
        self._process = self._parts.supervisor.start_model(
            order,
            folder=backend,
            environ=self._parts.environ(order),
            reads=model,
            gate=self._parts.operations.attach,
            work=self._work,
        )
        return self._process

    def _warn_of_an_open_process(self, order: Order, process: ModelProcess) -> None:
        if self._parts.loader.answers_health(process.port):
            text = "the backend ignores the secret of its process: every client that reaches its port can call it"
            log.warning("%s", text, extra=logs.fields(backend=order.backend, address=process.running.address))

    def _fail(self, error: OperationError) -> None:
        self._times.end("failed")
        self._parts.operations.fail(self._key, error)

    def _end_unless_ready(self) -> None:
        """The end of the group comes before the report of the end."""
        process = self._process
        if process is None or self._parts.operations.keeps_process(self._key):
            return
        while not process.group.end():
            log.error("a process group does not end", extra=logs.fields(pid=process.group.pid))


def _in_the_way(move: StartMove, order: Order) -> OperationFailed:
    name = process_key(order.model, order.slot)
    if move is StartMove.REFUSE:
        text = f"a process of an earlier operation still runs for {name}, and no row has ended it"
    else:
        text = (
            f"the process of an earlier operation of {name} did not end within {order.start_timeout_s:g} s; "
            "LOCALAI_BACKEND_START_TIMEOUT sets the limit"
        )
    return OperationFailed(Cause.START_FAILED, text)
