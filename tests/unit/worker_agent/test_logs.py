"""What processes wrote: which file is whose, the last lines, and what came since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localai.jobs.operation_rules import process_key
from worker_agent.log_routes import LogRoutes
from worker_agent.processes.log_reader import MOST_LINES, READ_BYTES, Page, models_with_logs, read_logs
from worker_agent.processes.logs import open_output, process_of, stem_of

pytestmark = pytest.mark.unit


def write(folder: Path, model: str, text: str, *, slot: int = 0, stream: str = "err") -> Path:
    files = open_output(folder, process_key(model, slot))
    path = files.err if stream == "err" else files.out
    path.write_text(text)
    return path


def read(folder: Path, model: str, *, lines: int = 100, after: str = "") -> Page:
    page = read_logs(folder, model, lines=lines, after=after)
    assert page is not None
    return page


def lines_of(page: Page) -> list[str]:
    return [line for part in page.parts for line in part.lines]


@pytest.mark.parametrize("model", ["plain", "org/name", "org_name", "a#1", "with space", ".dot", "é", "..", "50%"])
def test_a_file_name_says_whose_it_is(model: str) -> None:
    stem = stem_of(process_key(model, 3))
    assert "/" not in stem and process_of(stem) == (model, 3)


def test_names_that_look_alike_share_no_file() -> None:
    names = ["org/name", "org_name", "org%2Fname", "org name"]
    assert len({stem_of(process_key(name, 0)) for name in names}) == len(names)


def test_a_long_name_fits_into_a_file_name_and_stays_its_own() -> None:
    one, two = (stem_of(process_key("m" * 400 + end, 0)) for end in "ab")
    assert one != two and len(one) <= 200 and process_of(one) is None


def test_the_output_of_an_install_belongs_to_no_model(tmp_path: Path) -> None:
    open_output(tmp_path, "install-llama-cpp", merged=True)
    write(tmp_path, "org/name", "x\n")
    assert models_with_logs(tmp_path) == ["org/name"]


def test_the_last_lines_of_every_process_and_stream_are_read(tmp_path: Path) -> None:
    write(tmp_path, "m", "1\n2\n3\n")
    write(tmp_path, "m", "out\n", slot=1, stream="out")
    write(tmp_path, "other", "not this\n")
    page = read(tmp_path, "m", lines=2)
    assert [(part.slot, part.stream, part.lines) for part in page.parts] == [
        (0, "stderr", ("2", "3")),
        (1, "stdout", ("out",)),
    ]
    assert read_logs(tmp_path, "nobody", lines=1) is None


def test_what_came_since_is_read_once_and_in_whole_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "m", "old\n")
    page = read(tmp_path, "m")
    with path.open("a") as file:
        file.write("new\nhalf a li")
    page = read(tmp_path, "m", after=page.cursor)
    assert lines_of(page) == ["new"]
    assert lines_of(read(tmp_path, "m", after=page.cursor)) == []
    with path.open("a") as file:
        file.write("ne\n")
    assert lines_of(read(tmp_path, "m", after=page.cursor)) == ["half a line"]


def test_a_new_process_is_read_from_its_beginning(tmp_path: Path) -> None:
    write(tmp_path, "m", "a long line of the first process\n")
    page = read(tmp_path, "m")
    write(tmp_path, "m", "second\n")
    assert lines_of(read(tmp_path, "m", after=page.cursor)) == ["second"]


def test_a_file_that_was_cut_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, "m", "1\n2\n3\n")
    page = read(tmp_path, "m")
    path.write_text("3\n")
    assert lines_of(read(tmp_path, "m", after=page.cursor)) == ["3"]


def test_one_answer_is_bounded_and_a_line_without_end_still_moves_on(tmp_path: Path) -> None:
    path = write(tmp_path, "m", "x\n" * (MOST_LINES * 2))
    page = read(tmp_path, "m", lines=MOST_LINES * 2)
    assert len(lines_of(page)) == MOST_LINES
    with path.open("a") as file:
        file.write("y" * (READ_BYTES + 10))
    page = read(tmp_path, "m", after=page.cursor)
    assert lines_of(page) == ["y" * READ_BYTES]
    assert lines_of(read(tmp_path, "m", after=page.cursor)) == []


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    write(tmp_path, "m", "").write_bytes(b"\xff\n")
    assert lines_of(read(tmp_path, "m")) == ["\ufffd"]


def ask(folder: Path, path: str, *, token: str = "the-token", shown: str = "Bearer the-token", **more: str) -> Any:
    environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": shown, **more}
    status, kind, body = LogRoutes(folder, token)(environ)
    assert kind == "application/json"
    return int(status.split()[0]), json.loads(body)


def test_the_routes_answer_with_models_and_lines(tmp_path: Path) -> None:
    write(tmp_path, "org/é", "1\n2\n")
    assert ask(tmp_path, "/v1/backend-logs") == (200, ["org/é"])
    path = "/v1/backend-logs/org/é".encode().decode("latin-1")
    status, body = ask(tmp_path, path, QUERY_STRING="lines=1")
    assert (status, body["model"], body["logs"]) == (200, "org/é", [{"slot": 0, "stream": "stderr", "lines": ["2"]}])
    assert ask(tmp_path, path, QUERY_STRING=f"after={body['cursor']}")[1]["logs"] == []


@pytest.mark.parametrize("shown", ["", "Bearer wrong", "Bearer ", "the-token-and-more", "Bearer \xff"])
def test_without_the_registration_token_nothing_is_shown(tmp_path: Path, shown: str) -> None:
    write(tmp_path, "m", "secret\n")
    for path in ("/v1/backend-logs", "/v1/backend-logs/m", "/v1/files/x"):
        assert ask(tmp_path, path, shown=shown)[0] == 401
    assert ask(tmp_path, "/v1/backend-logs", token="", shown=shown)[0] == 200


def test_the_hash_of_the_credential_opens_the_logs_once_there_is_one(tmp_path: Path) -> None:
    write(tmp_path, "m", "text\n")
    routes = LogRoutes(tmp_path, "the-token")

    def status(shown: str) -> str:
        asked = {"PATH_INFO": "/v1/backend-logs", "REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": f"Bearer {shown}"}
        return routes(asked)[0]

    assert [status("the-key"), status("")] == ["401 Unauthorized"] * 2
    routes.accept("the-key")
    assert [status(shown) for shown in ("the-key", "the-token", "", "x")] == ["200 OK"] * 2 + ["401 Unauthorized"] * 2


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        ("/v1/backend-logs/nobody", {}, 404),
        ("/v1/backend-logs/../m", {}, 404),
        ("/v1/backend-logsx", {}, 404),
        ("/v1/files/m", {}, 404),
        ("/v1/backend-logs/m", {"REQUEST_METHOD": "POST"}, 405),
        ("/v1/backend-logs/m", {"QUERY_STRING": "lines=-1"}, 400),
        ("/v1/backend-logs/m", {"QUERY_STRING": "lines=many"}, 400),
        ("/v1/backend-logs/m", {"QUERY_STRING": "after=garbage"}, 400),
    ],
)
def test_what_cannot_be_answered_says_why(tmp_path: Path, path: str, more: dict[str, str], status: int) -> None:
    write(tmp_path, "m", "x\n")
    found, body = ask(tmp_path, path, **more)
    assert found == status and body["error"]
