"""Which heartbeats are written, which status a node gets, and which labels the server sets. ND-03."""

from __future__ import annotations

from typing import Any

import pytest

from localai.ids import NodeId
from localai.nodes.holding_rules import Holdings
from localai.nodes.rules import (
    MATERIAL_BYTES,
    BeatRow,
    Figures,
    Status,
    automatic_labels,
    status_at_registration,
    worth_writing,
)
from tests.unit.jobs.builders import NOW, at

pytestmark = pytest.mark.unit
GIB = 1024**3
WRITTEN = Figures(
    total_vram=24 * GIB, available_vram=10 * GIB, available_ram=8 * GIB, available_disk=90 * GIB, gpu_vendor="nvidia"
)


def row(**changes: Any) -> BeatRow:
    values = {"id": NodeId("n"), "status": Status.HEALTHY, "incarnation": 1, "last_heartbeat": at(-10), "now": NOW}
    return BeatRow(**{**values, "figures": WRITTEN, **changes})


@pytest.mark.parametrize(
    ("node", "beat", "first", "written"),
    [
        (row(), Figures(), False, False),
        (row(), WRITTEN, False, False),
        (row(), Figures(), True, True),
        (row(last_heartbeat=None), Figures(), False, True),
        (row(last_heartbeat=at(-60)), Figures(), False, True),
        (row(last_heartbeat=at(-59.9)), Figures(), False, False),
        (row(status=Status.OFFLINE), Figures(), False, True),
        (row(status=Status.PENDING), Figures(), False, True),
        (row(), Figures(available_ram=8 * GIB + MATERIAL_BYTES), False, False),
        (row(), Figures(available_ram=8 * GIB + MATERIAL_BYTES + 1), False, True),
        (row(), Figures(available_vram=10 * GIB - MATERIAL_BYTES - 1), False, True),
        (row(), Figures(available_disk=0), False, True),
        (row(figures=Figures()), Figures(available_ram=1), False, True),
        (row(), Figures(gpu_vendor="amd"), False, True),
        (row(), Figures(total_vram=48 * GIB), False, True),
        (row(), Figures(total_disk=1), False, True),
        (row(), Figures(cpu_usage_percent=99.0, cpu_load_1=40.0, cpu_logical_cores=4), False, False),
    ],
)
def test_nd_03_only_news_and_the_checkpoint_are_written(
    node: BeatRow, beat: Figures, first: bool, written: bool
) -> None:
    assert worth_writing(node, beat, 60.0, first=first) == written


def test_a_list_of_files_is_written_at_once_because_it_is_sent_only_if_it_changed() -> None:
    assert worth_writing(row(), WRITTEN, 60.0, first=False, holdings=Holdings(files=()))
    assert not worth_writing(row(), WRITTEN, 60.0, first=False, holdings=Holdings(memory={"p": 1}))


@pytest.mark.parametrize(
    ("known", "approved", "approve", "expected"),
    [
        (False, False, False, (Status.PENDING, False)),
        (False, False, True, (Status.HEALTHY, True)),
        (True, False, False, (Status.PENDING, False)),
        (True, True, False, (Status.HEALTHY, True)),
        (True, False, True, (Status.HEALTHY, True)),
    ],
)
def test_an_approval_is_needed_once(known: bool, approved: bool, approve: bool, expected: tuple[Status, bool]) -> None:
    assert status_at_registration(known=known, approved=approved, approve=approve) == expected


def test_a_drain_outlives_a_registration_and_gives_no_approval() -> None:
    drained = {"known": True, "approve": False, "draining": True}
    assert status_at_registration(approved=True, **drained) == (Status.DRAINING, True)
    assert status_at_registration(approved=False, **drained) == (Status.PENDING, False)


@pytest.mark.parametrize(
    ("mib", "label"),
    [
        (144_384, "80GB+"),
        (81_559, "80GB+"),
        (81_251, "80GB+"),
        (46_068, "48GB"),
        (40_960, "24GB"),
        (24_564, "24GB"),
        (22_731, "24GB"),
        (16_376, "16GB"),
        (15_109, "16GB"),
        (12_288, "8GB"),
        (8_188, "8GB"),
        (6_144, "6GB"),
    ],
)
def test_the_memory_of_a_gpu_is_labelled_by_the_class_it_is_sold_as(mib: int, label: str) -> None:
    labels = automatic_labels("n", Figures(gpu_vendor="nvidia", total_vram=mib * 1024**2), 2)
    assert labels == {"node.name": "n", "node.replica-slots": "2", "gpu.vendor": "nvidia", "gpu.vram": label}


def test_a_node_without_a_gpu_has_no_gpu_labels() -> None:
    assert automatic_labels("n", Figures(), 1) == {"node.name": "n", "node.replica-slots": "1"}
