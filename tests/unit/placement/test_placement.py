"""Which node gets a model, and which reason each other node is given."""

from __future__ import annotations

from typing import Any

import pytest

from localai.ids import NodeId
from localai.placement.filters import GIB, MIB, Demand, Limits, NodeOffer, disk_margin
from localai.placement.rules import NoRoom, Placement, place, refusal
from tests.unit.jobs.test_quarantine_rules import streak

pytestmark = pytest.mark.unit
LIMITS = Limits(stale_after_s=300)


def node(name: str = "a", **changes: Any) -> NodeOffer:
    values = {
        "id": NodeId(name),
        "name": name,
        "status": "healthy",
        "heartbeat_age_s": 5.0,
        "total_ram": 16 * GIB,
        "available_ram": 12 * GIB,
        "total_disk": 100 * GIB,
        "available_disk": 50 * GIB,
    }
    return NodeOffer(**{**values, **changes})


def demand(gib: float | None = 4, **changes: Any) -> Demand:
    return Demand(**{"model": "m", "size_bytes": None if gib is None else int(gib * GIB), **changes})


@pytest.mark.parametrize(
    ("offer", "wanted", "reason"),
    [
        (node(), demand(), None),
        (node(status="pending"), demand(), "waits for approval"),
        (node(status="draining"), demand(), "is draining"),
        (node(status="offline"), demand(), "is offline"),
        (node(heartbeat_age_s=None), demand(), "has not sent a heartbeat"),
        (node(heartbeat_age_s=301), demand(), None),
        (
            node(quarantine=streak()),
            demand(),
            "is in quarantine for this model: its last 3 loads failed with start_failed",
        ),
        (node(replicas_of_model=1), demand(), "holds 1 of at most 1 replicas"),
        (node(replicas_of_model=1, max_replicas_per_model=2), demand(), None),
        (node(available_ram=4 * GIB), demand(), None),
        (node(available_ram=4 * GIB - 1), demand(), "needs 4.3 GB of memory"),
        (node(reserved_memory=9 * GIB), demand(), "promised to other loads"),
        (node(total_vram=24 * GIB, available_vram=3 * GIB), demand(), "of GPU memory"),
        (node(total_vram=24 * GIB, available_vram=5 * GIB, available_ram=0), demand(), None),
        (node(available_disk=5 * GIB - MIB), demand(), "free on the models filesystem"),
        (node(available_disk=5 * GIB), demand(), None),
        (node(available_disk=45 * GIB, available_ram=60 * GIB), demand(44), "needs 49.6 GB free"),
        (node(available_disk=6 * GIB, reserved_disk=2 * GIB), demand(), "free on the models filesystem"),
        (node(available_disk=6 * GIB, reserved_disk=2 * GIB), demand(), "2.1 GB are promised to other loads"),
        (node(available_disk=0), demand(), "has 0 B free of 107.4 GB"),
        (node(available_disk=0, held_disk=4 * GIB), demand(), None),
        (node(available_disk=0, reserved_disk=GIB, held_disk=4 * GIB), demand(), None),
        (node(available_disk=2 * GIB, held_disk=3 * GIB), demand(), None),
        (node(available_disk=2 * GIB - 1, held_disk=3 * GIB), demand(), "needs 2.1 GB free"),
        (node(available_disk=0), demand(stages=False), None),
        (node(available_disk=2 * GIB), demand(None), None),
        (node(available_disk=2 * GIB - 1), demand(None), "needs 2.1 GB free"),
    ],
)
def test_a_node_is_refused_for_one_reason_that_people_can_read(
    offer: NodeOffer, wanted: Demand, reason: str | None
) -> None:
    said = refusal(wanted, offer, LIMITS)
    assert (said is None) if reason is None else (reason in (said or ""))


@pytest.mark.parametrize(
    ("coming", "free", "total", "least", "margin"),
    [
        (10 * GIB, 50 * GIB, 100 * GIB, GIB, GIB),
        (40 * GIB, 50 * GIB, 100 * GIB, GIB, 2 * GIB),
        (10 * MIB, 50 * GIB, 20 * GIB, GIB, GIB),
        (10 * MIB, 64 * MIB, 64 * MIB, GIB, 64 * MIB // 20),  # a small node takes small models
        (10 * MIB, 64 * MIB, 19 * GIB, GIB, 64 * MIB // 20),
        (300 * MIB, 400 * MIB, 2 * GIB, GIB, 20 * MIB),
        (60 * MIB, 400 * MIB, 2 * GIB, 10 * MIB, 10 * MIB),
        (40 * GIB, 50 * GIB, 100 * GIB, 0, 0),
    ],
)
def test_the_margin_is_5_percent_and_a_setting_at_least_but_less_on_a_small_disk(
    coming: int, free: int, total: int, least: int, margin: int
) -> None:
    assert disk_margin(coming, free, total, least) == margin


@pytest.mark.parametrize("total", [64 * MIB, 2 * GIB, 19 * GIB])
def test_a_small_node_with_64_mb_free_takes_a_model_of_10_mb(total: int) -> None:
    assert refusal(demand(10 / 1024), node(total_disk=total, available_disk=64 * MIB), LIMITS) is None


def test_a_setting_of_0_asks_for_no_margin() -> None:
    limits = Limits(stale_after_s=300, disk_margin=0)
    assert refusal(demand(), node(available_disk=4 * GIB), limits) is None
    assert refusal(demand(), node(available_disk=4 * GIB - 1), limits) is not None


@pytest.mark.parametrize(
    "unknown",
    [
        {"available_ram": None},
        {"available_ram": 0, "total_ram": None},
        {"total_disk": None, "available_disk": None},
        {"total_disk": 0, "available_disk": 0},
    ],
)
def test_unknown_is_not_full(unknown: dict[str, Any]) -> None:
    assert refusal(demand(), node(**unknown), LIMITS) is None


def test_the_idlest_node_is_chosen_then_the_one_with_most_memory_then_by_name() -> None:
    nodes = [node("c"), node("b"), node("busy", replicas=1, available_ram=15 * GIB), node("full", available_ram=0)]
    assert place(demand(), nodes, LIMITS) == Placement(node_id=NodeId("b"), node_name="b")
    roomy = node("z", available_ram=14 * GIB)
    assert place(demand(), [*nodes, roomy], LIMITS) == Placement(node_id=NodeId("z"), node_name="z")


def test_a_node_that_did_not_know_the_backend_goes_after_the_others_and_is_still_better_than_none() -> None:
    without = node("a", lacks_backend=True, available_ram=15 * GIB)
    other = node("b", replicas=3, available_ram=8 * GIB)
    assert place(demand(), [without, other], LIMITS) == Placement(node_id=NodeId("b"), node_name="b")
    assert place(demand(), [without], LIMITS) == Placement(node_id=NodeId("a"), node_name="a")


def test_bu_03_a_node_that_took_no_order_goes_last_for_a_while_and_is_still_better_than_none() -> None:
    quiet = node("a", silent_s=1.0, available_ram=15 * GIB)
    assert place(demand(), [quiet, node("b", replicas=3)], LIMITS) == Placement(node_id=NodeId("b"), node_name="b")
    assert place(demand(), [quiet], LIMITS) == Placement(node_id=NodeId("a"), node_name="a")
    tried_again = node("a", silent_s=300.0)
    assert place(demand(), [tried_again, node("b", replicas=3)], LIMITS) == Placement(
        node_id=NodeId("a"), node_name="a"
    )


def test_a_node_with_an_old_heartbeat_is_chosen_only_where_no_other_fits() -> None:
    old = node("a", heartbeat_age_s=301)
    assert place(demand(), [old, node("b", replicas=3)], LIMITS) == Placement(node_id=NodeId("b"), node_name="b")
    assert place(demand(), [old], LIMITS) == Placement(node_id=NodeId("a"), node_name="a")


def test_no_room_has_one_reason_for_each_node() -> None:
    refused = place(demand(), [node("b", status="offline"), node("a", available_ram=0)], LIMITS)
    assert isinstance(refused, NoRoom)
    assert [name for name, _ in refused.reasons] == ["a", "b"]
    assert refused.text("m").startswith("no node can load 'm': a: needs")
    assert refused.nodes_serve and not refused.may_change


def test_no_node_at_all_says_what_to_start() -> None:
    refused = place(demand(), [], LIMITS)
    assert isinstance(refused, NoRoom)
    assert "localai worker" in refused.text("m") and not refused.nodes_serve


def test_room_may_appear_where_something_is_being_stopped() -> None:
    refused = place(demand(), [node(available_ram=0, unloading=1)], LIMITS)
    assert isinstance(refused, NoRoom) and refused.may_change
