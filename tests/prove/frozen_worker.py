"""A worker that stands still never says that its work has ended: when does the model's hold end all the same?"""

from __future__ import annotations

from typing import Any

from localai.settings import Settings
from tests.acceptance.cluster import alive, wait_for
from tests.bench.report import Aim, Row
from tests.prove.cancels import loading
from tests.prove.say import say_all
from tests.prove.stand import Ground, Size, exactly, ground, stopped

#: How much later than the hold the next attempt may begin: whoever waits asks four times a second.
LATE_S = 1.0


def prove(size: Size, seed: int) -> list[Row]:
    rows = _with_windows(size.frozen, scaled=True)
    return rows + (_with_windows(1, scaled=False) if size.frozen_by_default else [])


def _with_windows(times: int, *, scaled: bool) -> list[Row]:
    with ground(workers=2, scaled=scaled) as made:
        return measure(made, times)


def measure(made: Ground, times: int) -> list[Row]:
    """On a cluster of two workers at least: the next attempt goes to another."""
    window_s = made.settings.stop_window_s
    names = [f"frozen-{number}" for number in range(times)]
    made.models(names, "load_delay:600s", "fork_child:true")
    held = [_held(made, name) for name in names]
    broken = made.violations()
    say_all(broken)
    shown = f"stop window {window_s:g} s" + (", the default" if window_s == Settings().stop_window_s else "")

    def row(what: str, value: float, unit: str, aim: Aim | None = None) -> Row:
        return Row(measure="frozen worker", what=f"{what} ({shown})", value=value, unit=unit, aim=aim)

    return [
        row("holds measured", times, "holds"),
        row("the next attempt begins after, at least", min(held), "s", Aim(at_least=window_s)),
        row("the next attempt begins after, at most", max(held), "s", Aim(at_most=window_s + LATE_S)),
        row("violations found by the checker", len(broken), "", exactly(0)),
    ]


def _held(made: Ground, model: str) -> float:
    """Freeze the agent, cancel, ask until another attempt begins, thaw. Seconds between the two attempts."""
    group = loading(made, model)
    (job,) = made.front.jobs(kind="model.load", subject=model)
    agent = group[0].parent()
    assert agent is not None
    with stopped([agent]):
        response = made.front.post(f"/api/models/{model}/load-cancel", {"job_id": job["id"]})
        assert response.status_code in (200, 202), response.text
        made.cluster.model(model, "fault")  # the next attempt loads at once
        cancelled = made.wait_row(job["id"], f"{model} cancelled", "state = 'cancelled'")
        following = wait_for(f"the next attempt of {model}", lambda: _next(made, model, job["id"]), 600)
        assert cancelled["stop_state"] == "pending"
        assert all(map(alive, group)), "a frozen agent ended something"
    made.wait_row(job["id"], f"the end of {model} confirmed after the thaw", "stop_state = 'confirmed'")
    wait_for("the old group gone", lambda: not any(map(alive, group)))
    made.wait_row(following["id"], f"{model} loaded elsewhere", "state = 'succeeded'")
    return float((following["created_at"] - cancelled["finished_at"]).total_seconds())


def _next(made: Ground, model: str, before: str) -> dict[str, Any] | None:
    """The attempt after this one, asked for as a client does whose last answer was 503."""
    made.front.post("/backend/load", {"model": model})
    found = made.rows(
        "SELECT id, created_at FROM jobs WHERE kind = 'model.load' AND subject = %(model)s AND id <> %(id)s",
        model=model,
        id=before,
    )
    return found[0] if found else None
