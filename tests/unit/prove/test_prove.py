"""A proof that cannot fail proves nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance import crash_table
from tests.acceptance.crash_table import CASES, Case, Way
from tests.bench.report import Row
from tests.prove import __main__ as prove
from tests.prove.client import _length, _request
from tests.prove.schedules import read
from tests.prove.stand import FULL, SHORT, Size, exactly

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]


def test_exactly_means_neither_less_nor_more() -> None:
    assert [exactly(3).met_by(value) for value in (2, 3, 4)] == [False, True, False]
    assert str(exactly(3)) == "= 3"


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, proof: object) -> tuple[int, dict[str, object]]:
    monkeypatch.setattr(prove, "PROOFS", {"one": proof})
    out = tmp_path / "prove.json"
    code = prove.main(["--size", "short", "--seed", "7", "--out", str(out)])
    return code, json.loads(out.read_text())


def rows_of(value: float) -> object:
    def proof(size: Size, seed: int) -> list[Row]:
        assert (size, seed) == (SHORT, 7)
        return [Row(measure="one", what="loads", value=value, unit="loads", aim=exactly(2))]

    return prove.Proof(proof, 1)


def test_a_run_without_a_miss_ends_with_0_and_says_size_and_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, facts = run(monkeypatch, tmp_path, rows_of(2))
    assert code == 0
    assert (facts["seed"], facts["size"]) == (7, "short")


def test_a_miss_ends_with_1_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(monkeypatch, tmp_path, rows_of(3))
    assert code == 1
    assert "MISSED  one: loads" in capsys.readouterr().out


def test_a_proof_that_breaks_off_is_a_miss(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(size: Size, seed: int) -> list[Row]:
        raise AssertionError("no cluster")

    code, _ = run(monkeypatch, tmp_path, prove.Proof(breaks, 1))
    told = capsys.readouterr()
    assert code == 1
    assert "MISSED  one: carried out" in told.out and "no cluster" in told.err


def test_what_the_simulator_printed_is_read_and_silence_is_no_success() -> None:
    first = "200 schedules from seed 5 in 9.0 s (22.2 each second): 4711 moves, 1.0 h of virtual time, 3 crashes\n"
    assert read(first + "events: taken 3\nnothing broken\n") == (200, 4711, 0)
    assert read(first + "seed 9: i1: twice\nseed 9: i2: again\nseed 12: i1: twice\n") == (200, 4711, 2)
    assert read("") == (0, 0, 1)


def test_an_answer_is_cut_at_its_length() -> None:
    assert _length(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n") == 12
    head, _, body = _request("/x", {"model": "m"}).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    with pytest.raises(ValueError, match="without a length"):
        _length(b"HTTP/1.1 200 OK\r\n\r\n")


def test_the_full_size_is_what_the_issue_of_the_proofs_asks_for() -> None:
    assert (FULL.rounds, FULL.crowd, FULL.owner_kills, FULL.cancels) == (1000, 50, 100, 100)
    assert (FULL.database_s, FULL.schedules, FULL.frozen_by_default) == (60.0, 200_000, True)


def test_the_page_of_crash_points_is_the_table() -> None:
    assert (ROOT / "docs/reference/crash-points.md").read_text(encoding="utf-8") == crash_table.page()


def test_every_process_and_every_way_is_in_the_table_and_ci_tries_owner_and_agent() -> None:
    assert {case.way for case in CASES} == set(Way)
    short: list[Case] = [case for case in CASES if case.short]
    assert {"control", "agent"} <= {case.process for case in short}
    assert 4 <= len(short) <= 6
