"""Which replica answers an inference request, and what happens when it does not: the one counted path of every dialect.

Pick, call, and if the model process cannot have read the request: drop what is broken, read the rows again, try once
more. A request under which a process ended is never sent again: it would end the next one too. A model without a
replica is waited for. Nothing here makes a statement, sends a message or reads a config for a loaded model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from localai import logs, metrics
from localai.errors import (
    BackendCrashed,
    BackendError,
    BackendUnavailable,
    BackendUnimplemented,
    ModelGone,
    ModelLoading,
    StorageUnavailable,
    WrongModel,
)
from localai.inference.ports import Call, Endpoint, Inference, Limits, UnaryCall
from localai.loads.attempts import Status
from localai.loads.waiters import Waiters
from localai.models.config import ModelConfig
from localai.routing.picks import Pick
from localai.routing.ports import LoadedReplica
from localai.routing.table import RoutingTable
from protos import backend_pb2
from web.account import CANCELLED, FAILED, LOADING, OK, current_account
from web.client_watch import Watch
from web.cut_calls import count_cut

log = logs.get(__name__)
T = TypeVar("T")

#: How long a request whose replica broke waits for the rows to be read again.
REFRESH_TIMEOUT_S = 5.0
#: A request waits for this many loads at most: more often than that a replica does not vanish by chance.
_WAITS = 3

#: Gets each new status of a load that a stream waits for, and None once the model is there.
Tell = Callable[[Status | None], None]

#: The process cannot have read the request, or says that it does not serve it: another replica may do.
_MISROUTED = (BackendUnavailable, ModelGone, WrongModel)


class Refreshes(Protocol):
    """What reads the routing rows again."""

    def refresh(self, timeout_s: float) -> bool: ...


class Retires(Protocol):
    """What makes a replica unroutable for all processes, on the word of its own model process."""

    def retire(self, replica_id: str, process_instance: str) -> None: ...


class Signals:
    """Named points of a request; they do nothing in production, and a test may stop a request there."""

    def picked(self, endpoint: Endpoint) -> None:
        """A replica is picked and counted, and nothing is sent yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer of a unary call."""

    reply: backend_pb2.Reply
    finish_reason: str
    node_id: str


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The one result of a call that makes no text."""

    result: T
    node_id: str


class AnswerStream:
    """An answer under way, counted until `close`. The first reply is there already: the client may be answered 200."""

    def __init__(self, pick: Pick, call: Call, replies: Iterator[backend_pb2.Reply], watch: Watch) -> None:
        self._pick, self._call, self._replies, self._watch = pick, call, replies, watch
        self._first = next(replies, None)
        self._account = current_account()
        self._account.outcome = CANCELLED  # until the end was read
        self.node_id = pick.replica.node_id

    def __iter__(self) -> Iterator[backend_pb2.Reply]:
        """The replies; cancelled when the client leaves. Raises the BackendError family or CallCancelled."""
        try:
            if self._first is not None:
                with self._watch.during(self._call.cancel):
                    yield self._first
                    yield from self._replies
            self._account.outcome = OK
        except BackendError as error:
            self._account.outcome = FAILED
            count_cut(self._pick.replica.model, error)
            raise

    def finish_reason(self) -> str:
        """The process's own word for the end, asked after it."""
        return self._call.finish_reason()

    def close(self) -> None:
        """End the call and count it down. A second call does nothing."""
        try:
            self._call.cancel()
        finally:
            self._pick.release()
            self._watch.close()


class _Cold(Exception):
    """No replica, and the caller does not wait here."""


def _do_not_wait(config: ModelConfig, watch: Watch) -> None:
    raise _Cold


#: What is done about a model without a replica.
_Wait = Callable[[ModelConfig, Watch], None]


class Serving:
    """Answers inference requests. Every call has the model's identity and the limits of its model."""

    def __init__(
        self,
        table: RoutingTable,
        feed: Refreshes,
        waiters: Waiters,
        inference: Inference,
        retires: Retires,
        *,
        limits: Limits | None = None,
        signals: Signals | None = None,
    ) -> None:
        self._table, self._feed, self._waiters, self._inference, self._retires = (
            table,
            feed,
            waiters,
            inference,
            retires,
        )
        self._limits, self._signals = limits or Limits(), signals or Signals()

    def predict(self, config: ModelConfig, options: backend_pb2.PredictOptions, watch: Watch) -> Answer:
        """The whole answer.

        Raises the BackendError family, what `Waiters` raises for a model without a replica, StorageUnavailable when
        this process does not know the routes, CallCancelled when the client left.
        """

        limits = config.timeouts.limits(self._limits)

        def ask(pick: Pick) -> Answer:
            call = self._inference.predict(pick.endpoint, options, limits)
            pick.cancelled_by(call.cancel)
            with watch.during(call.cancel):
                reply = call.result()
            pick.release()
            return Answer(reply, call.finish_reason(), pick.replica.node_id)

        return self._try_twice(config, options, watch, ask)

    def stream(self, config: ModelConfig, options: backend_pb2.PredictOptions, watch: Watch) -> AnswerStream:
        """An answer whose first reply has come. Raises as `predict`; the caller closes it."""
        return self._stream(config, options, watch, self._wait)

    def warm_stream(
        self, config: ModelConfig, options: backend_pb2.PredictOptions, watch: Watch
    ) -> AnswerStream | None:
        """As `stream` where a replica serves; None where one would have to be waited for."""
        try:
            return self._stream(config, options, watch, _do_not_wait)
        except _Cold:
            return None

    def told_stream(
        self, config: ModelConfig, options: backend_pb2.PredictOptions, watch: Watch, tell: Tell
    ) -> AnswerStream:
        """As `stream`, but waits for as long as the load takes, and tells how far it is."""

        def wait(config: ModelConfig, watch: Watch) -> None:
            self._wait(config, watch, tell)
            tell(None)

        return self._stream(config, options, watch, wait)

    def _stream(
        self, config: ModelConfig, options: backend_pb2.PredictOptions, watch: Watch, wait: _Wait
    ) -> AnswerStream:
        limits = config.timeouts.limits(self._limits)

        def ask(pick: Pick) -> AnswerStream:
            call = self._inference.stream(pick.endpoint, options, limits)
            pick.cancelled_by(call.cancel)
            with watch.during(call.cancel):
                return AnswerStream(pick, call, iter(call), watch)

        return self._try_twice(config, options, watch, ask, wait)

    def embed(
        self, config: ModelConfig, options: backend_pb2.PredictOptions, watch: Watch
    ) -> Found[backend_pb2.EmbeddingResult]:
        """The vector of one text. Raises as `predict`."""

        limits = config.timeouts.limits(self._limits)

        def ask(pick: Pick) -> Found[backend_pb2.EmbeddingResult]:
            return _found(pick, self._inference.embed(pick.endpoint, options, limits), watch)

        return self._try_twice(config, options, watch, ask)

    def rerank(
        self, config: ModelConfig, request: backend_pb2.RerankRequest, watch: Watch
    ) -> Found[backend_pb2.RerankResult]:
        """The scores of documents. Raises as `predict`."""

        limits = config.timeouts.limits(self._limits)

        def ask(pick: Pick) -> Found[backend_pb2.RerankResult]:
            return _found(pick, self._inference.rerank(pick.endpoint, request, limits), watch)

        return self._try_twice(config, request, watch, ask)

    def _try_twice(
        self,
        config: ModelConfig,
        options: backend_pb2.PredictOptions | backend_pb2.RerankRequest,
        watch: Watch,
        ask: Callable[[Pick], T],
        wait: _Wait | None = None,
    ) -> T:
        account = current_account()
        account.model = config.name
        for last in (False, True):
            pick = self._pick(config, watch, wait or self._wait)
            account.node = pick.replica.node_name
            try:
                self._signals.picked(pick.endpoint)
                options.ModelIdentity = pick.replica.identity
                with account.elsewhere():
                    return ask(pick)
            except _MISROUTED as error:
                pick.release()
                count_cut(config.name, error)
                self._drop(pick, error)
                if last:
                    raise
            except BackendCrashed as error:
                # It may have crashed because of this request, which then must not reach the next replica.
                pick.release()
                count_cut(config.name, error)
                self._drop(pick, error)
                raise
            except BackendUnimplemented as error:
                pick.release()
                text = f"the model {config.name!r} runs on backend {config.backend!r}. {error.message}"
                raise BackendUnimplemented(text) from None
            except BaseException as error:  # also the end of this greenlet
                pick.release()
                count_cut(config.name, error)
                raise
        raise AssertionError("the last try returns or raises")

    def _pick(self, config: ModelConfig, watch: Watch, wait: _Wait) -> Pick:
        """A replica; waits for one where there is none."""
        for _ in range(_WAITS):
            pick = self._pick_now(config.name)
            if pick is not None:
                return pick
            wait(config, watch)
        raise BackendUnavailable(f"replicas of {config.name!r} go as fast as they come")

    def _wait(self, config: ModelConfig, watch: Watch, tell: Tell | None = None) -> None:
        account = current_account()
        with account.elsewhere(), metrics.WAITERS.labels(config.name).track_inprogress():
            try:
                with self._waiters.attach(config.name, config.revision, tell) as waiter, watch.during(waiter.leave):
                    waiter.wait()
            except ModelLoading:
                account.outcome = LOADING
                raise

    def _pick_now(self, model: str) -> Pick | None:
        try:
            return self._table.pick(model)
        except StorageUnavailable:
            # This process starts, or starts over after a pause: the rows are one reading away.
            if not self._feed.refresh(REFRESH_TIMEOUT_S):
                raise
            return self._table.pick(model)

    def _drop(self, pick: Pick, error: BackendError) -> None:
        """Route no more to what does not serve, and read the rows again."""
        replica, for_good = pick.replica, isinstance(error, ModelGone | WrongModel)
        log.warning(
            "a replica does not serve: %s",
            error.message,
            extra=logs.fields(model=replica.model, node=replica.node_name, process_instance=replica.process_instance),
        )
        self._table.drop(pick, for_good=for_good)
        if for_good:
            self._retire(replica)
        self._feed.refresh(REFRESH_TIMEOUT_S)

    def _retire(self, replica: LoadedReplica) -> None:
        """The process's own word: it runs, and does not hold this model. Its row must not bring it back."""
        try:
            self._retires.retire(replica.replica_id, replica.process_instance)
        except StorageUnavailable as error:
            log.warning("a replica without its model keeps its row for now: %s", error.message)


def _found(pick: Pick, call: UnaryCall[T], watch: Watch) -> Found[T]:
    pick.cancelled_by(call.cancel)
    with watch.during(call.cancel):
        result = call.result()
    pick.release()
    return Found(result, pick.replica.node_id)
