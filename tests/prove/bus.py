"""The bus stands still during a load, and during cancels: who notices, and how much later?"""

from __future__ import annotations

import random
import threading
import time

import psutil

from tests.bench.load import percentile
from tests.bench.report import Aim, Row
from tests.prove.cancels import cancel
from tests.prove.say import say_all
from tests.prove.stand import Ground, Size, exactly, ground, servers_named, stopped

LOAD_S = 2.0
#: What a load may take longer without the bus: waiters ask the rows instead of being told.
LATER_S = 6.0
#: Beside the interval of the agent's reports: the way there and back, and the end of the group.
LATE_S = 1.0


def prove(size: Size, seed: int) -> list[Row]:
    """Default windows: how late a cancel comes is the interval of the agent's reports."""
    with ground(scaled=False) as made:
        return measure(made, size, seed)


def measure(made: Ground, size: Size, seed: int) -> list[Row]:
    draw, report_s = random.Random(seed), made.settings.operation_report_interval_s
    made.models(["bus-with", "bus-without"], f"load_delay:{LOAD_S:g}s", "tokens:1")
    names = [f"bus-cancel-{number}" for number in range(size.bus_cancels)]
    made.models(names, "load_delay:600s", "fork_child:true")
    with_s = _answered(made, "bus-with")
    nats = servers_named("nats-server")
    without_s = _answered_while(made, "bus-without", nats)
    with stopped(nats):
        # Right after a report is the worst moment, right before one the best: anywhere between.
        took = [cancel(made, name, draw.uniform(0.0, report_s)) for name in names]
    rows = made.loads_of("bus-")
    broken = made.violations()
    say_all(broken)
    loaded = sum(row["state"] == "succeeded" for row in rows)
    return [
        _row("first request with the bus", with_s, "s"),
        _row("first request whose bus stands still from the load on", without_s, "s", Aim(at_most=with_s + LATER_S)),
        _row("loads that succeeded, one for each", loaded, "loads", exactly(2)),
        _row("loads of any state", len(rows), "loads", exactly(2 + size.bus_cancels)),
        _row("cancels without the bus", size.bus_cancels, "cancels"),
        _row("from the request to the empty group, p50", percentile(took, 50), "s", Aim(at_most=5.0)),
        _row("from the request to the empty group, most", max(took), "s", Aim(at_most=report_s + LATE_S)),
        _row("violations found by the checker", len(broken), "", exactly(0)),
    ]


def _answered(made: Ground, model: str) -> float:
    began = time.monotonic()
    response = made.front.chat(model)
    assert response.status_code == 200, response.text
    return time.monotonic() - began


def _answered_while(made: Ground, model: str, nats: list[psutil.Process]) -> float:
    """The same, and the bus stops once the model process has its LoadModel."""
    took: list[float] = []
    client = threading.Thread(target=lambda: took.append(_answered(made, model)), daemon=True)
    client.start()
    job_id = made.load(model)
    made.wait_row(job_id, f"{model} in LoadModel", "phase = 'loading'")
    with stopped(nats):
        client.join(120)
    assert took, f"the client of {model} got no answer"
    return took[0]


def _row(what: str, value: float, unit: str, aim: Aim | None = None) -> Row:
    return Row(measure="bus away", what=what, value=value, unit=unit, aim=aim)
