"""The agent's routes: credentials, claims, reports, and files that stay inside their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localai.errors import JoinTokenRefused, NodeRemoved, NotTheNextLife, Replaced
from localai.jobs.operation_rules import (
    OperationReport,
    OpState,
    Order,
    Phase,
    ProcessReport,
    Report,
    ReportAnswer,
)
from localai.jobs.operations import WorkerMustDrop
from localai.nodes.credentials import hash_of
from localai.nodes.holding_rules import HeldFile, Holdings
from localai.nodes.service import Registered
from localai.unloads.drains import Drain
from tests.fakes.web import JOIN_TOKEN, KEY, NODE_ID, NODE_SECRET, NODE_TOKEN, REPLACED_TOKEN, FakeNodes, WebBench
from web.identity import CREDENTIAL_AGE_S, Keys, NodeKeys
from web.node.files import PIECE_BYTES, wanted_range

pytestmark = pytest.mark.unit

NODE = {"Authorization": f"Bearer {NODE_TOKEN}"}
REGISTRATION = {"Authorization": "Bearer registration-token"}


class Operations:
    """Answers as a test says; `claims` and `reports` hold what came."""

    def __init__(self) -> None:
        self.claims: list[Any] = []
        self.reports: list[Report] = []
        self.error: Exception | None = None
        #: What running operations of the node stage; None: whatever is asked for.
        self.staged: tuple[str, ...] | None = None

    def gives(self, node_id: str, path: str) -> bool:
        return self.staged is None or path in self.staged

    def claim(self, *arguments: Any) -> Order:
        self.claims.append(arguments)
        if self.error:
            raise self.error
        fields = dict.fromkeys(Order.__dataclass_fields__)
        return Order(**{**fields, "job_id": arguments[2], "files": ()})  # type: ignore[arg-type]

    def report(self, node_id: str, report: Report) -> ReportAnswer:
        self.reports.append(report)
        if self.error:
            raise self.error
        return ReportAnswer()


@pytest.fixture
def operations() -> Operations:
    return Operations()


@pytest.fixture
def bench(tmp_path: Path, operations: Operations) -> WebBench:
    return WebBench(tmp_path, operations=operations)


def claim(bench: WebBench, headers: dict[str, str], **body: Any) -> Any:
    content = {"op_generation": 3, "incarnation": 2, **body}
    return bench.client.post(f"/api/node/{NODE_ID}/jobs/the-job/claim", json=content, headers=headers)


def test_a_claim_is_answered_with_the_order(bench: WebBench, operations: Operations) -> None:
    response = claim(bench, NODE, seq=9)
    assert response.status_code == 200
    assert response.get_json()["job_id"] == "the-job"
    assert operations.claims == [(NODE_ID, 2, "the-job", 3, 9)]


@pytest.mark.parametrize("error", [WorkerMustDrop("failed"), Replaced("a newer life")])
def test_a_refused_claim_is_409(bench: WebBench, operations: Operations, error: Exception) -> None:
    operations.error = error
    response = claim(bench, NODE)
    assert response.status_code == 409
    assert isinstance(response.get_json()["error"], str)
    assert response.get_json().get("state") == getattr(error, "state", None)


@pytest.mark.parametrize(
    "body",
    [{"op_generation": "x"}, {"op_generation": None}, {"incarnation": 1.5}, {"incarnation": 10**100}, {"seq": -1}],
)
def test_a_claim_that_cannot_be_read_is_400(bench: WebBench, operations: Operations, body: dict[str, Any]) -> None:
    assert claim(bench, NODE, **body).status_code == 400
    assert operations.claims == []


@pytest.mark.parametrize("headers", [{}, REGISTRATION, {"Authorization": "Bearer wrong"}])
def test_a_claim_needs_the_node_s_own_credential(bench: WebBench, headers: dict[str, str]) -> None:
    response = claim(bench, headers)
    assert response.status_code == 401
    assert isinstance(response.get_json()["error"], str)


def test_a_report_is_answered(bench: WebBench, operations: Operations) -> None:
    body = Report(incarnation=2, seq=7).to_json()
    response = bench.client.post(f"/api/node/{NODE_ID}/report", json=body, headers=NODE)
    assert response.get_json() == {"operations": [], "stop_processes": []}
    assert operations.reports[0].seq == 7


@pytest.mark.parametrize("body", [{}, {"incarnation": 1}, {"incarnation": 1, "seq": 1, "operations": [{"x": 1}]}])
def test_a_report_that_cannot_be_read_is_400(bench: WebBench, operations: Operations, body: Any) -> None:
    assert bench.client.post(f"/api/node/{NODE_ID}/report", json=body, headers=NODE).status_code == 400
    assert operations.reports == []


@pytest.mark.parametrize("text", ["Infinity", "NaN", "1e999", "1e300", "9" * 100, "9" * 5000])
@pytest.mark.parametrize("path", ["report", "heartbeat", "deregister", "jobs/the-job/claim"])
def test_a_number_of_a_node_that_no_row_can_hold_is_refused(bench: WebBench, path: str, text: str) -> None:
    body = f'{{"incarnation": {text}, "seq": 1, "op_generation": 1}}'
    response = bench.client.post(f"/api/node/{NODE_ID}/{path}", data=body.encode(), headers=NODE)
    assert response.status_code in (400, 413), response.text
    assert isinstance(response.get_json()["error"], str)


def test_a_heartbeat_may_have_no_body(bench: WebBench) -> None:
    response = bench.client.post(f"/api/node/{NODE_ID}/heartbeat", headers=NODE)
    assert response.get_json() == {"message": "heartbeat received", "status": "healthy"}


ROUTES = [
    ("post", "heartbeat"),
    ("post", "report"),
    ("post", "jobs/the-job/claim"),
    ("post", "deregister"),
    ("delete", ""),
    ("get", "models"),
    ("post", "drain"),
    ("post", "resume"),
    ("get", "files/a.gguf"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_the_registration_token_opens_the_registration_only(bench: WebBench, method: str, path: str) -> None:
    url = f"/api/node/{NODE_ID}/{path}".rstrip("/")
    assert bench.client.open(url, method=method.upper(), json={}, headers=REGISTRATION).status_code == 401
    assert bench.nodes.beats == []


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_life_that_was_replaced_learns_it_at_every_route(bench: WebBench, method: str, path: str) -> None:
    headers = {"Authorization": f"Bearer {REPLACED_TOKEN}"}
    url = f"/api/node/{NODE_ID}/{path}".rstrip("/")
    response = bench.client.open(url, method=method.upper(), json={}, headers=headers)
    assert response.status_code == 409
    assert "another life" in response.get_json()["error"]


def test_a_node_that_waits_for_approval_claims_and_reports_nothing(bench: WebBench, operations: Operations) -> None:
    bench.nodes.approved = False
    reported = bench.client.post(f"/api/node/{NODE_ID}/report", json={"incarnation": 2, "seq": 1}, headers=NODE)
    for response in (claim(bench, NODE), reported):
        assert response.status_code == 403
        assert "waits for approval" in response.get_json()["error"]
    assert (operations.claims, operations.reports) == ([], [])
    assert bench.client.post(f"/api/node/{NODE_ID}/heartbeat", headers=NODE).status_code == 200


@pytest.mark.parametrize(("field", "most"), [("operations", 256), ("processes", 1024)])
def test_a_report_has_a_bounded_length_which_is_checked_first(
    bench: WebBench, operations: Operations, field: str, most: int
) -> None:
    body = {"incarnation": 2, "seq": 1, field: [1] * (most + 1)}
    response = bench.client.post(f"/api/node/{NODE_ID}/report", json=body, headers=NODE)
    assert response.status_code == 400
    assert all(text in response.get_json()["error"] for text in (field, str(most + 1), f"at most {most}"))
    assert operations.reports == []


@pytest.mark.parametrize(
    ("address", "status"),
    [("gpu-1:50052", 200), ("GPU-1.:7", 200), ("gpu-2:50052", 400), ("gpu-1.evil:50052", 400), ("", 400)],
)
def test_a_process_listens_on_the_registered_host(
    bench: WebBench, operations: Operations, address: str, status: int
) -> None:
    process = ProcessReport(
        process_instance="p", model="m", slot=0, job_id="j", op_generation=1, address=address, pid=5, ready=True
    )
    operation = OperationReport(
        job_id="j", op_generation=1, op_state=OpState.CLAIMED, phase=Phase.LOADING, address=address
    )
    for said in (
        Report(incarnation=2, seq=1, processes=(process,)),
        Report(incarnation=2, seq=2, operations=(operation,)),
    ):
        response = bench.client.post(f"/api/node/{NODE_ID}/report", json=said.to_json(), headers=NODE)
        assert response.status_code == status, response.text
        assert status == 200 or "gpu-1" in response.get_json()["error"]
    assert len(operations.reports) == (2 if status == 200 else 0)


def test_a_heartbeat_leaves_out_what_the_node_could_not_read(bench: WebBench) -> None:
    body = {"incarnation": 4, "available_ram": 2**40, "cpu_load_1": 0.5}
    bench.client.post(f"/api/node/{NODE_ID}/heartbeat", json=body, headers=NODE)
    incarnation, figures = bench.nodes.beats[0]
    assert incarnation == 4
    assert (figures.available_ram, figures.cpu_load_1, figures.available_vram) == (2**40, 0.5, None)


def test_a_heartbeat_says_what_the_node_holds(bench: WebBench) -> None:
    held = {"path": "m/a.gguf", "sha256": "a" * 12, "bytes": 5}
    body = {"staged_files": [{**held, "of_a_newer_agent": 1}], "process_memory": {"p": 7}}
    assert bench.client.post(f"/api/node/{NODE_ID}/heartbeat", json=body, headers=NODE).status_code == 200
    bench.client.post(f"/api/node/{NODE_ID}/heartbeat", json={}, headers=NODE)
    assert bench.nodes.holdings == [Holdings(files=(HeldFile(**held),), memory={"p": 7}), Holdings()]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"staged_files": [{"path": "m/a", "sha256": "a" * 12, "bytes": -1}]}, "staged_files[0].bytes"),
        ({"staged_files": [{"path": "m/a", "sha256": "A", "bytes": 1}]}, "staged_files[0].sha256"),
        ({"staged_files": [{"sha256": "a" * 12, "bytes": 1}]}, "staged_files[0].path"),
        ({"staged_files": "m/a"}, "staged_files"),
        ({"process_memory": {"p": "much"}}, "process_memory.p"),
    ],
)
def test_what_a_node_holds_is_refused_by_the_field_that_is_wrong(
    bench: WebBench, body: dict[str, object], field: str
) -> None:
    answer = bench.client.post(f"/api/node/{NODE_ID}/heartbeat", json=body, headers=NODE)
    assert answer.status_code == 400 and field in answer.get_json()["error"]


def test_a_cpu_usage_above_100_percent_is_clamped(bench: WebBench) -> None:
    bench.client.post(f"/api/node/{NODE_ID}/heartbeat", json={"cpu_usage_percent": 103.4}, headers=NODE)
    assert bench.nodes.beats[0][1].cpu_usage_percent == 100.0


def test_a_heartbeat_of_an_unknown_node_is_404(bench: WebBench) -> None:
    unknown = "00000000-0000-4000-8000-000000000000"
    for headers in (NODE, REGISTRATION):  # it registers again: no credential is looked at
        assert bench.client.post(f"/api/node/{unknown}/heartbeat", headers=headers).status_code == 404


def test_a_registration_needs_the_token_in_header_and_body(bench: WebBench) -> None:
    body = {"name": "one", "address": "127.0.0.1:1", "token": "registration-token"}
    for headers, content in ((NODE, body), (REGISTRATION, {**body, "token": "x"}), ({}, body)):
        response = bench.client.post("/api/node/register", json=content, headers=headers)
        assert response.status_code == 401, content


def test_a_registration_is_answered_with_a_credential(bench: WebBench) -> None:
    from datetime import UTC, datetime

    def register(registration: Any, join_token_hash: str | None) -> Registered:
        bench.nodes.registered.append(registration)
        return Registered(
            id=NODE_ID,
            name="one",
            node_type="backend",
            status="pending",
            created_at=datetime(2030, 1, 2, tzinfo=UTC),
            incarnation=5,
            node_token="drawn",
        )

    bench.nodes.register = register  # type: ignore[attr-defined]
    body = {"name": "one", "address": "127.0.0.1:1", "token": "registration-token", "total_ram": 5}
    response = bench.client.post("/api/node/register", json=body, headers=REGISTRATION)
    assert response.status_code == 201
    answer = response.get_json()
    assert (answer["node_token"], answer["incarnation"], answer["created_at"]) == ("drawn", 5, "2030-01-02T00:00:00Z")
    assert answer["link"] == {"kind": "nats"}
    assert bench.nodes.registered[0].figures.total_ram == 5


def test_a_join_token_opens_a_registration_in_header_and_body(bench: WebBench) -> None:
    seen: list[str | None] = []

    def register(registration: Any, join_token_hash: str | None) -> Registered:
        seen.append(join_token_hash)
        raise JoinTokenRefused("the join token has expired")

    bench.nodes.register = register  # type: ignore[attr-defined]
    join = {"Authorization": f"Bearer {JOIN_TOKEN}"}
    body = {"name": "n", "address": "h:1"}
    response = bench.client.post("/api/node/register", json={**body, "token": JOIN_TOKEN}, headers=join)
    assert (response.status_code, response.get_json()["error"]) == (401, "the join token has expired")
    assert seen == [hash_of(JOIN_TOKEN)]
    for headers, token in ((join, "registration-token"), (REGISTRATION, JOIN_TOKEN), (join, "x")):
        response = bench.client.post("/api/node/register", json={**body, "token": token}, headers=headers)
        assert response.status_code == 401
    for method, path in ROUTES:
        url = f"/api/node/{NODE_ID}/{path}".rstrip("/")
        assert bench.client.open(url, method=method.upper(), json={}, headers=join).status_code == 401
    assert len(seen) == 1


def test_an_administrator_makes_a_join_token_for_a_name(bench: WebBench) -> None:
    admin = {"Authorization": f"Bearer {KEY}"}
    made = bench.client.post("/api/node-invitations", json={"name": "gpu-7"}, headers=admin)
    assert made.status_code == 201
    assert made.get_json() == {"name": "gpu-7", "token": JOIN_TOKEN, "expires_at": "2030-01-02T00:00:00Z"}
    bench.client.post("/api/node-invitations", json={"name": "gpu-7", "expires_in": 60}, headers=admin)
    assert bench.invitations.asked == [("gpu-7", 3600), ("gpu-7", 60)]
    for wrong, field in (({"name": ""}, "name"), ({}, "name"), ({"name": "n", "expires_in": 59}, "expires_in")):
        answer = bench.client.post("/api/node-invitations", json=wrong, headers=admin)
        assert answer.status_code == 400 and field in answer.text
    for headers in ({}, NODE, REGISTRATION):
        assert bench.client.post("/api/node-invitations", json={"name": "n"}, headers=headers).status_code == 401


def test_a_registration_that_comes_too_late_learns_the_newest_life(bench: WebBench) -> None:
    def register(registration: Any, join_token_hash: str | None) -> Registered:
        assert registration.after == 0
        raise NotTheNextLife(6)

    bench.nodes.register = register  # type: ignore[attr-defined]
    body = {"name": "n", "address": "h:1", "token": "registration-token", "after": 0}
    response = bench.client.post("/api/node/register", json=body, headers=REGISTRATION)
    assert (response.status_code, response.get_json()["incarnation"]) == (409, 6)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"node_type": "toaster"}, "node_type"),
        ({"address": None}, "address"),
        ({"total_ram": "much"}, "total_ram"),
        ({"labels": {"a": 1}}, "labels"),
        ({"labels": {str(number): "" for number in range(65)}}, "labels"),
        ({"labels": {"k" * 64: "v"}}, "labels"),
        ({"labels": {"": "v"}}, "labels"),
        ({"labels": {"k": "v" * 256}}, "labels"),
    ],
)
def test_a_registration_that_cannot_be_used_is_400(bench: WebBench, change: dict[str, Any], field: str) -> None:
    body = {"name": "one", "address": "127.0.0.1:1", "token": "registration-token", **change}
    response = bench.client.post("/api/node/register", json=body, headers=REGISTRATION)
    assert response.status_code == 400
    assert field in response.get_json()["error"]


# Files


def get(bench: WebBench, path: str, **headers: str) -> Any:
    return bench.client.get(f"/api/node/{NODE_ID}/files/{path}", headers={**NODE, **headers}, buffered=True)


def test_a_file_is_sent_whole(bench: WebBench) -> None:
    content = bytes(range(256)) * 3000
    assert len(content) > 2 * PIECE_BYTES
    (bench.models / "sub folder").mkdir()
    (bench.models / "sub folder" / "model.gguf").write_bytes(content)
    response = get(bench, "sub%20folder/model.gguf")
    assert response.status_code == 200
    assert response.data == content
    assert response.headers["Content-Length"] == str(len(content))
    assert response.headers["Accept-Ranges"] == "bytes"


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [("bytes=4-", 4, 10), ("bytes=0-0", 0, 1), ("bytes=2-5", 2, 6), ("bytes=8-99", 8, 10), ("bytes=-3", 7, 10)],
)
def test_st_01_a_range_is_sent_as_206(bench: WebBench, header: str, start: int, end: int) -> None:
    (bench.models / "f").write_bytes(b"0123456789")
    response = get(bench, "f", Range=header)
    assert response.status_code == 206
    assert response.data == b"0123456789"[start:end]
    assert response.headers["Content-Range"] == f"bytes {start}-{end - 1}/10"


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=99-100", "bytes=-0", f"bytes={'9' * 5000}-"])
def test_st_01_a_range_outside_is_416_with_the_size(bench: WebBench, header: str) -> None:
    (bench.models / "f").write_bytes(b"0123456789")
    response = get(bench, "f", Range=header)
    assert response.status_code == 416
    assert response.headers["Content-Range"] == "bytes */10"


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (f"bytes=7-{'9' * 5000}", b"789"),
        (f"bytes=-{'9' * 5000}", b"0123456789"),
        (f"bytes={'0' * 5000}8-", b"89"),
    ],
)
def test_a_range_may_have_any_number_of_digits(bench: WebBench, header: str, data: bytes) -> None:
    (bench.models / "f").write_bytes(b"0123456789")
    response = get(bench, "f", Range=header)
    assert (response.status_code, response.data) == (206, data)


@pytest.mark.parametrize("header", [None, "bytes=5-2,7-9", "lines=1-2", "bytes=x-", "bytes=\u0663-"])
def test_a_header_of_another_form_is_ignored(header: str | None) -> None:
    wanted = wanted_range(header, 10)
    assert wanted is not None and (wanted.start, wanted.length, wanted.partial) == (0, 10, False)


def test_an_empty_file_is_sent(bench: WebBench) -> None:
    (bench.models / "empty").write_bytes(b"")
    assert (get(bench, "empty").status_code, get(bench, "empty").data) == (200, b"")


@pytest.mark.parametrize(
    "path", ["../secret", "sub/../../secret", "%2e%2e/secret", "..%2fsecret", "/etc/passwd", "out/secret", "no"]
)
def test_nothing_outside_the_models_folder_is_sent(bench: WebBench, path: str) -> None:
    secret = bench.models.parent / "secret"
    secret.write_text("private bytes")
    (bench.models / "out").symlink_to(bench.models.parent)
    response = get(bench, path)
    assert response.status_code == 404
    assert b"private bytes" not in response.data


@pytest.mark.parametrize("path", ["f/../f", "f/.", "f/", "f/f", "./f", "sub/../f", "f" * 3000])
def test_a_path_in_another_spelling_is_no_file(bench: WebBench, path: str) -> None:
    (bench.models / "sub").mkdir()
    (bench.models / "f").write_bytes(b"x")
    assert get(bench, path).status_code == 404


def test_a_folder_is_no_file(bench: WebBench) -> None:
    (bench.models / "folder").mkdir()
    assert get(bench, "folder").status_code == 404


def test_a_link_in_the_folder_is_followed(bench: WebBench) -> None:
    """The plan follows it, too: models on another disk are linked in."""
    disk = bench.models.parent / "disk"
    disk.mkdir()
    (disk / "f").write_bytes(b"x")
    (bench.models / "file").symlink_to(disk / "f")
    (bench.models / "folder").symlink_to(disk)
    for path in ("file", "folder/f"):
        assert get(bench, path).data == b"x"


def test_a_folder_that_is_away_is_not_a_missing_file(bench: WebBench) -> None:
    bench.models.rename(bench.models.with_name("away"))
    response = get(bench, "f")
    assert response.status_code == 503
    assert "cannot be read" in response.get_json()["error"]


def test_files_need_the_node_s_credential(bench: WebBench) -> None:
    (bench.models / "f").write_bytes(b"x")
    for headers in ({}, REGISTRATION):
        assert bench.client.get(f"/api/node/{NODE_ID}/files/f", headers=headers).status_code == 401


def test_a_node_that_waits_for_approval_gets_no_file_and_gets_it_once_it_is_let_in(bench: WebBench) -> None:
    (bench.models / "f").write_bytes(b"x")
    bench.nodes.approved = False
    response = get(bench, "f")
    assert response.status_code == 403
    assert "localai nodes approve" in response.get_json()["error"]
    bench.nodes.approved = True
    assert get(bench, "f").data == b"x"


def test_only_what_a_running_operation_of_the_node_stages_is_sent(bench: WebBench, operations: Operations) -> None:
    for name in ("mine", "other"):
        (bench.models / name).write_bytes(b"bytes of " + name.encode())
    operations.staged = ("mine",)
    assert get(bench, "mine").data == b"bytes of mine"
    refused = get(bench, "other")
    assert (refused.status_code, b"bytes of" in refused.data) == (403, False)
    assert bench.client.head(f"/api/node/{NODE_ID}/files/other", headers=NODE).status_code == 403


@pytest.mark.parametrize("path", ["m.yaml", "m.yml", "link"])
def test_a_model_config_is_never_sent(bench: WebBench, path: str) -> None:
    for name in ("m.yaml", "m.yml"):
        (bench.models / name).write_text("env: {TOKEN: private}")
    (bench.models / "link").symlink_to(bench.models / "m.yaml")
    response = get(bench, path)
    assert (response.status_code, b"private" in response.data) == (403, False)


def test_a_yaml_file_in_a_folder_of_a_model_is_sent(bench: WebBench) -> None:
    (bench.models / "repository").mkdir()
    (bench.models / "repository" / "tokens.yaml").write_bytes(b"x")
    assert get(bench, "repository/tokens.yaml").data == b"x"


def test_a_known_digest_goes_with_the_file(tmp_path: Path) -> None:
    class Known:
        def known(self, path: Path) -> str | None:
            return "digest-of-" + path.name

    bench = WebBench(tmp_path, digests=Known(), operations=Operations())
    (bench.models / "f").write_bytes(b"x")
    assert get(bench, "f").headers["X-Content-SHA256"] == "digest-of-f"


def test_a_file_that_shrinks_while_it_is_sent_breaks_the_answer(bench: WebBench) -> None:
    path = bench.models / "f"
    path.write_bytes(b"x" * (2 * PIECE_BYTES))
    response = bench.client.get(f"/api/node/{NODE_ID}/files/f", headers=NODE, buffered=False)
    pieces = iter(response.response)
    next(pieces)
    path.write_bytes(b"")
    with pytest.raises(EOFError):
        list(pieces)
    response.close()


# Keys


def test_a_node_s_credential_is_believed_for_a_few_seconds(bench: WebBench) -> None:
    asked: list[str] = []

    class Nodes:
        valid = True

        def check_secret(self, node_id: str, secret: str) -> bool:
            return False

        def check_credential(self, node_id: str, token: str) -> bool:
            asked.append(token)
            return self.valid

        def get(self, node_id: str) -> None:
            return None

    keys = NodeKeys(Nodes(), "", clock=bench.clock)
    for _ in range(5):
        keys.require_node(NODE_ID, "t")
    assert asked == ["t"]
    keys.require_node(NODE_ID, "other")
    assert asked == ["t", "other"]
    bench.clock.advance(CREDENTIAL_AGE_S + 0.1)
    keys.require_node(NODE_ID, "t")
    assert asked == ["t", "other", "t"]


def test_any_token_registers_where_none_is_set(bench: WebBench) -> None:
    keys = NodeKeys(bench.nodes, "")
    assert keys.require_registration("") is None
    assert keys.require_registration("whatever") is None


def test_keys_accept_each_of_several_and_nothing_else() -> None:
    keys = Keys(["one", "two", ""])
    assert keys.accept("one") and keys.accept("two")
    assert not keys.accept("") and not keys.accept("three")
    assert not Keys([])


# Drains of its own, and removal


class Drains:
    """What was asked for; a node drains and resumes as often as it likes."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def drain(self, node_id: str) -> Drain:
        self.asked.append(("drain", node_id))
        return Drain(job_id="the-job", done=False, message="node set to draining")

    def resume(self, node_id: str) -> Drain:
        self.asked.append(("resume", node_id))
        return Drain(job_id=None, done=True, message="node resumed")


@pytest.mark.parametrize("headers", [NODE, {"Authorization": f"Bearer {NODE_SECRET}"}])
def test_a_machine_drains_and_resumes_itself(tmp_path: Path, headers: dict[str, str]) -> None:
    drains = Drains()
    bench = WebBench(tmp_path, drains=drains)
    drained = bench.client.post(f"/api/node/{NODE_ID}/drain", headers=headers)
    assert (drained.status_code, drained.get_json()) == (200, {"message": "node set to draining", "job_id": "the-job"})
    resumed = bench.client.post(f"/api/node/{NODE_ID}/resume", headers=headers)
    assert resumed.get_json() == {"message": "node resumed", "job_id": None}
    assert drains.asked == [("drain", NODE_ID), ("resume", NODE_ID)]
    for path in ("drain", "resume"):
        assert (
            bench.client.post(f"/api/node/{NODE_ID}/{path}", headers={"Authorization": "Bearer x"}).status_code == 401
        )
    assert len(drains.asked) == 2


def test_a_removed_node_is_told_so_and_an_unknown_one_is_not(bench: WebBench) -> None:
    removed, unknown = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    bench.nodes.removed = (removed,)
    for node_id, told in ((removed, True), (unknown, None)):
        answer = bench.client.post(f"/api/node/{node_id}/heartbeat", json={"incarnation": 1}, headers=NODE)
        assert (answer.status_code, answer.get_json().get("removed")) == (404, told)


def test_what_was_known_of_a_node_is_forgotten_when_it_changes() -> None:
    """A removed node's credential ends at once, and not with the age of what was remembered."""
    nodes = FakeNodes()
    keys = NodeKeys(nodes, "registration-token")
    assert keys.require_approved_node(NODE_ID, NODE_TOKEN).id == NODE_ID
    nodes.check_credential = lambda node_id, token: False  # type: ignore[method-assign]
    nodes.get = lambda node_id: None  # type: ignore[method-assign]
    nodes.removed = (NODE_ID,)
    assert keys.require_node(NODE_ID, NODE_TOKEN) == NODE_ID, "believed for a while"
    keys.forget(NODE_ID)
    with pytest.raises(NodeRemoved):
        keys.require_node(NODE_ID, NODE_TOKEN)
