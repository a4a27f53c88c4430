"""How one question to a node ends: with bytes, or with exactly one of the errors that are never merged.

Runs on the bus thread.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from nats import errors
from nats.aio.client import Client

from localai.bus.delivery import Signal
from localai.errors import BadInput, LocalAIError, NodeQuiet, NodeUnreachable, NoRoute

#: A request that the connection does not even take (a full socket) is given up this long after its own limit.
SEND_MARGIN_S = 0.2


@dataclass(eq=False, slots=True)
class Question:
    """One request under way; settled exactly once. Its time runs from the moment the caller asked."""

    node_id: str
    subject: str
    data: bytes
    timeout_s: float
    signal: Signal
    asked_at: float = field(default_factory=time.monotonic)
    outcome: bytes | LocalAIError | None = None

    def settle(self, outcome: bytes | LocalAIError) -> None:
        """The first outcome counts; the caller is woken."""
        if self.outcome is None:
            self.outcome = outcome
            self.signal.set()

    def unreachable(self, cause: str) -> NodeUnreachable:
        return NodeUnreachable(node_id=self.node_id, cause=cause)

    def left_s(self) -> float:
        return max(self.asked_at + self.timeout_s - time.monotonic(), 0.001)


class Questions:
    """The questions under way on one connection after the other."""

    def __init__(self) -> None:
        self._asking: set[asyncio.Task[None]] = set()

    def put(self, client: Client | None, question: Question) -> None:
        """Ask with this client, if there is one. Returns at once."""
        if client is None or not client.is_connected:
            question.settle(question.unreachable("not connected to the bus"))
            return
        task = asyncio.get_running_loop().create_task(_ask(client, question))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def abandon(self) -> None:
        """The connection is gone, and with it every answer."""
        for task in list(self._asking):
            task.cancel()


async def _ask(client: Client, question: Question) -> None:
    left_s = question.left_s()
    try:
        async with asyncio.timeout(left_s + SEND_MARGIN_S):
            answer = await client.request(question.subject, question.data, timeout=left_s)
        question.settle(answer.data)
    except errors.NoRespondersError:
        question.settle(NoRoute(node_id=question.node_id))
    except errors.MaxPayloadError:
        question.settle(BadInput("payload", f"{len(question.data)} bytes", f"at most {client.max_payload} bytes"))
    except errors.TimeoutError:
        question.settle(NodeQuiet(node_id=question.node_id, timeout_s=question.timeout_s))
    except TimeoutError:
        question.settle(question.unreachable("the bus took no request"))
    except (errors.Error, OSError) as error:
        question.settle(question.unreachable(str(error) or type(error).__name__))
    finally:
        # Reached unsettled when the connection went away under the question and its task was cancelled.
        question.settle(question.unreachable("the connection to the bus was lost"))
