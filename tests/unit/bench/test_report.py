"""A bench that cannot say "missed" or "not clean" measures nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.load import Plan, percentile
from tests.bench.machine import Quiet, spread
from tests.bench.report import Aim, Row, table, write

pytestmark = pytest.mark.unit


def quiet(foreign: list[float], loops: list[float]) -> Quiet:
    return Quiet(list, foreign=foreign, loops_ms=loops)


def test_an_aim_is_met_or_missed() -> None:
    assert Row(measure="m", what="w", value=3.0, unit="ms", aim=Aim(at_most=3)).verdict == "met"
    assert Row(measure="m", what="w", value=3.1, unit="ms", aim=Aim(at_most=3)).verdict == "MISSED"
    assert Row(measure="m", what="w", value=999, unit="moves/s", aim=Aim(at_least=1000)).verdict == "MISSED"
    assert Row(measure="m", what="w", value=1, unit="ms").verdict == ""


def test_a_run_beside_others_is_not_clean_and_says_how_much_they_took() -> None:
    assert quiet([0.01, 0.02], [5.0, 5.1]).problems() == []
    (problem,) = quiet([0.01, 0.5], [5.0, 5.1]).problems()
    assert "50%" in problem and "10%" in problem


def test_a_machine_that_changes_its_speed_is_not_clean() -> None:
    (problem,) = quiet([0.0], [5.0, 5.0, 10.0]).problems()
    assert "5.0 to 10.0 ms" in problem


def test_the_spread_is_of_the_largest_and_the_smallest() -> None:
    assert spread([4.0, 5.0, 6.0]) == pytest.approx(0.4)
    assert spread([4.0]) == 0


def test_percentiles_are_values_of_the_list() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (51, 100, 100)
    assert percentile([], 50) == 0


def test_table_and_file_say_the_same(tmp_path: Path) -> None:
    rows = [Row(measure="warm path", what="p50", value=1.5, unit="ms", spread=0.1, aim=Aim(at_most=1))]
    assert "MISSED" in table(rows) and "10%" in table(rows) and "<= 1" in table(rows)
    write(tmp_path / "sub" / "bench.json", rows, {"clean": False})
    written = json.loads((tmp_path / "sub" / "bench.json").read_text())
    assert written["clean"] is False
    assert (written["rows"][0]["value"], written["rows"][0]["verdict"]) == (1.5, "MISSED")


def test_a_request_is_one_that_a_server_can_read() -> None:
    head, body = Plan(port=1, body="{}", key="k").request().split(b"\r\n\r\n")
    assert body == b"{}" and b"Content-Length: 2" in head and b"Bearer k" in head
