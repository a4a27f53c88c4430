"""Names, logs, errors and answers of a server never drive the terminal of the person who reads them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from localai.cli import client, main, output
from localai.cli.line import Line
from localai.cli.say import say
from localai.settings import Settings
from tests.unit.cli.server import Server

pytestmark = pytest.mark.unit

#: Clears the screen, renames the window, answers in place of the keyboard, and turns the reading order around.
HOSTILE = "x\x1b[2J\x1b]0;owned\x07\x9b31m\x08\r\u202egnp.exe"
NODE = {"id": "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11", "name": HOSTILE, "address": HOSTILE, "status": HOSTILE}
JOB: dict[str, Any] = {
    "id": "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11",
    "kind": "model.load",
    "subject": HOSTILE,
    "state": "failed",
    "error": HOSTILE,
    "node_name": HOSTILE,
    "finished_at": "2026-01-01T00:00:00Z",
    "error_detail": {"stderr_tail": HOSTILE},
    "children": [{"id": "1", "kind": "model.install", "subject": HOSTILE, "state": HOSTILE}],
    "events": [{"at": "2026-01-01T00:00:00Z", "event": HOSTILE, "actor": HOSTILE, "detail": {HOSTILE: HOSTILE}}],
}
PACKAGE = Path(output.__file__).parent


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    for _, spec in Settings.specs():
        for name in spec.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCALAI_STATE_DIR", str(tmp_path))
    server = Server()
    made: list[client.Client] = []

    def connect(settings: Settings) -> client.Client:
        found = client.Client("http://server:8080", "key")
        found._http = httpx2.Client(base_url="http://server:8080", transport=httpx2.MockTransport(server.handle))
        made.append(found)
        return found

    for module in ("models", "jobs", "nodes", "backend_logs", "retry", "chat"):
        monkeypatch.setattr(f"localai.cli.{module}.connect", connect)
    yield server
    for one in made:
        one._http.close()


Shown = Callable[..., str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What a command writes on a terminal, on both streams."""

    def run(*arguments: str, terminal: bool = True) -> str:
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
        with pytest.raises(SystemExit):
            main.main(arguments)
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run


def is_harmless(text: str) -> bool:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # our own colours
    return all(sign.isprintable() or sign in "\n\t" for sign in plain)


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize(
    ("arguments", "path", "answer"),
    [
        (("nodes", "list"), "/api/nodes", [NODE]),
        (("nodes", "approve", NODE["id"]), f"/api/nodes/{NODE['id']}/approve", {"message": HOSTILE}),
        (("jobs", "list"), "/api/jobs", {"jobs": [JOB], "next": HOSTILE}),
        (("jobs", "show", JOB["id"]), f"/api/jobs/{JOB['id']}", JOB),
        (("jobs", "watch", JOB["id"]), f"/api/jobs/{JOB['id']}", JOB),
        (("jobs", "cancel", JOB["id"]), f"/api/jobs/{JOB['id']}/cancel", {"kind": HOSTILE, "subject": HOSTILE}),
        (("models", "list"), "/api/models", {"models": [{"name": HOSTILE, "description": HOSTILE, "state": HOSTILE}]}),
        (("models", "unload", "m"), "/backend/shutdown", {"message": HOSTILE, "job_id": HOSTILE}),
        (("jobs", "retry", "m"), "/api/models/m/load-retry", {"message": HOSTILE, "job_id": HOSTILE}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_no_command_writes_a_control_character_of_the_server(
    *, server: Server, shown: Shown, arguments: tuple[str, ...], path: str, answer: Any, form: str
) -> None:
    server.on("/api/nodes", (200, [NODE]))
    server.on(path, (200, answer))
    text = shown(*arguments, "-o", form)
    assert is_harmless(text), repr(text)
    assert "gnp.exe" in text, "the answer is shown"


def test_an_error_of_the_server_is_escaped(server: Server, shown: Shown) -> None:
    server.on("/api/nodes", (409, {"error": {"message": HOSTILE}}))
    text = shown("nodes", "list")
    assert is_harmless(text) and "x\\x1b[2J" in text and "\\u202egnp.exe" in text


def test_log_lines_are_escaped_on_a_terminal_and_exact_in_a_file(server: Server, shown: Shown) -> None:
    server.on("/api/nodes", (200, [{"id": "1", "name": "n"}]))
    server.on("/api/nodes/1/backend-logs/m", (200, {"logs": [{"slot": 0, "lines": [f"a\tb{HOSTILE}"]}]}))
    text = shown("logs", "m", "--node", "n")
    assert is_harmless(text) and "a\tbx\\x1b[2J" in text
    assert shown("logs", "m", "--node", "n", terminal=False) == f"a\tb{HOSTILE}\n"


def test_a_chat_answer_keeps_its_lines_and_is_escaped_on_a_terminal(server: Server, shown: Shown) -> None:
    answer = 'data: {"choices": [{"delta": {"content": "one\\n\\ttwo\\u001b[2J\\ud800"}}]}\n\ndata: [DONE]\n\n'
    server.on("/v1/chat/completions", (200, answer.encode()))
    assert shown("chat", "m", "hello") == "one\n\ttwo\\x1b[2J\\ud800\n"
    assert shown("chat", "m", "hello", terminal=False) == "one\n\ttwo\x1b[2J\N{REPLACEMENT CHARACTER}\n"


def test_a_further_line_of_a_value_does_not_look_like_a_field() -> None:
    text = output.details({"error": "first\nstate  healthy", "state": "failed"}, ["error", "state"])
    assert text == "error  first\n       state  healthy\nstate  failed"


def test_progress_lines_and_messages_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    Line(stream, changing=False).show("key", f"{HOSTILE}\nnext")
    assert is_harmless(stream.getvalue()) and stream.getvalue().count("\n") == 1
    say(HOSTILE)
    assert is_harmless(capsys.readouterr().err)


def test_commands_write_only_through_the_functions_that_escape() -> None:
    writers = re.compile(r"click\.(echo|secho)\(|sys\.stdout\.write\(|sys\.stderr\.write\(|\bprint\(")
    found = {path.name for path in PACKAGE.glob("*.py") if writers.search(path.read_text(encoding="utf-8"))}
    assert found == {"output.py", "say.py"}, "use echo, echo_coloured, write_foreign, print_json or say"
