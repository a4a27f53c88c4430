"""Two workers with one node name, as users start them: only the one that has the node's secret keeps the node."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from typing import Any

import httpx2
import psycopg2
import pytest

from tests import plain_http
from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, Started, free_port, wait_for
from tests.acceptance.test_cli import run

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

NAME = "twin"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("names") / "cluster", {**SCALED_WINDOWS})
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def front(machines: Cluster) -> Frontend:
    machines.servers()
    return machines.frontend("front", LOCALAI_AUTO_APPROVE_NODES="false", LOCALAI_INSTANCE_ID="front-1")


def test_a_frontend_has_its_instance_id_in_its_rows_and_log_lines(machines: Cluster, front: Frontend) -> None:
    answer = front.get("/api/nodes")
    assert " instance_id=front-1 " in front.request_line(answer.headers["X-Request-Id"])
    connection = psycopg2.connect(machines.variables["LOCALAI_AUTH_DATABASE_URL"])
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT DISTINCT instance_id FROM frontends")
            assert cursor.fetchall() == [("front-1",)]
    finally:
        connection.close()


class Twin:
    """A worker under the one name, with a data folder of its own and new ports at each start."""

    def __init__(self, machines: Cluster, front: Frontend, label: str, name: str) -> None:
        self.machines, self.front, self.label, self.name = machines, front, label, name
        self.data = machines.folder / f"{name}-{label}-data"
        self.address = self.http = ""

    def start(self, **variables: str) -> Started:
        self.address, self.http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.process = self.machines.start(
            f"{self.name}-{self.label}",
            "worker",
            "--register-to",
            self.front.url,
            "--node-name",
            self.name,
            variables={
                "LOCALAI_SERVE_ADDR": self.address,
                "LOCALAI_HTTP_ADDR": self.http,
                "LOCALAI_DATA_PATH": str(self.data),
                "LOCALAI_THREADS": "1",
                **variables,
            },
        )
        return self.process

    def ready(self) -> tuple[int, str]:
        try:
            response = plain_http.get(f"http://{self.http}/readyz", timeout=5)
        except httpx2.TransportError:
            return 0, ""
        return response.status_code, response.text


def node(front: Frontend, name: str, **wanted: Any) -> dict[str, Any]:
    """The node of this name once it has these values."""

    def found() -> dict[str, Any] | None:
        same = (one for one in front.nodes() if one["name"] == name)
        return next((one for one in same if all(one.get(key) == value for key, value in wanted.items())), None)

    return wait_for(f"node {name} with {wanted}", found)


def approved(front: Frontend, twin: Twin) -> dict[str, Any]:
    waiting = node(front, twin.name, status="pending")
    assert front.post(f"/api/nodes/{waiting['id']}/approve").status_code == 200
    return node(front, twin.name, status="healthy", address=twin.address)


def beats(front: Frontend, name: str, count: int = 2) -> dict[str, Any]:
    """The node after so many more written heartbeats."""
    for _ in range(count):
        last = node(front, name)["last_heartbeat"]
        wait_for("another heartbeat", lambda last=last: node(front, name)["last_heartbeat"] != last)
    return node(front, name)


def test_a_stranger_with_the_name_of_a_running_worker_is_refused_and_shown(machines: Cluster, front: Frontend) -> None:
    own, stranger = (Twin(machines, front, label, NAME) for label in ("own", "stranger"))
    own.start()
    before = approved(front, own)
    assert stat.S_IMODE((own.data / "node-secret").stat().st_mode) == 0o600
    stranger.start()
    refused = wait_for("the refusal", lambda: node(front, NAME).get("refused_registration"))
    assert refused["address"] == stranger.address
    assert all(address in refused["reason"] for address in (own.address, own.http, stranger.address, stranger.http))
    status, text = wait_for("the stranger says why", lambda: (found := stranger.ready())[0] == 503 and found)
    assert status == 503
    assert own.address in text
    after = beats(front, NAME)
    assert (after["incarnation"], after["address"], after["status"]) == (before["incarnation"], own.address, "healthy")
    assert stranger.process.popen.poll() is None, "it asks again and does not end"
    assert own.ready()[0] == 200
    shown = run(front, "nodes", "show", NAME)
    assert stranger.address in shown.stdout
    assert own.address in shown.stdout

    # The worker itself, killed and started again with other ports, takes over at once.
    own.process.kill_all()
    own.start()
    again = node(front, NAME, address=own.address)
    assert (again["incarnation"], again["status"]) == (before["incarnation"] + 1, "healthy")
    assert beats(front, NAME)["address"] == own.address

    # It leaves: the name is free, the approval is not.
    own.process.stop()
    taken = node(front, NAME, address=stranger.address)
    assert (taken["id"], taken["status"]) == (before["id"], "pending")
    assert all(address in taken["pending_reason"] for address in (own.address, stranger.address))
    stranger.process.stop()


class Attacker:
    """Has the registration token, and speaks HTTP to a frontend."""

    def __init__(self, machines: Cluster, front: Frontend) -> None:
        self.url, self.token = front.url, machines.variables["LOCALAI_REGISTRATION_TOKEN"]

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return plain_http.request(method, f"{self.url}/api/node/{path}", json=body, headers=headers, timeout=30)

    def register(self, name: str, address: str, **more: Any) -> httpx2.Response:
        body = {"name": name, "address": address, "http_address": address, "token": self.token, **more}
        return self.ask("POST", "register", {"reports_operations": True, **body})


def report(**process: Any) -> dict[str, Any]:
    one = {"model": "m", "slot": 0, "job_id": "j", "op_generation": 1, "pid": 1, "ready": True, **process}
    return {"incarnation": 1, "seq": 1, "processes": [{"process_instance": "p", "address": "127.0.0.1:9", **one}]}


def test_the_registration_token_makes_no_one_an_approved_node(machines: Cluster, front: Frontend) -> None:
    victim, attacker = Twin(machines, front, "own", "victim"), Attacker(machines, front)
    victim.start()
    own = approved(front, victim)
    claim = {"op_generation": 1, "incarnation": own["incarnation"]}

    # Its name, with a secret of the attacker's or none, from its address or another one.
    for address in (victim.address, "127.0.0.1:9"):
        for more in ({}, {"secret": "x" * 43}):
            taken = attacker.register("victim", address, **more)
            assert (taken.status_code, taken.json()["code"]) == (409, "node_name_taken")

    # Its routes, with the registration token and with the credential of a node that waits for approval.
    stranger = attacker.register("stranger", "127.0.0.1:9").json()
    assert stranger["status"] == "pending"
    for token in (attacker.token, stranger["node_token"]):
        for method, path in (
            *(("POST", name) for name in ("drain", "resume", "deregister", "heartbeat", "report", "jobs/j/claim")),
            *(("DELETE", ""), ("GET", "models"), ("GET", "files/secret.yaml")),
        ):
            answer = attacker.ask(method, f"{own['id']}/{path}".rstrip("/"), {} if method == "POST" else None, token)
            assert answer.status_code == 401, (path, answer.text)
    after = beats(front, "victim", 1)
    assert {key: after[key] for key in ("status", "incarnation", "address", "draining")} == {
        "status": "healthy",
        "incarnation": own["incarnation"],
        "address": victim.address,
        "draining": False,
    }

    # A node of its own makes no rows while it waits, and once approved names no host but its own.
    for path, body in (("report", report()), ("jobs/j/claim", claim)):
        assert attacker.ask("POST", f"{stranger['id']}/{path}", body, stranger["node_token"]).status_code == 403
    assert front.post(f"/api/nodes/{stranger['id']}/approve").status_code == 200
    wait_for(
        "the approval counts",
        lambda: attacker.ask("POST", f"{stranger['id']}/report", {}, stranger["node_token"]).status_code != 403,
    )
    foreign = report(address="127.0.0.2:9")
    refused = attacker.ask("POST", f"{stranger['id']}/report", foreign, stranger["node_token"])
    assert (refused.status_code, "127.0.0.2:9" in refused.json()["error"]) == (400, True), refused.text
    assert front.get("/api/jobs?kind=replica.cleanup").json()["jobs"] == []

    victim.process.stop()


@pytest.mark.long
def test_a_machine_drains_itself_with_its_secret_and_waits_again_on_another_host(
    machines: Cluster, front: Frontend
) -> None:
    victim, attacker = Twin(machines, front, "own", "moves"), Attacker(machines, front)
    victim.start()
    own = approved(front, victim)
    secret = (victim.data / "node-secret").read_text().strip()
    assert attacker.ask("POST", f"{own['id']}/drain", token=secret).status_code == 200
    assert attacker.ask("POST", f"{own['id']}/resume", token=secret).status_code == 200
    victim.process.kill_all()
    victim.start(LOCALAI_ADVERTISE_ADDR=f"localhost:{free_port()}")
    moved = node(front, "moves", status="pending", incarnation=own["incarnation"] + 1)
    assert all(host in moved["pending_reason"] for host in ("127.0.0.1:", "localhost:"))
    assert moved["pending_reason"] in " ".join(run(front, "nodes", "show", "moves").stdout.split())
    victim.process.stop()


@pytest.mark.long
def test_a_worker_joins_with_an_invitation_that_is_of_no_use_to_another_one(machines: Cluster, front: Frontend) -> None:
    said = run(front, "nodes", "invite", "guest").stdout
    token = next(line.split("=", 1)[1] for line in said.splitlines() if "LOCALAI_REGISTRATION_TOKEN=" in line)
    guest, thief = (Twin(machines, front, label, "guest") for label in ("own", "thief"))
    for incarnation in (1, 2):
        guest.start(LOCALAI_REGISTRATION_TOKEN=token)
        joined = node(front, "guest", status="healthy", incarnation=incarnation)
        assert front.get(f"/api/nodes/{joined['id']}/backend-logs").json() == [], "its logs are readable without it"
        guest.process.stop()
    process = thief.start(LOCALAI_REGISTRATION_TOKEN=token)
    assert process.popen.wait(60) == 2
    assert "was used by another worker" in process.text()
    assert node(front, "guest")["incarnation"] == 2


@pytest.mark.long
def test_a_copied_data_folder_flips_the_address_once_and_not_again(machines: Cluster, front: Frontend) -> None:
    name = "copied"
    own, copy = (Twin(machines, front, label, name) for label in ("own", "copy"))
    own.start()
    approved(front, own)
    shutil.copytree(own.data, copy.data)
    copy.start()
    moved = node(front, name, address=copy.address)
    assert wait_for("the first one ends", own.process.popen.poll) == 3
    own.start()  # as a service manager does
    refused = wait_for("the refusal", lambda: node(front, name).get("refused_registration"))
    assert refused["address"] == own.address
    assert "copy" in refused["reason"]
    after = beats(front, name)
    assert (after["address"], after["incarnation"]) == (copy.address, moved["incarnation"])
    for twin in (own, copy):
        twin.process.stop()


def test_a_worker_does_not_start_with_a_damaged_secret_and_does_not_replace_it(
    machines: Cluster, front: Frontend
) -> None:
    worker = Twin(machines, front, "own", "damaged")
    worker.data.mkdir(parents=True)
    (worker.data / "node-secret").write_text("short\n")
    process = worker.start()
    assert process.popen.wait(60) == 2
    assert "node-secret" in process.text()
    assert (worker.data / "node-secret").read_text() == "short\n"
