"""What the commands that talk to a server print, wait for and answer to the shell."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import httpx2
import pytest

from localai.cli import client, follow, line, main, output
from localai.cli.exit_codes import MEANINGS, ExitCode, of_status
from localai.cli.job_progress import describe, key_of
from localai.settings import Settings
from tests.unit.cli.server import Server

pytestmark = pytest.mark.unit

JOB = "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11"
LOAD: dict[str, Any] = {
    "id": JOB,
    "kind": "model.load",
    "subject": "m",
    "state": "running",
    "phase": "staging",
    "node_name": "gpu-1",
    "bytes_done": 256,
    "bytes_total": 1024,
    "files_total": 1,
    "progress_rate": 128.0,
    "created_at": "2026-01-01T00:00:00Z",
    "finished_at": None,
    "children": [],
}
DONE = {**LOAD, "state": "succeeded", "finished_at": "2026-01-01T00:00:12.500000Z"}
FAILED = {**LOAD, "state": "failed", "error": "the disk is full", "finished_at": "2026-01-01T00:00:01Z"}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for _, spec in Settings.specs():
        for name in spec.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCALAI_STATE_DIR", str(tmp_path))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Answers in place of the network; waits take no time."""
    server = Server()
    made: list[client.Client] = []

    def connect(settings: Settings) -> client.Client:
        found = client.Client("http://server:8080", "key")
        found._http = httpx2.Client(base_url="http://server:8080", transport=httpx2.MockTransport(server.handle))
        made.append(found)
        return found

    for module in ("models", "jobs", "nodes", "backend_logs", "retry"):
        monkeypatch.setattr(f"localai.cli.{module}.connect", connect)
    monkeypatch.setattr("time.sleep", lambda _: None)
    yield server
    for one in made:
        one._http.close()


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main.main(arguments)
        shown = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, shown.out, shown.err

    return run


# Exit codes


def test_every_exit_code_is_explained() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (401, 6), (403, 6), (404, 4), (409, 1), (413, 2), (500, 1), (502, 3), (503, 1), (504, 3)],
)
def test_a_refusal_has_its_exit_code(server: Server, run: Run, status: int, code: int) -> None:
    assert of_status(status) == code
    server.on("/api/models", (status, {"error": {"message": "no"}}))
    found, out, err = run("models", "list")
    assert (found, out) == (code, "") and err.startswith("localai: no")


def test_a_server_that_does_not_answer_is_three_and_one_line(server: Server, run: Run) -> None:
    server.on("/api/models", (0, httpx2.ConnectError))
    code, out, err = run("models", "list")
    assert (code, out, len(err.splitlines())) == (3, "", 1)
    assert "no answer from http://server:8080" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("models", "load"),
        ("models", "load", "m", "--timeout", "soon"),
        ("models", "load", "m", "-o", "yaml"),
        ("jobs", "watch"),
        ("nodes", "show"),
        ("logs",),
        ("logs", "m", "-n", "-1"),
        ("logs", "m", "-n", "many"),
        ("nonsense",),
    ],
)
def test_a_command_line_that_cannot_be_used_is_two_and_asks_nobody(
    server: Server, run: Run, arguments: tuple[str, ...]
) -> None:
    code, out, _ = run(*arguments)
    assert (code, out, server.asked) == (2, "", [])


@pytest.mark.parametrize(
    "variables",
    [
        {"LOCALAI_API_KEY": "one\nX-Injected: two"},
        {"LOCALAI_API_KEY": "schlüssel"},
        {"LOCALAI_URL": "http://[::1"},
        {"LOCALAI_URL": "ftp://server"},
        {"LOCALAI_URL": "server:8080"},
        {"LOCALAI_URL": "http://"},
        {"LOCALAI_URL": "nonsense"},
        {"LOCALAI_URL": "http://server:port"},
    ],
)
def test_a_key_or_url_that_cannot_be_used_is_two_and_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, out, err = run("models", "list")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "Injected" not in err and "schlüssel" not in err


# Models


def test_models_are_listed_with_their_state_and_where_they_are(server: Server, run: Run) -> None:
    models = [
        {"name": "a", "state": "loaded", "backend": "fault", "replicas": [{"node": "one"}, {"node": "two"}]},
        {"name": "b", "state": "staging", "backend": "fault", "replicas": [], "loading": {"node": "one"}},
        {"name": "c", "state": "unloaded", "backend": "fault", "disabled": True},
    ]
    server.on("/api/models", {"models": models, "problems": [{"file": "d.yaml", "error": "not YAML"}]})
    code, out, err = run("models", "list")
    assert code == 0
    assert [text.split() for text in out.splitlines()] == [
        ["NAME", "STATE", "BACKEND", "NODES", "DESCRIPTION"],
        ["a", "loaded", "fault", "one,", "two", "-"],
        ["b", "staging", "fault", "one", "-"],
        ["c", "disabled", "fault", "-", "-"],
    ]
    assert err == "d.yaml: not YAML\n"
    assert json.loads(run("models", "list", "-o", "json")[1])["models"] == models


def test_a_load_names_its_job_and_ends_at_once(server: Server, run: Run) -> None:
    server.on("/backend/load", (202, {"loaded": [], "message": "model m is waiting for a node", "job_id": JOB}))
    assert run("models", "load", "m") == (0, f"model m is waiting for a node\njob {JOB}\n", "")
    assert server.asked == [("POST", "/backend/load", {"model": "m"})]


def test_a_load_that_is_waited_for_shows_each_phase_and_how_it_ended(server: Server, run: Run) -> None:
    server.on("/backend/load", (202, {"loaded": [], "message": "", "job_id": JOB}))
    loading = {**LOAD, "phase": "loading", "bytes_done": 1024}
    server.on(f"/api/jobs/{JOB}", LOAD, {**LOAD, "bytes_done": 512}, loading, DONE)
    code, out, err = run("models", "load", "m", "--wait")
    assert (code, out) == (0, "model.load m succeeded on gpu-1 in 12.5 s\n")
    assert err.splitlines() == ["m staging on gpu-1 25 % of 1.0 KiB", "m loading on gpu-1"]


def test_a_model_that_is_loaded_is_not_waited_for(server: Server, run: Run) -> None:
    server.on("/backend/load", {"loaded": ["m"], "message": "model m is loaded", "job_id": JOB})
    assert run("models", "load", "m", "--wait") == (0, "model m is loaded\n", "")


def test_a_load_that_fails_is_one_with_its_cause(server: Server, run: Run) -> None:
    server.on("/backend/load", (202, {"loaded": [], "message": "", "job_id": JOB}))
    server.on(f"/api/jobs/{JOB}", FAILED)
    code, out, err = run("models", "load", "m", "--wait")
    assert (code, out) == (1, "")
    assert err == f"localai: model.load m failed: the disk is full; `localai jobs show {JOB}` tells more\n"
    code, out, _ = run("models", "load", "m", "--wait", "-o", "json")
    assert (code, json.loads(out)["state"]) == (1, "failed")


def test_a_held_model_says_why(server: Server, run: Run) -> None:
    refusal = {"error": {"message": "the load of model m failed: no room", "code": "model_load_failed"}}
    server.on("/backend/load", (503, refusal))
    assert run("models", "load", "m", "--wait") == (1, "", "localai: the load of model m failed: no room\n")
    server.on("/backend/load", (503, {**refusal, "loading": {"retry_after": 9}}))
    assert "holds the model for 9 s more" in run("models", "load", "m")[2]


def test_an_unload_is_waited_for_and_says_what_it_waits_for(server: Server, run: Run) -> None:
    unload = {**LOAD, "kind": "model.unload", "node_name": None, "bytes_total": 0, "phase": "pending"}
    server.on("/backend/shutdown", (202, {"message": "model m is being unloaded", "job_id": JOB}))
    server.on(
        f"/api/jobs/{JOB}",
        {**unload, "message": "1 request in flight on gpu-1"},
        {**unload, "message": "being stopped on gpu-1"},
        {**unload, "state": "succeeded", "finished_at": "2026-01-01T00:00:02Z"},
    )
    code, out, err = run("models", "unload", "m", "--wait")
    assert (code, out) == (0, "model.unload m succeeded in 2.0 s\n")
    assert err.splitlines() == ["m 1 request in flight on gpu-1", "m being stopped on gpu-1"]


def test_nothing_to_unload_is_done(server: Server, run: Run) -> None:
    server.on("/backend/shutdown", {"message": "model m is not loaded", "job_id": None})
    assert run("models", "unload", "m", "--wait") == (0, "model m is not loaded\n", "")
    code, out, _ = run("models", "unload", "m", "-o", "json")
    assert (code, json.loads(out)["job_id"]) == (0, None)


# Watching


def test_a_watched_job_that_takes_too_long_is_five_and_goes_on(server: Server, run: Run) -> None:
    server.on(f"/api/jobs/{JOB}", LOAD)
    code, out, err = run("jobs", "watch", JOB, "--timeout", "1ms")
    assert (code, out) == (5, "")
    assert "the job goes on" in err and f"localai jobs watch {JOB}" in err


def test_a_server_that_is_started_again_meanwhile_is_asked_again(server: Server, run: Run) -> None:
    away = (0, httpx2.ConnectError)
    server.on(f"/api/jobs/{JOB}", LOAD, away, (503, {"error": {"message": "starting"}}), DONE)
    code, _, err = run("jobs", "watch", JOB)
    assert code == 0
    assert "the server does not answer; asking again" in err


def test_a_server_that_stays_away_is_not_asked_for_ever() -> None:
    server, now = Server(), [0.0]
    server.on(f"/api/jobs/{JOB}", (0, httpx2.ConnectError))
    asking = client.Client("http://server", "key")
    asking._http = httpx2.Client(base_url="http://server", transport=httpx2.MockTransport(server.handle))

    def pause(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(client.ServerError) as raised:
        follow.follow(asking, JOB, None, pause=pause, clock=lambda: now[0])
    assert raised.value.code is ExitCode.NOT_REACHABLE
    assert 60 < now[0] < 62
    asking._http.close()


@pytest.mark.parametrize("job_id", ["not-an-id", "../models", "a/b"])
def test_a_job_that_is_not_there_is_four(server: Server, run: Run, job_id: str) -> None:
    code, out, _ = run("jobs", "watch", job_id)
    assert (code, out) == (4, "")
    assert all(path.startswith("/api/jobs/") for _, path, _ in server.asked)


def test_a_watched_job_is_printed_as_json(server: Server, run: Run) -> None:
    server.on(f"/api/jobs/{JOB}", LOAD, DONE)
    code, out, _ = run("jobs", "watch", JOB, "-o", "json")
    assert (code, json.loads(out)) == (0, DONE)


# The line


def test_a_bar_has_bytes_rate_and_the_rest() -> None:
    text = "m staging on gpu-1 [####------------] 25 % of 1.0 KiB, 128 B/s, 6 s left"
    assert describe(LOAD, bar=True) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "queued", "node_name": None, "bytes_total": 0}, "m queued"),
        ({"phase": "loading"}, "m loading on gpu-1"),
        ({"kind": "replica.cleanup", "bytes_total": 0}, "m being stopped on gpu-1"),
        ({"kind": "model.unload", "bytes_total": 0, "node_name": None}, "m being unloaded"),
        ({"kind": "model.install", "phase": "pending", "node_name": None}, "m fetching 25 % of 1.0 KiB"),
        ({"bytes_done": 2048}, "m staging on gpu-1 100 % of 1.0 KiB"),
        ({"files_total": 3, "file_index": 2}, "m staging on gpu-1 25 % of 1.0 KiB, file 2 of 3"),
        ({"bytes_done": None}, "m staging on gpu-1"),
        ({"progress_rate": None, "bytes_done": 0}, "m staging on gpu-1 0 % of 1.0 KiB"),
    ],
)
def test_a_line_says_what_is_known(changes: dict[str, Any], text: str) -> None:
    assert describe({**LOAD, **changes}, bar=False) == text


def test_the_fetch_of_a_load_is_shown_as_the_loads_own() -> None:
    child = {
        "id": "c",
        "kind": "model.install",
        "state": "running",
        "bytes_done": 1,
        "bytes_total": 2,
        "phase": "pending",
    }
    job = {**LOAD, "phase": "pending", "node_name": None, "bytes_total": 0, "children": [child]}
    assert describe(job, bar=False) == "m fetching 50 % of 2 B"
    assert key_of(job) != key_of({**job, "children": []})


def test_progress_alone_is_no_news_where_lines_are_written() -> None:
    assert key_of(LOAD) == key_of({**LOAD, "bytes_done": 1000, "progress_rate": 1.0})


def test_a_line_longer_than_the_terminal_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    line.Line(stream, changing=True).show("k", "x" * 200)
    assert len(stream.getvalue()) <= 30


# Nodes


def test_a_node_is_shown_by_name_or_id_with_its_replicas(server: Server, run: Run) -> None:
    node = {
        "id": "n1",
        "name": "gpu-1",
        "status": "healthy",
        "total_ram": 2**34,
        "available_ram": 2**33,
        "labels": {"a": "b"},
    }
    replica = {"model_name": "m", "replica_index": 0, "state": "loaded", "backend_type": "fault"}
    server.on("/api/nodes", [node])
    server.on("/api/nodes/n1/models", [replica])
    for name in ("gpu-1", "n1"):
        code, out, _ = run("nodes", "show", name)
        assert code == 0
        assert "8.0 GiB free of 16.0 GiB" in out and "a=b" in out
        assert out.splitlines()[-1].split()[:4] == ["m", "0", "loaded", "fault"]
    assert json.loads(run("nodes", "show", "gpu-1", "-o", "json")[1]) == {**node, "models": [replica]}
    code, _, err = run("nodes", "show", "gpu-2")
    assert code == 4 and "registered: gpu-1" in err


def test_an_invitation_shows_the_token_once_and_what_to_do_with_it(server: Server, run: Run) -> None:
    answer = {"name": "gpu-7", "token": "join-abc", "expires_at": "2030-01-02T00:00:00Z"}
    server.on("/api/node-invitations", answer, answer)
    code, out, _ = run("nodes", "invite", "gpu-7", "--expires", "30m")
    assert code == 0
    assert "LOCALAI_REGISTRATION_TOKEN=join-abc" in out and "localai worker --node-name gpu-7" in out
    assert json.loads(run("nodes", "invite", "gpu-7", "-o", "json")[1]) == answer
    code, _, err = run("nodes", "invite", "gpu-7", "--expires", "soon")
    assert code == 2 and "'soon'" in err


def test_a_refused_registration_and_a_lost_approval_are_shown(server: Server, run: Run) -> None:
    refused = {"at": "2026-01-01T00:00:00.5Z", "address": "b:1", "http_address": "b:2", "reason": "taken by a:1"}
    node = {"id": "n1", "name": "gpu-1", "pending_reason": "another secret", "refused_registration": refused}
    server.on("/api/nodes", [node])
    server.on("/api/nodes/n1/models", [])
    _, out, _ = run("nodes", "show", "gpu-1")
    assert "pending again: another secret; `localai nodes approve gpu-1`" in out
    assert "taken by a:1" in out


def test_a_node_that_takes_no_orders_says_since_when_in_this_machines_zone(server: Server, run: Run) -> None:
    since = "2026-01-01T00:00:00.500000Z"
    server.on("/api/nodes", [{"id": "n1", "name": "gpu-1", "silent_since": since}])
    server.on("/api/nodes/n1/models", [])
    assert f"takes no orders since {output.moment(since)};" in run("nodes", "show", "gpu-1")[1]


def test_a_node_named_like_the_id_of_another_is_not_taken_for_it(server: Server, run: Run) -> None:
    server.on("/api/nodes", [{"id": "n2", "name": "n1", "status": "pending"}, {"id": "n1", "name": "real"}])
    server.on("/api/nodes/n1/models", [])
    assert "real" in run("nodes", "show", "n1")[1]


# Logs


def page(*lines: str, cursor: str = "c1", slot: int = 0) -> dict[str, Any]:
    return {"model": "m", "logs": [{"slot": slot, "stream": "stderr", "lines": list(lines)}], "cursor": cursor}


def loads(*nodes: str) -> dict[str, Any]:
    return {"jobs": [{"node_id": f"id-{node}", "node_name": node} for node in nodes], "next": None}


def test_logs_are_read_from_the_nodes_that_loaded_the_model(server: Server, run: Run) -> None:
    server.on("/api/jobs", loads("one", "one"))
    server.on("/api/nodes/id-one/backend-logs/m", page("first", "second"))
    assert run("logs", "m") == (0, "first\nsecond\n", "")
    body = json.loads(run("logs", "m", "-o", "json")[1])
    assert body == {"model": "m", "nodes": [{"node": "one", "logs": page("first", "second")["logs"]}]}


def test_lines_of_several_nodes_say_whose_they_are_and_a_node_that_fails_is_named(server: Server, run: Run) -> None:
    server.on("/api/jobs", loads("one", "two", "three", "four"))
    server.on("/api/nodes/id-one/backend-logs/m", page("a"))
    server.on("/api/nodes/id-two/backend-logs/m", page("b"))
    server.on("/api/nodes/id-four/backend-logs/m", (502, {"error": {"message": "four is silent"}}))
    assert run("logs", "m") == (0, "[one#0] a\n[two#0] b\n", "localai: four is silent\n")


def test_a_model_nobody_loaded_and_a_worker_that_does_not_answer_have_their_codes(server: Server, run: Run) -> None:
    server.on("/api/jobs", loads())
    code, out, err = run("logs", "m")
    assert (code, out) == (4, "") and "--node NAME" in err
    server.on("/api/jobs", loads("one"))
    server.on("/api/nodes/id-one/backend-logs/m", (502, {"error": {"message": "one is silent"}}))
    assert run("logs", "m") == (3, "", "localai: one is silent\n")


def test_followed_logs_go_on_where_they_ended_until_interrupted(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def answer(query: Any) -> tuple[int, Any]:
        asked.append(query.get("after"))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return 200, page(f"line {len(asked)}", cursor=f"c{len(asked)}")

    server.on("/api/jobs", loads("one"))
    server.answers["/api/nodes/id-one/backend-logs/m"] = answer
    code, out, _ = run("logs", "m", "-f")
    assert (code, out) == (130, "[one#0] line 1\n[one#0] line 2\n")
    assert asked == [None, "c1", "c2"]


def test_one_node_is_asked_by_name_also_without_a_load(server: Server, run: Run) -> None:
    server.on("/api/nodes", [{"id": "id-one", "name": "one"}])
    server.on("/api/nodes/id-one/backend-logs/m", page("x"))
    assert run("logs", "m", "--node", "one")[:2] == (0, "x\n")
    assert run("logs", "m", "--node", "two")[0] == 4


# Colours


def test_states_are_coloured_and_columns_stay_aligned() -> None:
    rows = [{"s": "succeeded", "n": 1}, {"s": "odd", "n": 2}]
    text = output.table(rows, {"STATE": lambda row: row["s"], "N": lambda row: row["n"]}, {"STATE": output.state_style})
    assert text.splitlines()[1] == "\x1b[32msucceeded\x1b[0m  1"
    assert [click.unstyle(found) for found in text.splitlines()] == ["STATE      N", "succeeded  1", "odd        2"]


@pytest.mark.parametrize("value", ["1", "yes", "anything"])
def test_no_color_takes_the_colours_away_even_on_a_terminal(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    server.on("/api/models", {"models": [{"name": "a", "state": "loaded"}]})
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda stream, color: not (color is None or color))
    assert "\x1b[" in run("models", "list")[1]
    monkeypatch.setenv("NO_COLOR", value)
    assert "\x1b[" not in run("models", "list")[1]


# Cancelling


def test_a_cancel_says_what_became_of_it(server: Server, run: Run) -> None:
    stopped = {"job_id": JOB, "kind": "model.load", "subject": "m", "state": "stopped"}
    server.on(f"/api/jobs/{JOB}/cancel", stopped)
    assert run("jobs", "cancel", JOB) == (0, "model.load m is stopped\n", "")
    assert server.asked == [("POST", f"/api/jobs/{JOB}/cancel", None)]
    assert json.loads(run("jobs", "cancel", JOB, "-o", "json")[1]) == stopped


STOPPING = (
    "model.load m is being stopped; usually within seconds, at the latest in 150 s if its worker does not answer\n"
)


def test_a_cancel_that_is_waited_for_ends_with_the_word_of_the_worker(server: Server, run: Run) -> None:
    stopping = {"job_id": JOB, "kind": "model.load", "subject": "m", "state": "stopping", "retry_after": 150}
    server.on(f"/api/jobs/{JOB}/cancel", (202, stopping))
    code, out, _ = run("jobs", "cancel", JOB)
    assert (code, out) == (0, STOPPING)
    doomed = {**LOAD, "state": "cancelled", "finished_at": "2026-01-01T00:00:01Z", "stop_state": "pending"}
    server.on(f"/api/jobs/{JOB}/cancel", (202, stopping), {**stopping, "state": "stopped"})
    server.on(f"/api/jobs/{JOB}", doomed, {**doomed, "stop_state": "confirmed"})
    code, out, err = run("jobs", "cancel", JOB, "--wait")
    assert (code, out, err) == (0, "model.load m is stopped\n", "m being stopped on gpu-1\n")
    server.on(f"/api/jobs/{JOB}/cancel", (202, stopping))
    server.on(f"/api/jobs/{JOB}", doomed)
    assert run("jobs", "cancel", JOB, "--wait", "--timeout", "1ms")[0] == ExitCode.TIMED_OUT


@pytest.mark.parametrize(
    ("status", "code"), [(404, ExitCode.NOT_FOUND), (409, ExitCode.FAILED), (503, ExitCode.FAILED)]
)
def test_what_cannot_be_cancelled_says_why(server: Server, run: Run, status: int, code: ExitCode) -> None:
    server.on(f"/api/jobs/{JOB}/cancel", (status, {"error": {"message": "it ended"}}))
    assert run("jobs", "cancel", JOB) == (code, "", "localai: it ended\n")


# Showing one job


def test_a_job_is_shown_for_people(server: Server, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    detail = {
        "by": "Fail",
        "cause": "disk_full",
        "stop_state": "confirmed",
        "node_incarnation": None,
        "stderr_tail": "x",
    }
    event = {"at": "2026-01-01T00:00:01Z", "event": "operation_ended", "state": "running", "phase": "staging"}
    job = {
        **FAILED,
        "error_detail": {"stderr_tail": "first line\nsecond line\n"},
        "events": [{**event, "actor": f"node:{JOB}", "detail": detail}],
        "children": [{"id": "c", "kind": "replica.cleanup", "subject": JOB, "about": "m#0 (process 5b2f8a58)"}],
    }
    server.on(f"/api/jobs/{JOB}", job)
    code, out, _ = run("jobs", "show", JOB)
    assert code == 0 and "{" not in out and "Z" not in out.replace("ZB", "")
    assert "created at   2026-01-01 00:00:00\n" in out
    assert "\n  first line\n  second line\n" in out
    assert "m#0 (process 5b2f8a58)" in out
    assert "\nphase" not in out, "the job has ended"
    assert out.splitlines()[-1].split(None, 2)[2] == (
        "operation ended  running, staging  node:5b2f8a58  cause: disk_full, stop state: confirmed"
    )
    assert json.loads(run("jobs", "show", JOB, "-o", "json")[1]) == job


def test_a_cleanup_is_listed_by_its_model(server: Server, run: Run) -> None:
    cleanup = {**LOAD, "kind": "replica.cleanup", "subject": JOB, "about": "m#0 (process 5b2f8a58)"}
    server.on("/api/jobs", {"jobs": [cleanup], "next": None})
    assert "m#0 (process 5b2f8a58)" in run("jobs", "list")[1]
    assert describe(cleanup, bar=False).startswith("m#0 (process 5b2f8a58) being stopped on gpu-1")


# Draining


NODE = {"id": "n1", "name": "gpu-1", "status": "healthy", "available_ram": 1, "total_ram": 2}
DRAIN = {**LOAD, "kind": "node.drain", "subject": "gpu-1", "node_name": "gpu-1", "bytes_total": 0}


def test_a_node_is_drained_and_resumed_by_name(server: Server, run: Run) -> None:
    server.on("/api/nodes", [NODE])
    server.on("/api/nodes/n1/drain", {"message": "node set to draining", "job_id": JOB})
    server.on("/api/nodes/n1/resume", {"message": "node resumed", "job_id": JOB})
    assert run("nodes", "drain", "gpu-1") == (0, f"Node gpu-1 is draining.\njob {JOB}\n", "")
    assert run("nodes", "resume", "n1") == (0, "Node gpu-1 may get work again.\n", "")
    server.on(
        f"/api/jobs/{JOB}",
        {**DRAIN, "message": "1 request in flight on gpu-1"},
        {**DRAIN, "state": "succeeded", "finished_at": "2026-01-01T00:00:02Z"},
    )
    code, out, err = run("nodes", "drain", "gpu-1", "--wait")
    assert (code, out) == (0, "Node gpu-1 is drained: no model process of this server runs there.\n")
    assert err == "gpu-1 1 request in flight on gpu-1\n"
    assert run("nodes", "drain", "nowhere")[0] == ExitCode.NOT_FOUND


def test_a_node_that_goes_at_once_is_not_waited_for(server: Server, run: Run) -> None:
    server.on("/api/nodes", [NODE])
    server.on("/api/nodes/n1", {"message": "node deregistered", "job_id": JOB})
    assert run("nodes", "remove", "gpu-1", "--wait")[:2] == (0, f"Node gpu-1 is removed.\njob {JOB}\n")
    server.on("/api/nodes/n1", (202, {"message": "node gpu-1 is being removed", "job_id": JOB}))
    assert run("nodes", "remove", "gpu-1", "--force")[1].startswith("Node gpu-1 is being removed.\n")
    assert [method for method, path, _ in server.asked if path == "/api/nodes/n1"] == ["DELETE", "DELETE"]


def test_a_removal_that_is_waited_for_ends_with_the_node_gone(server: Server, run: Run) -> None:
    server.on("/api/nodes", [NODE])
    server.on("/api/nodes/n1", (202, {"message": "node gpu-1 is being removed", "job_id": JOB}))
    server.on(f"/api/jobs/{JOB}", {**DRAIN, "state": "succeeded", "finished_at": "2026-01-01T00:00:02Z"})
    assert run("nodes", "remove", "gpu-1", "--wait")[:2] == (0, "Node gpu-1 is removed.\n")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "drained"),
        ({"drain": {"job_id": JOB, "message": None, "removing": False}}, "draining"),
        ({"model_count": 1}, "draining"),
        ({"status": "offline"}, "offline"),
    ],
)
def test_a_node_is_drained_when_nothing_is_left_there(
    server: Server, run: Run, changes: dict[str, Any], word: str
) -> None:
    server.on("/api/nodes", [{**NODE, "status": "draining", "draining": True, "model_count": 0, **changes}])
    assert run("nodes", "list")[1].splitlines()[1].split()[1] == word


def test_a_node_says_what_its_drain_waits_for(server: Server, run: Run) -> None:
    drain = {"job_id": JOB, "message": "1 request in flight on gpu-1", "removing": True}
    server.on("/api/nodes", [{**NODE, "status": "draining", "draining": True, "drain": drain}])
    server.on("/api/nodes/n1/models", [])
    assert f"being removed, job {JOB}: 1 request in flight" in run("nodes", "show", "gpu-1")[1]


def test_a_model_is_unloaded_on_one_node(server: Server, run: Run) -> None:
    server.on("/api/nodes", [NODE])
    server.on("/api/nodes/n1/models/unload", {"message": "model unloaded", "job_id": None})
    assert run("models", "unload", "org/m", "--node", "gpu-1") == (0, "model unloaded\n", "")
    assert server.asked[-1] == ("POST", "/api/nodes/n1/models/unload", {"model_name": "org/m"})


def test_force_is_sent_where_it_is_asked_for(server: Server, run: Run) -> None:
    server.on("/api/nodes", [NODE])
    server.on("/api/nodes/n1/models/unload", {"message": "model unloaded", "job_id": None})
    server.on("/backend/shutdown", {"message": "model m is not loaded", "job_id": None})
    server.on("/api/nodes/n1/drain", {"message": "node set to draining", "job_id": JOB})
    for arguments, body in (
        (("models", "unload", "m", "--force"), {"model": "m", "force": True}),
        (("models", "unload", "m", "--node", "gpu-1", "--force"), {"model_name": "m", "force": True}),
        (("nodes", "drain", "gpu-1", "--force"), {"force": True}),
    ):
        assert run(*arguments)[0] == 0
        assert server.asked[-1][2] == body


def test_an_unload_is_forced_and_cancelled_by_its_job(server: Server, run: Run) -> None:
    named = {"job_id": JOB, "kind": "model.unload", "subject": "m"}
    server.on(f"/api/jobs/{JOB}/force", (202, {**named, "message": "running requests are cut"}))
    assert run("jobs", "force", JOB) == (0, "model.unload m: running requests are cut\n", "")
    server.on(f"/api/jobs/{JOB}/cancel", {**named, "state": "stopped"})
    said = "model.unload m is cancelled; replicas that it marked stop when their running requests have ended\n"
    assert run("jobs", "cancel", JOB) == (0, said, "")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "failed"),
        ({"loading": {"cancel_requested": True}}, "cancelled"),
        ({"quarantined": [{"node": "gpu-1"}]}, "quarantined"),
        ({"state": "unloaded", "loading": None, "quarantined": [{"node": "gpu-1"}]}, "unloaded"),
    ],
)
def test_a_model_is_listed_with_the_word_of_its_page(
    server: Server, run: Run, changes: dict[str, Any], word: str
) -> None:
    model = {"name": "m", "state": "failed", "loading": {}, "replicas": [], "quarantined": [], **changes}
    server.on("/api/models", {"models": [model], "problems": []})
    assert run("models", "list")[1].splitlines()[1].split()[1] == word


# Trying again

AGAIN = {"message": "model a/b is waiting for a node; lifted on 1 node", "job_id": JOB, "loaded": False, "lifted": 1}
HELD = {"error": {"message": "the load failed", "code": "model_load_failed"}, "loading": {"retry_after": 12}}


def test_a_load_is_tried_again_by_the_id_of_its_job_or_by_its_model(server: Server, run: Run) -> None:
    server.on(f"/api/jobs/{JOB}/retry", (202, AGAIN))
    server.on("/api/models/a/b/load-retry", (202, AGAIN))
    for named in (JOB, "a/b"):
        code, out, _ = run("jobs", "retry", named)
        assert (code, out) == (0, f"{AGAIN['message']}\njob {JOB}\n")
    assert [path for _, path, _ in server.asked] == [f"/api/jobs/{JOB}/retry", "/api/models/a/b/load-retry"]
    server.on(f"/api/jobs/{JOB}", LOAD, DONE)
    code, out, _ = run("jobs", "retry", JOB, "--wait")
    assert code == 0 and out == "model.load m succeeded on gpu-1 in 12.5 s\n"


def test_a_retry_waits_for_the_hold_of_the_failed_load_and_not_for_longer_than_it_was_told(
    server: Server, run: Run
) -> None:
    server.on(f"/api/jobs/{JOB}/retry", (503, HELD), (202, AGAIN))
    code, out, error = run("jobs", "retry", JOB)
    assert code == 0 and "job " in out and "for 12 s more" in error
    server.on(f"/api/jobs/{JOB}/retry", (503, HELD))
    code, _, error = run("jobs", "retry", JOB, "--timeout", "5s")
    assert code == ExitCode.TIMED_OUT and "for 12 s more" in error


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [(409, "attempt_live", ExitCode.FAILED), (404, "not_found", ExitCode.NOT_FOUND), (503, "storage_unavailable", 1)],
)
def test_a_retry_that_is_refused_says_why(server: Server, run: Run, status: int, code: str, exit_code: int) -> None:
    server.on("/api/models/m/load-retry", (status, {"error": {"message": "it says why", "code": code}}))
    ended, _, error = run("jobs", "retry", "m")
    assert ended == exit_code and "it says why" in error
