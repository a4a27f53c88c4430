"""A thousand requests wait for a cold model: what does a request for a loaded one notice, and what does each wait cost?"""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.cluster import wait_for
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand, result_of
from tests.bench.warm import MODEL as HOT

COLD = "bench-cold-crowd"
WAITERS = 1000
#: Long enough for the probe, short enough for the wait of a request.
LOAD_S, QUICK_LOAD_S = 20, 12


def measure(stand: Stand) -> list[Row]:
    load_s = LOAD_S if stand.length.rounds > 2 else QUICK_LOAD_S
    stand.cluster.model(COLD, "fault", "tokens:1", f"load_delay:{load_s}s")
    stand.frontend.wait_for_model(COLD)
    probe = stand.chat(HOT, connections=1, seconds=min(6.0, stand.length.seconds * 3), pause_s=0.01)
    alone = stand.ask(probe)
    before = stand.web().memory_info().rss
    crowd = stand.begin(stand.chat(COLD, connections=WAITERS, once=True, seconds=55.0))
    wait_for(f"{WAITERS} waiters", lambda: _waiting(stand) >= WAITERS, limit_s=load_s)
    grown = stand.web().memory_info().rss - before
    hot = stand.ask(probe)
    still = _waiting(stand)
    answered = result_of(crowd)
    rows = [
        ("hot p50 with nobody waiting", alone["p50_ms"], "ms", None),
        (f"hot p50 with {WAITERS} waiting", hot["p50_ms"], "ms", Aim(at_most=10)),
        (f"hot p99 with {WAITERS} waiting", hot["p99_ms"], "ms", None),
        ("still waiting after the probe", still, "requests", Aim(at_least=WAITERS)),
        ("of them answered 200", answered["statuses"].get("200", 0), "requests", Aim(at_least=WAITERS)),
        ("memory for each", grown / WAITERS / 1024, "KiB", None),
    ]
    return [Row(measure="waiters", what=what, value=value, unit=unit, aim=aim) for what, value, unit, aim in rows]


def _waiting(stand: Stand) -> float:
    text = stand.frontend.get("/metrics").text
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return sum(s.value for s in samples if s.name == "localai_waiters" and s.labels == {"model": COLD})
