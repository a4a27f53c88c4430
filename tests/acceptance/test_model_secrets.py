"""Secrets of model configs on processes as a user starts them: they reach the model process and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest

from tests import plain_http
from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, processes_below

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

SECRET = "private-value-of-a-model"


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(
        tmp_path_factory.mktemp("secrets") / "cluster", {**SCALED_WINDOWS, "LOCALAI_ENABLE_FAULT_BACKEND": "true"}
    )
    try:
        yield cluster
    finally:
        cluster.close()


def has_the_secret(front: Frontend) -> bool:
    for process in processes_below(front.process.pid):
        if "backend" in " ".join(process.cmdline()) and process.environ().get("MODEL_TOKEN") == SECRET:
            return True
    return False


def test_the_env_of_a_model_is_in_its_process_and_in_no_row_answer_or_log(machine: Cluster) -> None:
    front = machine.up()
    (machine.models / "weights.bin").write_bytes(b"w" * 100)
    (machine.models / "other.bin").write_bytes(b"o" * 100)
    model = machine.model("secretive", env={"MODEL_TOKEN": SECRET}, parameters={"model": "weights.bin"})
    front.wait_for_model(model)
    assert front.chat_until_answered(model).status_code == 200
    assert has_the_secret(front), "the model process got it"

    url = next(
        line.partition("=")[2]
        for line in (machine.state_dir / "env").read_text().splitlines()
        if line.startswith("LOCALAI_AUTH_DATABASE_URL=")
    )
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
            for (table,) in cursor.fetchall():
                cursor.execute(f'SELECT t::text FROM "{table}" t')
                assert SECRET not in str(cursor.fetchall()), table
    finally:
        connection.close()
    (job,) = front.jobs(kind="model.load")
    assert SECRET not in front.get(f"/api/jobs/{job['id']}").text
    for log in [*machine.folder.rglob("*.log"), *(machine.state_dir / "worker").rglob("journal*")]:
        if log.is_file():
            assert SECRET not in log.read_text(errors="replace"), log

    # Another node, approved and with a credential of its own, reads neither configs nor files of other loads.
    token = next(
        line.partition("=")[2]
        for line in (machine.state_dir / "env").read_text().splitlines()
        if line.startswith("LOCALAI_REGISTRATION_TOKEN=")
    )
    said = {"name": "curious", "address": "127.0.0.1:9", "token": token, "secret": "s" * 43}
    node = front.post("/api/node/register", said, headers={"Authorization": f"Bearer {token}"}).json()
    assert front.post(f"/api/nodes/{node['id']}/approve").status_code == 200
    key = {"Authorization": f"Bearer {node['node_token']}"}
    for path in ("secretive.yaml", "weights.bin", "other.bin", "smollm2-135m.yaml"):
        answer = plain_http.get(f"{front.url}/api/node/{node['id']}/files/{path}", headers=key, timeout=30)
        assert answer.status_code == 403, path
