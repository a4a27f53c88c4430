"""A process as gunicorn's gevent worker is one: patched, with the bus on a native thread. Prints what it saw as JSON.

``python -m tests.integration.bus.gevent_process URL QUESTIONS [asyncio]``
"""

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import sys  # noqa: E402
from collections import Counter  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
from gevent.event import Event  # noqa: E402

from localai.bus import subjects  # noqa: E402
from localai.bus.delivery import HubDelivery, delivery_of_this_process  # noqa: E402
from localai.bus.nats import NatsBus  # noqa: E402
from localai.clock import boottime  # noqa: E402
from localai.errors import LocalAIError  # noqa: E402


def ask(bus: NatsBus, number: int) -> str:
    try:
        answer = bus.request("answering", subjects.MODEL_STOP, {"number": number}, 60)
    except LocalAIError as error:
        return type(error).__name__
    return "answered" if answer["number"] == number else "answered to another question"


def error_of(bus: NatsBus, node: str, timeout_s: float) -> str:
    try:
        bus.request(node, subjects.MODEL_STOP, {}, timeout_s)
    except LocalAIError as error:
        return type(error).__name__
    return "answered"


def watch_hub(stalls: list[float]) -> None:
    """Note how long each turn of the hub took."""
    turn = Event()
    while True:
        before = boottime()
        turn.wait(0.001)
        stalls.append(boottime() - before)


def main(url: str, questions: int) -> dict[str, Any]:
    delivery = delivery_of_this_process()
    assert isinstance(delivery, HubDelivery)
    bus = NatsBus(url, name="web", delivery=delivery)
    resynced, told, asked_inside = Event(), Event(), Event()
    inside: list[str] = []

    def handle(subject: str, payload: Any) -> None:
        inside.append(
            ask(bus, payload["number"])
        )  # A handler may ask: its answer does not come through its own greenlet.
        asked_inside.set()

    bus.subscribe(subjects.ROUTING_CHANGED, lambda subject, payload: told.set())
    bus.subscribe(subjects.NODES_CHANGED, handle)
    bus.serve("web", "echo", lambda payload: {"echo": payload})
    bus.on_resync(resynced.set)
    found: dict[str, Any] = {"resynced": resynced.wait(60)}
    stalls: list[float] = []
    watcher = gevent.spawn(watch_hub, stalls)
    asking = [gevent.spawn(ask, bus, number) for number in range(questions)]
    gevent.joinall(asking, timeout=90)
    watcher.kill()
    found["outcomes"] = dict(Counter(greenlet.value for greenlet in asking))
    found["longest_stall_s"] = max(stalls)
    found["turns_of_the_hub"] = len(stalls)
    bus.publish(subjects.ROUTING_CHANGED, {"version": 1})
    found["told"] = told.wait(60)
    bus.publish(subjects.NODES_CHANGED, {"number": 7})
    found["asked_inside_a_handler"] = asked_inside.wait(60) and inside
    found["echo"] = bus.request("web", "echo", {"a": 1}, 60)["echo"]
    found["nobody"] = error_of(bus, "absent", 60)
    found["silent"] = error_of(bus, "silent", 0.3)
    began = boottime()
    bus.close()
    found["close_s"] = boottime() - began
    found["after_close"] = error_of(bus, "answering", 60)
    bus.publish(subjects.ROUTING_CHANGED, {})
    return found


if __name__ == "__main__":
    if "asyncio" in sys.argv[3:]:
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # As where uvloop cannot be installed.
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))  # noqa: T201
