"""What a log line looks like, and what is never in one."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from localai import logs

pytestmark = pytest.mark.unit


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Standard error of a process that logs; everything global is put back."""
    root, output = logging.getLogger(), io.StringIO()
    before = root.handlers[:], root.level
    for name in ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
    monkeypatch.setattr("sys.stderr", output)
    logs.configure("info", "web")
    yield output
    root.handlers[:] = before[0]
    root.setLevel(before[1])


def test_a_line_has_its_time_its_process_and_its_fields(lines: io.StringIO) -> None:
    with logs.bound(job_id="j1"):
        logs.get("a.b").info("taken", extra=logs.fields(node="n 1", bytes=3))
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO web a\.b: taken job_id=j1 node="n 1" bytes=3\n', lines.getvalue()
    )


def test_the_time_of_a_line_is_its_own_second(lines: io.StringIO) -> None:
    shown = []
    for created in (1_700_000_000.25, 1_700_000_000.75, 1_700_000_061.5):
        record = logging.LogRecord("a", logging.INFO, "", 0, "x", (), None)
        record.created, record.msecs = created, created % 1 * 1000
        shown.append(logging.getLogger().handlers[0].format(record)[17:23])
    assert shown == ["20,250", "20,750", "21,500"]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:hunter2@host/db",
        "Authorization: Bearer hunter2",
        "bearer hunter2",
        "(redis://:hunter2@h:1/0)",
    ],
)
def test_secrets_are_in_no_line(lines: io.StringIO, text: str) -> None:
    logs.get("a").warning("refused: %s", text)
    logs.get("a").warning("refused", extra=logs.fields(why=text))
    assert "hunter2" not in lines.getvalue() and lines.getvalue().count("***") == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n2026-11-30 12:00:00,000 ERROR web forged", r"a\n2026-11-30 12:00:00,000 ERROR web forged"),
        ("\x1b[2J\x00", r"\x1b[2J\x00"),
        ("next\x85line\u2028and", r"next\x85line\u2028and"),
    ],
)
def test_no_text_of_others_begins_a_line_or_drives_a_terminal(lines: io.StringIO, text: str, shown: str) -> None:
    logs.get("a").info("asked for %s", text)
    logs.get("a").info("asked", extra=logs.fields(model=text))
    assert [line.split("a: ", 1)[1] for line in lines.getvalue().splitlines()] == [
        f"asked for {shown}",
        f'asked model="{shown}"',
    ]


def test_long_texts_are_cut(lines: io.StringIO) -> None:
    logs.get("a").info("asked", extra=logs.fields(path="/" + "m" * 4000, status=404))
    shown = "/" + "m" * (logs.FIELD_LIMIT - 1)
    assert lines.getvalue().endswith(f" path={shown}…(+{4001 - logs.FIELD_LIMIT}) status=404\n")
    logs.get("a").info("asked for %s", "m" * 10_000)
    assert len(lines.getvalue().splitlines()[1]) < logs.MESSAGE_LIMIT + 100


def test_a_cut_shows_no_part_of_a_secret(lines: io.StringIO) -> None:
    for length in range(logs.FIELD_LIMIT - 40, logs.FIELD_LIMIT):
        logs.get("a").info(
            "asked", extra=logs.fields(url="x" * length + "redis://:hunter2@host/0 Bearer hunter2" + "x" * 99)
        )
    assert "hunter" not in lines.getvalue() and ":h" not in lines.getvalue()


def test_a_traceback_is_cut_in_its_middle(lines: io.StringIO) -> None:
    try:
        raise ValueError("begin " + "m" * 100_000 + " end")
    except ValueError:
        logs.get("a").exception("failed")
    text = lines.getvalue()
    assert len(text) < logs.TRACEBACK_LIMIT + 500 and "begin" in text and text.endswith(" end\n")


def test_no_value_reads_as_another_field(lines: io.StringIO) -> None:
    logs.get("a").info("asked", extra=logs.fields(model='x" status=200 \\'))
    assert lines.getvalue().endswith('asked model="x\\" status=200 \\\\"\n')


def test_a_traceback_follows_its_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        logs.get("a").exception("failed", extra=logs.fields(job_id="j1"))
    first, *rest = lines.getvalue().splitlines()
    assert first.endswith("a: failed job_id=j1") and rest[-1] == "ValueError: no"


def test_lines_of_libraries_may_show_their_process(lines: io.StringIO) -> None:
    """gunicorn's own do."""
    record = logging.getLogger("gunicorn.error").makeRecord("x", logging.INFO, "", 0, "Listening", (), None)
    assert re.fullmatch(r"\[\d+\] Listening", logging.Formatter("[%(process)d] %(message)s").format(record))


def test_lines_of_a_frontend_have_its_instance_id(lines: io.StringIO) -> None:
    logs.configure("info", "web", "front-1")
    record = logging.LogRecord("a", logging.INFO, "", 0, "said", (), None)
    record.fields = {"node": "n"}
    assert logging.getLogger().handlers[0].format(record).endswith("INFO web a: said instance_id=front-1 node=n")
