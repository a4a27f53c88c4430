"""An owner stands still past its lease, another one wins, and it wakes: does anything change?"""

from __future__ import annotations

from typing import Any

from tests.bench.report import Aim, Row
from tests.prove.say import say_all
from tests.prove.stand import Ground, Size, exactly, ground, pause, stopped

#: Longer than lease and adopt window: the pause falls into LoadModel, and the end into another owner's time.
LOAD_DELAY = "9s"


def prove(size: Size, seed: int) -> list[Row]:
    return _with("adoption", size.paused, {}) + _with(
        "without adoption", size.paused, {"LOCALAI_JOB_ADOPTION": "false"}
    )


def _with(what: str, times: int, more: dict[str, str]) -> list[Row]:
    with ground(controls=2, more=more) as made:
        names = [f"paused-{number}" for number in range(times)]
        made.models(names, f"load_delay:{LOAD_DELAY}")
        changed = [line for name in names for line in _changed(made, name)]
        broken = made.violations()
    say_all(changed + broken)

    def row(text: str, value: float, aim: Aim | None = None) -> Row:
        return Row(measure="paused owner", what=f"{text} ({what})", value=value, unit="", aim=aim)

    return [
        row("owners paused past their lease, woken after another had won", times),
        row("rows that changed after the owner woke", len(changed), exactly(0)),
        row("violations found by the checker", len(broken), exactly(0)),
    ]


def _changed(made: Ground, model: str) -> list[str]:
    """What of the rows of a model is different two leases after its first owner woke."""
    job_id = made.load(model)
    row = made.wait_row(job_id, f"{model} in LoadModel", "phase = 'loading'")
    with stopped([made.owner_process(row["owner"])]):
        generation = row["generation"]
        made.wait_row(job_id, f"{model} lost its owner", f"(state <> 'running' OR generation <> {generation})")
        winner = _won(made, model, job_id)
        before = _rows_of(made, model)
    pause(2 * made.settings.job_lease_ttl_s)
    after = _rows_of(made, model)
    assert made.front.chat_until_answered(model).status_code == 200
    return [
        f"{model} {winner}: {name} {before.get(name)} -> {value}"
        for name, value in after.items()
        if before.get(name) != value
    ]


def _won(made: Ground, model: str, job_id: str) -> str:
    """The attempt that serves in the end: the adopted one, or the next after a failure."""
    if made.wait_over(job_id) != "succeeded":
        made.wait_row(job_id, f"the hold of {model} over", "hold_until < clock_timestamp()")
        job_id = made.load(model)
        assert made.wait_over(job_id) == "succeeded"
    return job_id


_ROWS = {
    "jobs": "SELECT id, state, generation, owner, attempts, stop_state, hold_until, finished_at, error_cause FROM jobs "
    "WHERE subject = %(model)s ORDER BY id",
    "replicas": "SELECT id, slot, node_id, job_id, process_instance, address, revision, state FROM replicas "
    "WHERE model = %(model)s ORDER BY id",
    "events": "SELECT count(*) AS n FROM job_events e JOIN jobs j ON j.id = e.job_id WHERE j.subject = %(model)s",
}


def _rows_of(made: Ground, model: str) -> dict[str, Any]:
    return {name: made.rows(statement, model=model) for name, statement in _ROWS.items()}
