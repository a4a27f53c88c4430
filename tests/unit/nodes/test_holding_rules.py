"""Bytes on a disk and memory of processes count once: as used, or as promised, never as both."""

from __future__ import annotations

from typing import Any

import pytest

from localai.nodes.holding_rules import (
    FILES_MOST,
    HeldFile,
    Holdings,
    Promise,
    holdings_of,
    model_folder,
    order_files,
    promises_of,
)
from localai.placement.counting_rules import counted

pytestmark = pytest.mark.unit
SHA, OTHER = "a" * 64, "b" * 64


def file(path: str = "m.gguf", size: int = 100, sha256: str = SHA) -> dict[str, Any]:
    return {"path": path, "size": size, "sha256": sha256, "sources": ["/x"]}


def promise(state: str = "staging", reserved: int = 100, **changes: Any) -> dict[str, Any]:
    values = {"model": "m", "state": state, "reserved_bytes": reserved, "process_instance": None, "shown": False}
    return {**values, **changes}


def held(path: str, size: int, sha256: str = SHA) -> HeldFile:
    return HeldFile(path=path, sha256=sha256[:12], bytes=size)


def disk(files: tuple[HeldFile, ...] | None, *promises: dict[str, Any], model: str = "m") -> tuple[int, int]:
    """Disk promised to others, and bytes of one file of 100 that need no room."""
    counts = counted(
        promises_of(promises), Holdings(files=files), model=model, wanted=order_files(model, [file()]), gpu=False
    )
    return counts["reserved_disk"], counts["held_disk"]


def test_bytes_that_lie_on_the_node_need_no_room_a_second_time() -> None:
    assert disk((held("m/m.gguf", 100),)) == (0, 100)
    assert disk((held("m/m.gguf", 30),)) == (0, 30), "a part that was received counts"
    assert disk((held("m/m.gguf", 30), held("m/m.gguf", 100))) == (0, 100), (
        "a part that becomes whole is no second copy"
    )


@pytest.mark.parametrize(
    "files",
    [
        None,  # an agent of the version before
        (),
        (held("m/m.gguf", 100, OTHER),),  # another version of the file
        (held("other/m.gguf", 100),),  # of another model
    ],
)
def test_whatever_is_not_known_to_be_there_needs_room(files: tuple[HeldFile, ...] | None) -> None:
    assert disk(files) == (0, 0)


def test_a_load_under_way_has_set_aside_what_is_still_to_come() -> None:
    order = promise(model="n", files=[file("n.gguf", 60), file("n.bin", 40)])
    assert disk((), order) == (100, 0)
    assert disk((held("n/n.gguf", 60),), order) == (40, 0), "what has landed shows in the free disk"
    assert disk((held("n/n.gguf", 60), held("n/n.bin", 15)), order) == (25, 0)
    assert disk(None, order) == (100, 0)


def test_two_loads_of_one_model_share_its_files() -> None:
    same = promise(files=[file()])
    assert disk((held("m/m.gguf", 30),), same) == (70, 100)
    assert disk((), same, {**same}) == (100, 100)


def test_a_load_whose_files_are_not_known_has_set_aside_all_of_it() -> None:
    assert disk((), promise(), promise()) == (200, 0)


@pytest.mark.parametrize("state", ["loaded", "unloading"])
def test_a_replica_that_is_loaded_or_stopped_stages_nothing(state: str) -> None:
    assert disk((), promise(state, files=None)) == (0, 0)


def memory(processes: dict[str, int] | None, *promises: dict[str, Any], gpu: bool = False) -> int:
    holdings = Holdings(memory=processes)
    counts = counted(promises_of(promises), holdings, model="m", wanted=None, gpu=gpu)
    return int(counts["reserved_memory"])


@pytest.mark.parametrize("state", ["staging", "loading", "loaded", "unloading"])
def test_a_replica_counts_with_what_its_process_does_not_hold_yet(state: str) -> None:
    running = promise(state, process_instance="p")
    assert memory({}, running) == 100
    assert memory({"p": 30}, running) == 70
    assert memory({"p": 130}, running) == 0, "no replica gives away more than it has"
    assert memory({"other": 30}, running) == 100


def test_a_loaded_model_of_which_only_a_part_was_read_keeps_the_rest() -> None:
    assert memory({"p": 40}, promise("loaded", process_instance="p", shown=True)) == 60


@pytest.mark.parametrize(
    ("state", "shown", "counts"),
    [
        ("loading", False, 100),
        ("loaded", False, 100),
        ("loaded", True, 0),
        ("unloading", True, 0),  # its memory is still in the node's own figures
        ("unloading", False, 100),
    ],
)
def test_without_memory_by_process_a_replica_counts_until_a_beat_after_its_load(
    state: str, shown: bool, counts: int
) -> None:
    row = promise(state, process_instance="p", shown=shown)
    assert memory(None, row) == counts
    assert memory({"p": 30}, row, gpu=True) == counts, "memory of a process says nothing of a GPU"


def test_slots_are_counted_by_model_and_a_replica_that_is_stopped_takes_none() -> None:
    rows = [promise("loaded"), promise("unloading"), promise(model="n")]
    counts = counted(promises_of(rows), Holdings(), model="m", wanted=None, gpu=False)
    assert (counts["replicas"], counts["replicas_of_model"], counts["unloading"]) == (3, 1, 1)


def test_a_model_s_folder_is_the_same_on_both_sides() -> None:
    assert order_files("org/m:v1", [file()]) == {(f"{model_folder('org/m:v1')}/m.gguf", SHA[:12]): 100}
    assert order_files("m", None) is None and promises_of(None) == []


def test_what_is_reported_survives_json() -> None:
    files = (held("m/a b.gguf", 5),)
    assert holdings_of([one.to_json() for one in files], {"p": 1}) == Holdings(files=files, memory={"p": 1})
    assert holdings_of(None, None) == Holdings()
    assert FILES_MOST >= 1000


def test_a_promise_is_arriving_until_it_is_loaded() -> None:
    assert [Promise(**promise(state)).arriving for state in ("staging", "loading", "loaded", "unloading")] == [
        True,
        True,
        False,
        False,
    ]
