"""Files on their way to the node: over real HTTP, cut, resumed, wrong, missing and cancelled."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from localai.jobs.operation_rules import Answer, Cause, OpState, Order, Phase, StagedFile
from tests.integration.worker_agent.conftest import MakeRig, Rig, faults, order
from tests.loopback import eventually, free_port
from worker_agent.files.paths import model_folder

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def staged(*files: StagedFile, model: str = "staged", **fields: Any) -> Order:
    """An order whose main file is the first one."""
    return order(model=model, identity=None, model_file=files[0].path, files=files, **fields)


def folder_of(rig: Rig, wanted: Order) -> Path:
    return model_folder(rig.folders.models, wanted.model)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def error_of(rig: Rig, wanted: Order) -> tuple[str, str]:
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None
    return ended.error.cause, ended.error.message


def test_st_03_every_file_is_there_before_the_start_and_the_identity_is_the_staged_path(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(3 * MIB))
    other = rig.frontend.put_file("sub folder/mmproj.bin", content(10))
    wanted = order(
        model="org/name:v1",
        identity=None,
        model_file=main.path,
        files=(main, other),
        file_fields={"MMProj": other.path},
        model_options=faults("require_files:weights.gguf,sub folder/mmproj.bin"),
    )
    ready = rig.frontend.wait_report(rig.run(wanted), OpState.READY)
    assert ready.identity == str(folder_of(rig, wanted) / "weights.gguf")
    assert Path(ready.identity).read_bytes() == content(3 * MIB)
    assert files_below(folder_of(rig, wanted)) == {"weights.gguf", "sub folder/mmproj.bin"}


def test_st_01_a_transfer_that_is_cut_goes_on_where_it_stopped(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(8 * MIB))
    rig.frontend.cuts["weights.gguf"] = 5 * MIB
    wanted = rig.run(staged(main))
    rig.frontend.wait_report(wanted, OpState.READY)
    first, second = rig.frontend.ranges
    assert first is None
    assert second is not None
    assert 4 * MIB <= int(second.removeprefix("bytes=").removesuffix("-")) <= 5 * MIB


def test_st_06_a_part_of_an_earlier_life_is_taken_over_and_a_bad_one_is_fetched_again(rig: Rig) -> None:
    good = rig.frontend.put_file("good.bin", content(4 * MIB))
    bad = rig.frontend.put_file("bad.bin", content(4 * MIB, seed=2))
    wanted = staged(good, bad)
    folder = folder_of(rig, wanted)
    folder.mkdir(parents=True)
    (folder / f"good.bin.{good.sha256[:12]}.partial").write_bytes(content(4 * MIB)[: 3 * MIB])
    (folder / f"bad.bin.{bad.sha256[:12]}.partial").write_bytes(bytes(3 * MIB))
    ready = rig.frontend.wait_report(rig.run(wanted), OpState.READY)
    assert ready.identity == str(folder / "good.bin")
    assert rig.frontend.ranges == [f"bytes={3 * MIB}-", f"bytes={3 * MIB}-", None]
    assert (folder / "bad.bin").read_bytes() == content(4 * MIB, seed=2)
    assert files_below(folder) == {"good.bin", "bad.bin"}


def test_i9_a_file_with_another_digest_is_removed_and_fails_the_load_once(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(MIB), sha256="0" * 64)
    wanted = rig.run(staged(main))
    cause, message = error_of(rig, wanted)
    assert cause == Cause.DIGEST_MISMATCH
    assert "weights.gguf" in message
    assert files_below(folder_of(rig, wanted)) == set()
    assert len(rig.frontend.ranges) == 1


def test_i9_more_bytes_than_promised_are_refused(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(MIB))
    rig.frontend.put_file("weights.gguf", content(2 * MIB))
    assert error_of(rig, rig.run(staged(main)))[0] == Cause.DIGEST_MISMATCH


def test_st_05_an_unchanged_file_is_not_fetched_again_and_a_changed_one_is(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(MIB))
    rig.frontend.wait_report(rig.run(staged(main)), OpState.READY)
    again = order(**_fields(staged(main)), slot=1)
    rig.frontend.wait_report(rig.run(again), OpState.READY)
    assert len(rig.frontend.ranges) == 1
    path = folder_of(rig, again) / "weights.gguf"
    path.write_bytes(bytes(MIB))
    os.utime(path, ns=(1, 1))
    third = order(**_fields(staged(main)), slot=2)
    rig.frontend.wait_report(rig.run(third), OpState.READY)
    assert path.read_bytes() == content(MIB)


def _fields(wanted: Order) -> dict[str, object]:
    return {name: getattr(wanted, name) for name in ("model", "identity", "model_file", "files")}


def test_a_file_that_no_frontend_has_fails_at_once(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(10))
    (rig.frontend.files / "weights.gguf").unlink()
    cause, message = error_of(rig, rig.run(staged(main)))
    assert cause == Cause.FILE_MISSING
    assert "weights.gguf" in message


def test_lj_03_silence_of_every_source_fails_within_the_stall_window(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(10))
    lost = StagedFile(path=main.path, size=main.size, sha256=main.sha256, sources=("http://127.0.0.1:1/weights.gguf",))
    wanted = order(model="staged", identity=None, model_file=main.path, files=(lost,), stall_window_s=0.5)
    cause, message = error_of(rig, rig.run(wanted))
    assert cause == Cause.STAGING_STALLED
    assert "LOCALAI_STAGING_STALL_WINDOW" in message


def test_lj_03_bytes_that_keep_coming_outlast_the_stall_window(rig: Rig) -> None:
    """Six pieces, half a second between them: longer than the window, and never silent for as long as it."""
    main = rig.frontend.put_file("weights.gguf", content(6 * MIB))
    rig.frontend.pauses["weights.gguf"] = (MIB, 0.5)
    wanted = order(model="staged", identity=None, model_file=main.path, files=(main,), stall_window_s=2.0)
    rig.frontend.wait_report(rig.run(wanted), OpState.READY)
    assert rig.frontend.ranges == [None]


def test_lj_03_a_source_that_freezes_in_the_middle_fails_within_the_stall_window(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(4 * MIB))
    rig.frontend.frozen_at["weights.gguf"] = 3 * MIB
    wanted = order(model="staged", identity=None, model_file=main.path, files=(main,), stall_window_s=1.5)
    rig.run(wanted)
    key = (wanted.job_id, wanted.op_generation)
    eventually(lambda: (found := rig.agent.operations.operation(key)) is not None and found.bytes_done == 3 * MIB)
    frozen_at = time.monotonic()
    cause, message = error_of(rig, wanted)
    assert time.monotonic() - frozen_at < 3.0, "the window and one report"
    assert cause == Cause.STAGING_STALLED
    assert "nothing arrived for 1.5 s (LOCALAI_STAGING_STALL_WINDOW)" in message
    assert f"at byte {3 * MIB} of {4 * MIB}" in message


def test_lj_03_what_another_load_receives_of_the_same_file_is_progress_of_this_one_too(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(4 * MIB))
    rig.frontend.pauses["weights.gguf"] = (MIB, 0.4)
    first, second = rig.run(staged(main)), rig.run(order(**_fields(staged(main)), slot=1))
    waiting = [rig.frontend.wait_report(wanted, OpState.READY) for wanted in (first, second)]
    assert len(rig.frontend.ranges) == 1
    for wanted, ready in zip((first, second), waiting, strict=True):
        counts = {said.bytes_done for said in rig.frontend.said(wanted) if said.phase is Phase.STAGING}
        assert len(counts - {0, 4 * MIB}) > 1, "bytes of a file on its way were reported"
        assert ready.bytes_done == 4 * MIB


def test_a_frontend_that_is_down_is_passed_over_for_the_next(make_rig: MakeRig) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    rig = make_rig(urls=None)
    rig = make_rig(urls=(down, rig.frontend.url), data_path=rig.folders.data.with_name("second"))
    main = rig.frontend.put_file("weights.gguf", content(MIB))
    rig.frontend.wait_report(rig.run(staged(main)), OpState.READY)


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b"])
def test_a_path_that_leads_out_of_the_models_folder_is_refused(rig: Rig, path: str) -> None:
    file = StagedFile(path=path, size=1, sha256="0" * 64, sources=("/x",))
    assert error_of(rig, rig.run(staged(file)))[0] == Cause.BAD_CONFIG


def test_lj_04_a_cancel_during_hashing_ends_the_operation_without_success(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = rig.frontend.put_file("weights.gguf", content(2 * MIB))
    wanted = staged(main)
    folder = folder_of(rig, wanted)
    folder.mkdir(parents=True)
    (folder / "weights.gguf").write_bytes(content(2 * MIB))
    key = (wanted.job_id, wanted.op_generation)
    moved = rig.agent.operations.moved
    hashing = threading.Event()

    def hold(*arguments: object, **counters: object) -> None:
        moved(*arguments, **counters)  # type: ignore[arg-type]
        if counters.get("bytes_done") and not hashing.is_set():
            hashing.set()
            rig.frontend.answers[key] = Answer.STOP
            eventually(lambda: rig.agent.operations.operation(key).stage.value == "ending")  # type: ignore[union-attr]

    monkeypatch.setattr(rig.agent.operations, "moved", hold)
    assert error_of(rig, rig.run(wanted))[0] == Cause.CANCELLED
    assert hashing.is_set()
    assert rig.frontend.ranges == []
