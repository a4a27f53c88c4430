"""How long does the process group of a cancelled load live?"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psutil

from tests.bench.load import percentile
from tests.bench.report import Aim, Row
from tests.prove.say import say_all
from tests.prove.stand import Ground, Size, ended, exactly, ground, pause

LOAD_DELAY = "60s"


def prove(size: Size, seed: int) -> list[Row]:
    """With the windows that people have."""
    with ground(scaled=False) as made:
        return measure(made, size)


def measure(made: Ground, size: Size) -> list[Row]:
    names = [f"unwanted-{number}" for number in range(size.cancels)]
    made.models(names, f"load_delay:{LOAD_DELAY}", "fork_child:true")
    took = [cancel(made, name) for name in names]
    rows = made.loads_of("unwanted-")
    broken = made.violations()
    say_all(broken)
    confirmed = sum((row["state"], row["stop_state"]) == ("cancelled", "confirmed") for row in rows)
    return [
        _row("cancels during LoadModel, a child beside the leader", size.cancels, "cancels"),
        _row("cancelled, and the end confirmed", confirmed, "loads", exactly(size.cancels)),
        _row("violations found by the checker", len(broken), "", exactly(0)),
        _row("from the request to the empty group, p50", percentile(took, 50), "s"),
        _row("from the request to the empty group, p99", percentile(took, 99), "s", Aim(at_most=2.0)),
    ]


def cancel(made: Ground, model: str, after_s: float = 0.0) -> float:
    """Load, cancel so long after LoadModel began; seconds until every process of the group is gone."""
    group = loading(made, model)
    pause(after_s)
    (job,) = made.front.jobs(kind="model.load", subject=model)
    with ThreadPoolExecutor(1) as beside:
        began = time.monotonic()
        # The answer waits a moment for the worker's word: the group is watched beside it.
        asked = beside.submit(made.front.post, f"/api/models/{model}/load-cancel", {"job_id": job["id"]})
        assert ended(group), f"processes of {model} are left"
        took_s = time.monotonic() - began
        response = asked.result()
    assert response.status_code in (200, 202), response.text
    made.wait_row(job["id"], f"the end of {model} confirmed", "stop_state = 'confirmed'")
    return took_s


def loading(made: Ground, model: str) -> list[psutil.Process]:
    """The group of a load, once it is in LoadModel and has forked its child."""
    return made.group_of(made.load(model))


def _row(what: str, value: float, unit: str, aim: Aim | None = None) -> Row:
    return Row(measure="cancel", what=what, value=value, unit=unit, aim=aim)
