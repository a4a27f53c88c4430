"""The main job: one command, then a real answer of a real model through the whole chain."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.acceptance.cluster import API_KEY, Cluster, Frontend, alive, localai, processes_below, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A machine with default windows and the default model."""
    cluster = Cluster(tmp_path_factory.mktemp("real") / "with a space", {"LOCALAI_THREADS": "1"})
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def up(real: Cluster) -> Frontend:
    return real.up()


def client(frontend: Frontend) -> openai.OpenAI:
    return openai.OpenAI(base_url=frontend.url + "/v1", api_key=API_KEY, timeout=300, max_retries=5)


def test_the_first_request_of_a_fresh_machine_is_answered_by_a_real_model(up: Frontend) -> None:
    with client(up) as api:
        answer = api.chat.completions.create(model="smollm2-135m", messages=QUESTION, temperature=0)
        assert "Paris" in (answer.choices[0].message.content or "")
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage and answer.usage.completion_tokens > 0 and answer.usage.prompt_tokens > 0

        stream = api.chat.completions.create(
            model="smollm2-135m", messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == answer.choices[0].message.content
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == answer.usage.completion_tokens


def test_a_warm_request_makes_no_sql_statement(up: Frontend) -> None:
    assert up.chat_until_answered("smollm2-135m").status_code == 200
    warm = up.chat("smollm2-135m", max_tokens=4)
    assert warm.status_code == 200
    assert up.statements_of(warm) == 0
    cold_route = up.get("/api/jobs")
    assert up.statements_of(cold_route) > 0, "the counter counts nothing"


def test_the_load_is_a_job_with_its_history_and_its_child(up: Frontend) -> None:
    up.chat_until_answered("smollm2-135m")
    job = up.jobs(kind="model.load", subject="smollm2-135m", state="succeeded")[0]
    detail = up.get(f"/api/jobs/{job['id']}").json()
    names = [event["event"] for event in detail["events"]]
    assert names[0] == "requested" and names[-1] == "succeeded"
    assert [event["event"] for event in detail["events"]].count("succeeded") == 1


def test_a_second_up_on_the_same_folder_names_the_pid_of_the_first(real: Cluster, up: Frontend) -> None:
    second = subprocess.run(
        [*localai(), "up", "--state-dir", str(real.state_dir), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode != 0
    assert str(up.process.pid) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_in_use_is_one_clear_line(real: Cluster, up: Frontend, tmp_path: Path) -> None:
    port = up.url.rsplit(":", 1)[1]
    refused = subprocess.run(
        [*localai(), "up", "--state-dir", str(tmp_path / "other"), "--port", port],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode != 0
    assert port in refused.stderr and len(refused.stderr.strip().splitlines()) == 1


def test_an_unusable_state_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    refused = subprocess.run(
        [*localai(), "up", "--state-dir", str(tmp_path / "file")], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode != 0
    assert str(tmp_path / "file") in refused.stderr and len(refused.stderr.strip().splitlines()) == 1


def test_a_truncated_gguf_fails_the_load_once_with_the_engine_s_last_words(real: Cluster, up: Frontend) -> None:
    up.chat_until_answered("smollm2-135m")
    whole = next(real.models.rglob("*.gguf"))
    (real.models / "truncated.gguf").write_bytes(whole.read_bytes()[:1_000_000])
    real.model("truncated", "llama-cpp", parameters={"model": "truncated.gguf"})
    up.wait_for_model("truncated")
    response = up.chat("truncated")
    assert response.status_code == 503, response.text
    body = response.json()
    assert body["error"]["code"] == "model_load_failed"
    assert body["loading"]["last_error"]
    assert 1 <= int(response.headers["Retry-After"]) <= 15
    (job,) = up.jobs(kind="model.load", subject="truncated")
    assert job["error_cause"] == "load_refused"


@pytest.mark.long
def test_a_removed_default_config_is_not_written_again(cluster: Cluster) -> None:
    up = cluster.up()
    up.wait_for_model("smollm2-135m")
    (cluster.models / "smollm2-135m.yaml").unlink()
    wait_for("the model gone", lambda: "smollm2-135m" not in listed(up))
    everything = processes_below(up.process.pid)
    assert up.process.stop() == 0
    wait_for("no process left", lambda: not any(alive(process) for process in everything), 10)
    again = cluster.up("again")
    assert "smollm2-135m" not in listed(again)
    response = again.chat("smollm2-135m")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


def listed(frontend: Frontend) -> list[str]:
    return [model["id"] for model in frontend.get("/v1/models").json()["data"]]
