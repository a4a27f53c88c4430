"""From the send of an order to the start of its actor, on a node's queue of the real broker."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from localai.ids import JobId, NodeId, new_id
from tasks.broker import make_broker
from tasks.enqueue import DramatiqWakeups
from tests.bench.load import percentile
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand
from tests.embedded_servers import ROOT, clean_environment

IDLE_PAUSE_S = 1.1
WARM_PAUSE_S, WARM_MESSAGES = 0.02, 300


def measure(stand: Stand) -> list[Row]:
    url, node = stand.servers()["LOCALAI_BROKER_URL"], NodeId(new_id())
    consumer = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.consumer", url, node],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        cwd=ROOT,
    )
    wakeups = DramatiqWakeups(make_broker(url))
    try:
        assert consumer.stdout is not None and consumer.stdout.readline() == "ready\n"
        idle = _latencies(wakeups, consumer, node, stand.length.idle_messages, IDLE_PAUSE_S)
        warm = _latencies(wakeups, consumer, node, WARM_MESSAGES, WARM_PAUSE_S)
    finally:
        consumer.terminate()
        consumer.wait(30)
        wakeups.forget_node(node)
    rows = [("idle", idle, Aim(at_most=25), Aim(at_most=50)), ("warm", warm, None, None)]
    return [
        Row(measure="node queue", what=f"{name}, p{share}", value=percentile(values, share), unit="ms", aim=aim)
        for name, values, half, most in rows
        for share, aim in ((50, half), (99, most))
    ]


def _latencies(
    wakeups: DramatiqWakeups, consumer: subprocess.Popen[str], node: NodeId, count: int, pause_s: float
) -> list[float]:
    """Milliseconds of each message. Both processes read the clock that counts since the start of the machine."""
    assert consumer.stdout is not None
    pause, sent, taken = threading.Event(), {}, {}
    for number in range(count):
        pause.wait(pause_s)
        sent[number] = time.monotonic()
        wakeups.send_order(node, JobId(new_id()), number)
    for _ in range(count):
        number_text, moment = consumer.stdout.readline().split()
        taken[int(number_text)] = float(moment)
    return [(taken[number] - sent[number]) * 1000 for number in sent]
