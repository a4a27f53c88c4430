"""The command line against a server as a user starts it: loads, unloads under a stream, logs, and what the shell sees."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import plain_http
from tests.acceptance.cluster import (
    API_KEY,
    LIMIT_S,
    Cluster,
    Frontend,
    clean_environment,
    free_port,
    localai,
    wait_for,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(shared_cluster: Cluster) -> Iterator[Frontend]:
    """`localai up` with scaled windows and the fault backend."""
    # The hold of a failed load must be met by a fourth command, and each is a process that starts.
    frontend = shared_cluster.up(LOCALAI_REPORT_WINDOW="15s")
    frontend.wait_for_nodes(1)
    yield frontend


def environment(server: Frontend, **variables: str) -> dict[str, str]:
    return {**clean_environment(), "LOCALAI_URL": server.url, "LOCALAI_API_KEY": API_KEY, **variables}


def run(server: Frontend, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*localai(), *arguments],
        env=environment(server, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def begin(server: Frontend, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*localai(), *arguments],
        env=environment(server),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_a_terminal(server: Frontend, *arguments: str, **variables: str) -> str:
    """What a person sees: standard output and error are one terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*localai(), *arguments], env=environment(server, **variables), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = b""
    try:
        while piece := os.read(master, 65536):
            seen += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait(LIMIT_S) == 0, seen
    return seen.decode()


def model(cluster: Cluster, server: Frontend, name: str, *options: str, **keys: Any) -> str:
    cluster.model(name, "fault", *options, **keys)
    server.wait_for_model(name)
    return name


def replicas(server: Frontend, name: str) -> list[dict[str, Any]]:
    (node,) = server.nodes()
    return [row for row in server.get(f"/api/nodes/{node['id']}/models").json() if row["model_name"] == name]


class Stream:
    """A streamed answer read beside the test."""

    def __init__(self, server: Frontend, name: str) -> None:
        self.words: list[str] = []
        self.ended: list[str] = []
        self._server, self._name = server, name
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        wait_for(f"the first word of {name}", lambda: len(self.words) > 1)

    def _read(self) -> None:
        body = {"model": self._name, "messages": [{"role": "user", "content": "hello"}], "stream": True}
        headers = {"Authorization": f"Bearer {API_KEY}"}
        with plain_http.stream(
            "POST", self._server.url + "/v1/chat/completions", json=body, headers=headers, timeout=LIMIT_S
        ) as response:
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    self.ended.append("done")
                elif line.startswith("data: {"):
                    self._take(json.loads(line.removeprefix("data: ")))

    def _take(self, chunk: dict[str, Any]) -> None:
        if "error" in chunk:
            self.ended.append(chunk["error"]["message"])
        elif word := chunk["choices"][0]["delta"].get("content"):
            self.words.append(word)

    def wait(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


# Loading, watching, showing


def test_a_model_is_loaded_listed_and_shown(shared_cluster: Cluster, server: Frontend) -> None:
    name = model(shared_cluster, server, "cli-loaded", "load_delay:1s")
    loaded = run(server, "models", "load", name, "--wait")
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.startswith(f"model.load {name} succeeded on ") and loaded.stdout.endswith(" s\n")
    assert f"{name} loading on " in loaded.stderr and "\r" not in loaded.stderr
    assert run(server, "models", "load", name, "--wait").stdout == f"model {name} is loaded\n"

    listed = json.loads(run(server, "models", "list", "-o", "json").stdout)["models"]
    assert [found["state"] for found in listed if found["name"] == name] == ["loaded"]
    (node,) = server.nodes()
    shown = run(server, "nodes", "show", node["name"])
    assert shown.returncode == 0 and f"{name} " in shown.stdout and node["id"] in shown.stdout
    (job,) = server.jobs(kind="model.load", subject=name)
    watched = run(server, "jobs", "watch", job["id"], "-o", "json")
    assert (watched.returncode, json.loads(watched.stdout)["state"]) == (0, "succeeded")


def test_a_wait_that_is_over_is_five_and_the_load_goes_on(shared_cluster: Cluster, server: Frontend) -> None:
    name = model(shared_cluster, server, "cli-slow", "load_delay:6s")
    waited = run(server, "models", "load", name, "--wait", "--timeout", "1s")
    assert (waited.returncode, waited.stdout) == (5, "")
    (job,) = server.jobs(kind="model.load", subject=name)
    assert job["id"] in waited.stderr
    assert run(server, "jobs", "watch", job["id"]).returncode == 0


def test_a_load_that_fails_is_one_and_its_log_says_why(shared_cluster: Cluster, server: Frontend) -> None:
    name = model(shared_cluster, server, "org/cli-dies", "start_exit:3", "stderr:the disk of this backend is on fire")
    failed = run(server, "models", "load", name, "--wait")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "failed" in failed.stderr.splitlines()[-1]
    logged = run(server, "logs", name)
    assert (logged.returncode, "the disk of this backend is on fire" in logged.stdout) == (0, True), logged
    body = json.loads(run(server, "logs", name, "-o", "json", "-n", "1").stdout)
    assert body["model"] == name and body["nodes"][0]["logs"][0]["slot"] == 0
    held = run(server, "models", "load", name)
    assert held.returncode == 1 and "failed" in held.stderr


def test_logs_are_followed_until_ctrl_c(shared_cluster: Cluster, server: Frontend) -> None:
    name = model(shared_cluster, server, "cli-followed", "stderr:first life")
    assert run(server, "models", "load", name, "--wait").returncode == 0
    following = begin(server, "logs", name, "--follow")
    lines: list[str] = []
    assert following.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(following.stdout or ()))
    reader.start()
    wait_for("what is there already", lambda: any("first life" in line for line in lines))
    assert run(server, "models", "unload", name, "--wait").returncode == 0
    before = _revision(server, name)
    shared_cluster.model(name, "fault", "stderr:second life")
    wait_for("the edit seen", lambda: _revision(server, name) != before)
    assert server.chat_until_answered(name).status_code == 200
    wait_for("the words of the next process", lambda: any("second life" in line for line in lines))
    following.send_signal(signal.SIGINT)
    assert following.wait(30) == 130
    reader.join(30)
    following.stdout.close()
    assert following.stderr is not None
    assert "Traceback" not in following.stderr.read()
    following.stderr.close()


def _revision(server: Frontend, name: str) -> str:
    (found,) = [found for found in server.get("/api/models").json()["models"] if found["name"] == name]
    return str(found["config_revision"])


# Unloading


def test_i7_a_stream_under_way_finishes_while_its_model_is_unloaded_and_new_requests_load_anew(
    shared_cluster: Cluster, server: Frontend
) -> None:
    name = model(shared_cluster, server, "cli-drained", "tokens:150", "token_delay:100ms")
    assert run(server, "models", "load", name, "--wait").returncode == 0
    (old,) = replicas(server, name)
    stream = Stream(server, name)
    unload = begin(server, "models", "unload", name, "--wait")
    wait_for("the mark", lambda: [row["state"] for row in replicas(server, name)] == ["unloading"])
    fresh = server.chat(name, max_tokens=1)
    assert fresh.status_code == 200, fresh.text
    assert unload.poll() is None and not stream.ended, "the stream is still under way, and the unload waits for it"
    stream.wait()
    assert ("".join(stream.words).split()[-1], stream.ended) == ("tok150", ["done"]), "every word and the end"
    out, err = unload.communicate(timeout=LIMIT_S)
    assert unload.returncode == 0, err
    assert f"model.unload {name} succeeded" in out and "1 request in flight on " in err
    (new,) = replicas(server, name)
    assert (new["state"], new["replica_index"]) == ("loaded", 1)
    assert new["process_instance"] != old["process_instance"]
    (job,) = server.jobs(kind="model.unload", subject=name)
    (cleanup,) = server.get(f"/api/jobs/{job['id']}").json()["children"]
    assert (cleanup["subject"], cleanup["state"]) == (old["process_instance"], "succeeded")


def test_i7_an_edited_config_cuts_no_stream(shared_cluster: Cluster, server: Frontend) -> None:
    name = model(shared_cluster, server, "cli-edited", "tokens:150", "token_delay:100ms")
    assert run(server, "models", "load", name, "--wait").returncode == 0
    (old,) = replicas(server, name)
    stream = Stream(server, name)
    shared_cluster.model(name, "fault", "tokens:3")
    wait_for("the mark", lambda: [row["state"] for row in replicas(server, name)] == ["unloading"])
    wait_for("an answer of the new revision", lambda: _answer(server, name).endswith("tok1 tok2 tok3"))
    assert not stream.ended
    stream.wait()
    assert ("".join(stream.words).split()[-1], stream.ended) == ("tok150", ["done"])
    wait_for(
        "the old process gone",
        lambda: old["process_instance"] not in [row["process_instance"] for row in replicas(server, name)],
    )


def _answer(server: Frontend, name: str) -> str:
    """The old revision would say one word more."""
    return str(server.chat(name, max_tokens=4).json()["choices"][0]["message"]["content"])


def test_an_unload_cancels_a_load_under_way_and_frees_the_node(shared_cluster: Cluster, server: Frontend) -> None:
    name = model(shared_cluster, server, "cli-cancelled", "load_delay:10m")
    waiting = begin(server, "models", "load", name, "--wait")
    wait_for("the load on the node", lambda: [row["state"] for row in replicas(server, name)] == ["loading"])
    unloaded = run(server, "models", "unload", name, "--wait")
    assert unloaded.returncode == 0, unloaded.stderr
    assert replicas(server, name) == []
    out, err = waiting.communicate(timeout=LIMIT_S)
    assert (waiting.returncode, out) == (1, "") and "was cancelled" in err
    assert run(server, "models", "unload", name, "--wait").stdout == f"model {name} is not loaded\n"


def test_sc_01_after_an_unload_the_process_is_gone_and_the_next_request_is_a_cold_load(
    shared_cluster: Cluster, server: Frontend
) -> None:
    name = model(shared_cluster, server, "cli-gone")
    assert server.chat(name).status_code == 200
    (old,) = replicas(server, name)
    assert run(server, "models", "unload", name, "--wait").returncode == 0
    assert replicas(server, name) == []
    host, port = old["address"].rsplit(":", 1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=2).close()
    assert server.chat(name).status_code == 200
    assert len(server.jobs(kind="model.load", subject=name)) == 2


# What the shell sees


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (2, ("models", "load")),
        (2, ("models", "load", "m", "--timeout", "soon")),
        (4, ("models", "load", "nobody-wrote-this", "--wait")),
        (4, ("models", "unload", "nobody-wrote-this")),
        (4, ("jobs", "watch", "not-an-id")),
        (4, ("jobs", "watch", "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11")),
        (4, ("nodes", "show", "nowhere")),
        (4, ("logs", "nobody-loaded-this")),
        (4, ("logs", "nobody-loaded-this", "--node", "nowhere")),
    ],
)
def test_an_exit_code_says_what_became_of_it(server: Frontend, code: int, arguments: tuple[str, ...]) -> None:
    ended = run(server, *arguments)
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    assert ended.stderr and "Traceback" not in ended.stderr


def test_a_wrong_key_is_six_and_no_server_is_three(server: Frontend) -> None:
    assert run(server, "models", "list", LOCALAI_API_KEY="wrong").returncode == 6
    nobody = run(server, "models", "list", LOCALAI_URL=f"http://127.0.0.1:{free_port()}")
    assert (nobody.returncode, len(nobody.stderr.splitlines())) == (3, 1)


def test_a_person_sees_a_changing_line_and_colours_and_no_color_takes_them_away(
    shared_cluster: Cluster, server: Frontend
) -> None:
    name = model(shared_cluster, server, "cli-terminal", "load_delay:2s")
    seen = on_a_terminal(server, "models", "load", name, "--wait")
    assert f"\r{name} loading on " in seen
    assert "\x1b[32mloaded\x1b[0m" in on_a_terminal(server, "models", "list")
    assert "\x1b[" not in on_a_terminal(server, "models", "list", NO_COLOR="1")
    assert "\x1b[" not in run(server, "models", "list").stdout


def test_the_bar_shows_the_bytes_of_a_model_that_is_staged(shared_cluster: Cluster, server: Frontend) -> None:
    weights = shared_cluster.models / "cli-big.bin"
    with weights.open("wb") as file:
        file.truncate(1024**3)
    name = model(shared_cluster, server, "cli-big", parameters={"model": weights.name})
    seen = on_a_terminal(server, "models", "load", name, "--wait", COLUMNS="200")
    bars = [piece for piece in seen.split("\r") if "[" in piece and " % of 1.0 GiB" in piece]
    assert bars, seen
    weights.unlink()


@pytest.mark.usefixtures("server")
def test_the_state_folder_alone_is_enough_on_the_same_machine(shared_cluster: Cluster, tmp_path: Path) -> None:
    variables = {"LOCALAI_STATE_DIR": str(shared_cluster.state_dir), "LOCALAI_API_KEY": API_KEY}
    ended = subprocess.run(
        [*localai(), "models", "list"],
        env={**clean_environment(), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 0 and "smollm2-135m" in ended.stdout
