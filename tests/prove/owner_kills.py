"""How long does a load whose owner was killed have none, and does anything of it happen twice?"""

from __future__ import annotations

import random

from localai.settings import Settings
from tests.acceptance.cluster import SCALED_WINDOWS, wait_for
from tests.bench.load import percentile
from tests.bench.report import Aim, Row
from tests.prove.say import say, say_all
from tests.prove.stand import Ground, Size, exactly, ground, pause

#: With the defaults: a lease, a pass of the sweep, and 2 s for everything else.
LIMIT_S = 33.0
#: Long enough that no load ends before its owner is missed.
LOAD_DELAY = "60s"


def prove(size: Size, seed: int) -> list[Row]:
    draw = random.Random(seed)
    names = [f"orphan-{number}" for number in range(size.owner_kills)]
    with ground(controls=2) as made:
        made.models(names, f"load_delay:{LOAD_DELAY}", "tokens:1")
        alone = [_without_owner(made, name, draw) for name in names]
        adopted, failed = _ends(made)
        wait_for("quiet", lambda: not made.rows("SELECT 1 FROM jobs WHERE state IN ('queued', 'running')"))
        twice = made.rows("SELECT subject FROM jobs WHERE kind = 'model.load' GROUP BY subject HAVING count(*) > 1")
        broken = made.violations()
    say_all(broken)
    scaled, default = Settings.load(SCALED_WINDOWS), Settings()
    shift = (default.job_lease_ttl_s - scaled.job_lease_ttl_s) + (
        default.job_sweep_interval_s - scaled.job_sweep_interval_s
    )
    scale = f"lease {scaled.job_lease_ttl_s:g} s, sweep {scaled.job_sweep_interval_s * 1000:g} ms"
    return [
        _row("owners killed", size.owner_kills, "kills"),
        _row("loads adopted or failed", adopted + failed, "loads", exactly(size.owner_kills)),
        _row("of them adopted", adopted, "loads"),
        _row("loads with a second attempt", len(twice), "loads", exactly(0)),
        _row("violations found by the checker", len(broken), "", exactly(0)),
        _row(f"without an owner, p50 ({scale})", percentile(alone, 50), "s"),
        _row(f"without an owner, p99 ({scale})", percentile(alone, 99), "s"),
        _row("p99 with default windows: + lease and sweep", percentile(alone, 99) + shift, "s", Aim(at_most=LIMIT_S)),
    ]


def _without_owner(made: Ground, model: str, draw: random.Random) -> float:
    """Kill the owner of a load somewhere on its way; seconds until the row had another, or its end."""
    job_id = made.load(model)
    made.wait_row(job_id, f"{model} taken", "state = 'running'")
    pause(draw.uniform(0.0, 1.5))
    row = made.job(job_id)
    owner, generation = row["owner"], row["generation"]
    process = made.owner_process(owner)
    (killed_at,) = [row["at"] for row in made.rows("SELECT clock_timestamp() AS at")]
    process.kill()
    made.wait_row(job_id, f"{model} adopted or failed", f"(state <> 'running' OR generation <> {generation})", 60)
    made.keep_controls()
    (moved,) = made.rows(
        "SELECT at, event FROM job_events WHERE job_id = %(id)s AND event IN ('adopted', 'failed') ORDER BY id LIMIT 1",
        id=job_id,
    )
    _end_load(made, model, job_id)
    seconds = float((moved["at"] - killed_at).total_seconds())
    say(f"{model}: {row['phase']}, {moved['event']} after {seconds:.2f} s")
    return seconds


def _end_load(made: Ground, model: str, job_id: str) -> None:
    made.front.post(f"/api/models/{model}/load-cancel", {"job_id": job_id})
    made.wait_row(job_id, f"{model} ended", "state <> 'running' AND stop_state <> 'pending'")


def _ends(made: Ground) -> tuple[int, int]:
    rows = made.rows(
        "SELECT event, count(*) AS n FROM job_events JOIN jobs ON jobs.id = job_id WHERE kind = 'model.load' "
        "AND event IN ('adopted', 'failed') GROUP BY event"
    )
    counts = {row["event"]: int(row["n"]) for row in rows}
    return counts.get("adopted", 0), counts.get("failed", 0)


def _row(what: str, value: float, unit: str, aim: Aim | None = None) -> Row:
    return Row(measure="owner killed", what=what, value=value, unit=unit, aim=aim)
