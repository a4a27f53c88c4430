"""What a postmaster.pid of an earlier start means."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.embedded.pid_file_rules import Holder, PidFile, judge, pid_of

pytestmark = pytest.mark.unit

DATA = Path("/state/postgres")


@pytest.mark.parametrize(
    ("holder", "wanted"),
    [
        (None, PidFile.REMOVE),
        (Holder(name="python3", zombie=False, cwd=DATA), PidFile.REMOVE),
        (Holder(name="postgres", zombie=True, cwd=None), PidFile.REMOVE),
        (Holder(name="postgres", zombie=False, cwd=Path("/other/postgres")), PidFile.REMOVE),
        (Holder(name="postgres", zombie=False, cwd=None), PidFile.KEEP),
        (Holder(name="postgres", zombie=False, cwd=DATA), PidFile.STOP_LEFTOVER),
    ],
)
def test_only_a_live_postgres_on_this_very_folder_is_a_leftover(holder: Holder | None, wanted: PidFile) -> None:
    assert judge(holder, DATA) == wanted


@pytest.mark.parametrize(
    ("text", "pid"),
    [("123\n/state/postgres\n", 123), ("", None), ("\n", None), ("-5\n", None), ("0\n", None), ("12a\n", None)],
)
def test_a_pid_is_a_whole_positive_number_on_the_first_line(text: str, pid: int | None) -> None:
    assert pid_of(text) == pid
