"""`localai up`, `run`, `worker` and the client commands, with stand-ins in the place of web, control and agent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest

from localai.cli.processes import answers_ready
from localai.embedded import env_file
from tests.embedded_servers import Servers, clean_environment, localai_command, open_folder
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration

STAND_INS = Path(__file__).with_name("stand_ins")


@dataclass
class Installation:
    """One state folder, with stand-ins for the processes of others."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.folder / "the state"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def environment(self, **variables: str) -> dict[str, str]:
        found = clean_environment({"STAND_IN_FOLDER": str(self.folder), "LOCALAI_STATE_DIR": str(self.state)})
        return {**found, "PYTHONPATH": f"{STAND_INS}{os.pathsep}{found['PYTHONPATH']}", **variables}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                localai_command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment(**variables),
                cwd=self.folder,
            )
        self.started.append(process)
        return process

    def wait_for_line(self, process: subprocess.Popen[bytes], words: str) -> None:
        def said() -> bool:
            text = self.log.read_text()
            assert process.poll() is None, text
            return words in text

        eventually(said, words)

    def up(self, **variables: str) -> subprocess.Popen[bytes]:
        """`up`, ready, with all three stand-ins at work."""
        before = self.log.read_text().count("Ctrl-C stops it") if self.log.exists() else 0
        process = self.start("up", "--port", "0", "--node-name", "box", **variables)

        def ready() -> bool:
            text = self.log.read_text()
            assert process.poll() is None, text
            return text.count("Ctrl-C stops it") > before and self._all_at_work()

        eventually(ready, "everything up")
        return process

    def _all_at_work(self) -> bool:
        counts = {len(self.starts(name)) for name in ("web", "control", "agent")}
        return len(counts) == 1 and counts != {0}

    def ask(self, *arguments: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            localai_command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=self.environment(**variables),
        )

    def starts(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def ended(self) -> list[str]:
        path = self.folder / "ended"
        return path.read_text().splitlines() if path.exists() else []

    def close(self) -> None:
        for process in reversed(self.started):
            if process.poll() is None:
                process.terminate()
                process.wait(LIMIT_S)


@pytest.fixture
def installation() -> Iterator[Installation]:
    with open_folder() as folder:
        made = Installation(folder)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def up() -> Iterator[Installation]:
    """One that is up, for what only asks."""
    with open_folder() as folder:
        made = Installation(folder)
        try:
            made.up()
            yield made
        finally:
            made.close()


def has_schema(url: str) -> bool:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM jobs")
        return cursor.fetchone() == (0,)


# What `up` makes of its parts


def test_up_tells_where_it_is_where_the_key_lies_and_a_curl_line_that_works(up: Installation) -> None:
    text = up.log.read_text()
    url = env_file.read(up.state / "env")["LOCALAI_URL"]
    assert f"localai is ready at {url}" in text
    assert str(up.state / "api-key") in text
    line = next(line for line in text.splitlines() if line.strip().startswith("curl"))
    answer = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=LIMIT_S)
    assert "CAPITAL OF FRANCE" in answer.stdout, answer.stderr


def test_each_process_gets_what_it_needs_and_the_agent_nothing_more(up: Installation) -> None:
    urls = env_file.read(up.state / "env")
    key = (up.state / "api-key").read_text().strip()
    web, control, agent = (up.starts(name)[0] for name in ("web", "control", "agent"))
    for name in ("LOCALAI_AUTH_DATABASE_URL", "LOCALAI_NATS_URL", "LOCALAI_BROKER_URL", "LOCALAI_REGISTRATION_TOKEN"):
        assert web[name] == control[name] == urls[name]
    assert web["LOCALAI_API_KEY"] == key
    assert web["LOCALAI_APPROVE_NODE"] == agent["LOCALAI_NODE_NAME"] == "box"
    assert agent["LOCALAI_REGISTER_TO"] == urls["LOCALAI_URL"]
    assert agent["LOCALAI_DATA_PATH"] == str(up.state / "worker")
    assert agent["LOCALAI_SERVE_ADDR"].startswith("127.0.0.1:")
    assert not {"LOCALAI_AUTH_DATABASE_URL", "LOCALAI_API_KEY", "LOCALAI_MODELS_PATH"} & set(agent)
    assert agent["LOCALAI_NATS_URL"] == urls["LOCALAI_WORKER_NATS_URL"] != urls["LOCALAI_NATS_URL"]
    assert agent["LOCALAI_BROKER_URL"] == urls["LOCALAI_WORKER_BROKER_URL"] != urls["LOCALAI_BROKER_URL"]
    assert web["argv"][1:] == ["-c", web["argv"][2], "web.app:create_app()"] and Path(web["argv"][2]).is_absolute()


def test_the_schema_and_the_default_model_are_there_before_the_frontend(up: Installation) -> None:
    assert has_schema(env_file.read(up.state / "env")["LOCALAI_AUTH_DATABASE_URL"])
    assert (up.state / "models" / "smollm2-135m.yaml").exists()


def test_a_removed_default_model_is_not_written_again_and_a_warm_start_keeps_the_key(
    installation: Installation,
) -> None:
    first = installation.up()
    key = (installation.state / "api-key").read_text()
    (installation.state / "models" / "smollm2-135m.yaml").unlink()
    first.terminate()
    assert first.wait(LIMIT_S) == 0
    assert installation.ended() == ["agent SIGTERM", "control SIGTERM", "web SIGTERM"], "in reverse order"
    installation.up()
    assert (installation.state / "api-key").read_text() == key
    assert not (installation.state / "models" / "smollm2-135m.yaml").exists()
    assert "/v1/models" in installation.log.read_text(), "the curl line asks for what there is"


def test_kill_9_of_the_supervisor_leaves_nothing_of_ours_or_the_servers(installation: Installation) -> None:
    process = installation.up()
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 6
    process.kill()
    process.wait(LIMIT_S)
    eventually(lambda: not any(_alive(child) for child in children), "no process left", 5.0)
    assert sorted(installation.ended()) == ["agent SIGTERM", "control SIGTERM", "web SIGQUIT"]


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("name", ["web", "control", "agent"])
def test_what_ends_unasked_is_started_again_with_the_same_settings(up: Installation, name: str) -> None:
    before = up.starts(name)
    os.kill(before[-1]["pid"], signal.SIGKILL)
    eventually(lambda: len(up.starts(name)) > len(before), f"{name} started again")
    again = up.starts(name)[-1]
    assert again.pop("pid") != before[-1]["pid"]
    assert again == {key: value for key, value in before[-1].items() if key != "pid"}
    up.wait_for_line(up.started[0], f"localai: {name} ended with signal SIGKILL")
    url = env_file.read(up.state / "env")["LOCALAI_URL"]
    eventually(lambda: answers_ready(url), "ready again")


def test_a_port_in_use_is_one_line_and_starts_nothing(installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = installation.ask("up", "--port", port)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert port in line and "--port" in line
    assert not (installation.state / "postgres").exists()


def test_a_frontend_that_never_becomes_ready_is_said_with_its_last_words(installation: Installation) -> None:
    refused = installation.ask("up", "--port", "0", STAND_IN_FOLDER="/no/such/folder")
    assert refused.returncode == 1
    assert "web ended with exit code 1" in refused.stderr and "/no/such/folder" in refused.stderr
    assert "Traceback" not in refused.stderr.splitlines()[0]


FIRST, SECOND = "first-" + "1" * 20, "second-" + "2" * 20


def test_a_given_key_is_the_one_in_force(installation: Installation) -> None:
    installation.up(LOCALAI_API_KEY=f"{FIRST},{SECOND}")
    assert (installation.state / "api-key").read_text() == f"{FIRST}\n"
    assert installation.starts("web")[0]["LOCALAI_API_KEY"] == f"{FIRST},{SECOND}"


# The parts on servers of others


def test_run_starts_a_frontend_on_given_servers_and_warns_without_a_token(
    installation: Installation, servers: Servers
) -> None:
    with servers.new_database() as url:
        urls = {"LOCALAI_AUTH_DATABASE_URL": url, "LOCALAI_BROKER_URL": servers.broker_url}
        process = installation.start("run", "--port", "0", **urls)
        installation.wait_for_line(process, "The frontend is ready at http://127.0.0.1:")
        text = installation.log.read_text()
        assert "WARNING: LOCALAI_REGISTRATION_TOKEN is empty" in text and "WARNING: LOCALAI_NATS_URL is empty" in text
        eventually(lambda: installation.starts("control"), "the control process")
        assert installation.starts("web")[0]["LOCALAI_AUTH_DATABASE_URL"] == url
        assert not installation.starts("agent")
        assert has_schema(url)
        process.terminate()
        assert process.wait(LIMIT_S) == 0
        assert installation.ended() == ["control SIGTERM", "web SIGTERM"]


def test_two_frontends_may_share_a_state_folder_and_agree_on_the_key(
    installation: Installation, servers: Servers
) -> None:
    with servers.new_database() as url:
        urls = {"LOCALAI_AUTH_DATABASE_URL": url, "LOCALAI_BROKER_URL": servers.broker_url}
        processes = [installation.start("run", "--port", "0", **urls) for _ in range(2)]
        eventually(lambda: installation.log.read_text().count("The frontend is ready") == 2, "two frontends")
        assert len({start["LOCALAI_API_KEY"] for start in installation.starts("web")}) == 1
        for process in processes:
            process.terminate()
            assert process.wait(LIMIT_S) == 0


def test_db_upgrade_runs_the_migrations_and_says_when_it_cannot(installation: Installation, servers: Servers) -> None:
    with servers.new_database() as url:
        done = installation.ask("db", "upgrade", "--database-url", url)
        assert (done.returncode, done.stderr) == (0, "")
        assert has_schema(url)
    for bad, code in ((url, 1), ("mysql://u@127.0.0.1/d", 1), ("nonsense", 2)):
        refused = installation.ask("db", "upgrade", "--database-url", bad)
        assert refused.returncode == code
        assert len(refused.stderr.splitlines()) == 1 and "Traceback" not in refused.stderr, refused.stderr


def test_a_worker_is_the_agent_itself_so_a_signal_reaches_it(installation: Installation) -> None:
    process = installation.start(
        "worker", "--register-to", "http://f:1", "--broker-url", "redis://b", "--node-name", "w"
    )
    eventually(lambda: installation.starts("agent"), "the agent")
    (start,) = installation.starts("agent")
    assert start["pid"] == process.pid
    assert (start["LOCALAI_NODE_NAME"], start["LOCALAI_REGISTER_TO"]) == ("w", "http://f:1")
    process.terminate()
    assert process.wait(LIMIT_S) == 0
    assert installation.ended() == ["agent SIGTERM"]


# Client commands


def test_client_commands_find_the_server_and_the_key_of_the_state_folder(up: Installation) -> None:
    nodes = up.ask("nodes", "list")
    assert nodes.returncode == 0, nodes.stderr
    assert nodes.stdout.splitlines()[1].split()[:2] == ["box", "pending"]
    assert json.loads(up.ask("nodes", "list", "-o", "json").stdout)[0]["id"] == "n-1"
    approved = up.ask("nodes", "approve", "box")
    assert (approved.returncode, approved.stdout) == (0, "Node box is approved.\n")
    assert up.ask("nodes", "approve", "other").stderr == "localai: no node is called 'other'; registered: box\n"


def test_jobs_are_listed_and_shown_with_their_events_and_children(up: Installation) -> None:
    listed = up.ask("jobs", "list", "--state", "running")
    assert "25 % of 4 B" in listed.stdout and "model.load" in listed.stdout and "--before page-2" in listed.stdout
    assert json.loads(up.ask("jobs", "list", "-o", "json").stdout)["jobs"][0]["id"] == "j-1"
    shown = up.ask("jobs", "show", "j-1").stdout
    assert "staging" in shown and "claimed" in shown and "j-2" in shown and "no disk" in shown
    missing = up.ask("jobs", "show", "no/such")
    assert missing.returncode == 4 and missing.stderr.startswith("localai: nothing at /api/jobs/no%2Fsuch")


def test_chat_prints_the_answer_and_reads_standard_input(up: Installation) -> None:
    assert up.ask("chat", "m", "hello").stdout == "HELLO!\n"
    assert up.ask("chat", "m", text="from a pipe").stdout == "FROM A PIPE!\n"
    assert json.loads(up.ask("chat", "m", "hello", "-o", "json").stdout)["choices"][0]["message"]["content"] == "HELLO"


def test_chat_waits_for_a_load_and_shows_it(up: Installation) -> None:
    answer = up.ask("chat", "cold", "hello")
    assert (answer.returncode, answer.stdout) == (0, "HELLO!\n")
    assert answer.stderr == "cold: loading, on box\n"


@pytest.mark.parametrize(
    ("model", "words", "code"),
    [("unknown", "does not exist", 4), ("broken", "no such library", 1), ("cut", "cut off", 1)],
)
def test_chat_says_the_cause_in_one_line_and_fails(up: Installation, model: str, words: str, code: int) -> None:
    answer = up.ask("chat", model, "hello")
    assert answer.returncode == code
    assert words in answer.stderr and "Traceback" not in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("nodes", "list"), ("jobs", "list"), ("chat", "m", "hello")])
def test_a_server_that_is_not_there_is_explained(up: Installation, arguments: tuple[str, ...]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        answer = up.ask(*arguments, "--url", url)
    assert answer.returncode == 3
    (line,) = answer.stderr.splitlines()
    assert url in line and "localai up" in line and "LOCALAI_URL" in line


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://"])
def test_a_url_that_cannot_be_used_is_one_line(up: Installation, url: str) -> None:
    answer = up.ask("nodes", "list", "--url", url)
    assert answer.returncode == 2 and len(answer.stderr.splitlines()) == 1, answer.stderr


def test_a_wrong_key_says_where_the_key_comes_from(up: Installation) -> None:
    answer = up.ask("nodes", "list", LOCALAI_API_KEY="wrong")
    assert answer.returncode == 6
    assert "a key is required" in answer.stderr and "LOCALAI_API_KEY" in answer.stderr


def test_a_reader_that_left_is_no_traceback(up: Installation) -> None:
    command = " ".join(f"'{word}'" for word in [sys.executable, "-m", "localai.cli", "nodes", "list"])
    result = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env=up.environment(),
        timeout=LIMIT_S,
    )
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


def test_a_first_start_that_is_refused_for_its_port_leaves_no_folder(installation: Installation) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = installation.ask("up", "--port", port)
    assert (refused.returncode, "--port" in refused.stderr, port in refused.stderr) == (1, True, True), refused.stderr
    assert not installation.state.exists()
