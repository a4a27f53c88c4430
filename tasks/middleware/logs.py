"""Which fields the log lines of a message carry."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

from dramatiq.broker import Broker, MessageProxy
from dramatiq.middleware import Middleware

from localai import logs


class LogFields(Middleware):
    """Every line logged while a message is processed names the actor, and the job the message is about."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        stack = ExitStack()
        stack.enter_context(logs.bound(**_fields(message)))
        self._thread.stack = stack

    def after_process_message(
        self, broker: Broker, message: MessageProxy, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        self._leave()

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        self._leave()

    def _leave(self) -> None:
        stack = getattr(self._thread, "stack", None)
        if stack is not None:
            self._thread.stack = None
            stack.close()


def _fields(message: MessageProxy) -> dict[str, object]:
    fields: dict[str, object] = {"actor": message.actor_name}
    if len(message.args) == 2:  # Every actor of ours takes a job and a generation of it.
        fields["job_id"], fields["generation"] = message.args
    return fields
