"""What a client sends costs the others little and is never a fault of ours: bodies, headers and query strings that no
client of good will sends, to a real web process."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from localai.clock import boottime
from tests.fakes.inference import says
from tests.integration.web.bench import KEY, TOKEN, Bench, Node, WebProcess
from tests.loopback import LIMIT_S
from web.app import make_routes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

MIB = 1024 * 1024
ANY_ID = "00000000-0000-4000-8000-000000000000"
MANY_DIGITS = "9" * 5000


def ask(web: WebProcess, request: bytes) -> tuple[http.client.HTTPResponse, bytes]:
    with socket.create_connection(("127.0.0.1", web.settings.port), timeout=LIMIT_S) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response, response.read()


def test_a_body_of_many_values_is_refused_and_the_others_are_served_meanwhile(bench: Bench, web: WebProcess) -> None:
    """It held the loop for more than a minute and took gigabytes."""
    body = b'{"model": "m", "messages": [' + b"1," * (15 * MIB // 2 - 100) + b"1]}"
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with ThreadPoolExecutor(1) as pool:
        began = boottime()
        answer = pool.submit(
            httpx2.post, f"{web.url}/v1/chat/completions", content=body, headers=headers, timeout=LIMIT_S
        )
        longest, answered = 0.0, 0
        while not answer.done():
            asked = boottime()
            assert web.client.get("/healthz").status_code == 200
            longest, answered = max(longest, boottime() - asked), answered + 1
        took = boottime() - began
    assert answer.result().status_code == 413, answer.result().text
    assert answer.result().json()["error"]["code"] == "request_too_complex"
    assert answered and longest < 15 and took < 30, (longest, took)


def test_a_body_of_many_chunks_is_refused_and_its_client_reads_the_answer(bench: Bench, web: WebProcess) -> None:
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nx-api-key: {KEY}\r\nTransfer-Encoding: chunked\r\n\r\n"
    response, body = ask(web, head.encode() + b"1\r\n \r\n" * 200_000)
    assert response.status == 413
    assert json.loads(body)["error"]["code"] == "request_too_complex"


@pytest.mark.parametrize(
    "chunk", [b"zz\r\n", b"5\r\nab\r\n0\r\n\r\n", b"1\r\nxyz", b"0\r\nbad trailer\r\n\r\n", b"-1\r\n"]
)
@pytest.mark.parametrize("path", ["/api/auth/token-login", "/v1/chat/completions"])
def test_a_broken_chunk_is_400(bench: Bench, web: WebProcess, path: str, chunk: bytes) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {KEY}\r\nTransfer-Encoding: chunked\r\n\r\n"
    response, body = ask(web, head.encode() + chunk)
    assert response.status == 400, body
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "SCRIPT-NAME", "PATH_INFO", "REMOTE_USER"])
def test_a_header_does_not_move_the_application(bench: Bench, web: WebProcess, name: str) -> None:
    response, body = ask(web, f"GET /healthz HTTP/1.1\r\nHost: x\r\n{name}: /elsewhere\r\n\r\n".encode())
    assert response.status == 200, body


@pytest.mark.parametrize(
    "header",
    [
        f"Last-Event-ID: {MANY_DIGITS}",
        f"Range: bytes={MANY_DIGITS}-",
        f"Range: bytes=0-{MANY_DIGITS}",
        f"Range: bytes=-{MANY_DIGITS}",
        f"If-Modified-Since: {MANY_DIGITS}",
        "If-Modified-Since: Tue, 01 Jan 99999 00:00:00 GMT",
        f'If-Range: "{MANY_DIGITS}"',
        f"If-None-Match: {MANY_DIGITS}",
        f"Accept: text/html;q={MANY_DIGITS}",
        f"Accept-Encoding: gzip;q=1e{MANY_DIGITS}",
        f"Cookie: localai_session={MANY_DIGITS}.{MANY_DIGITS}; token=\xff",
        'Cookie: =;;="\\',
        "Authorization: Bearer \xff\xfe",
        "Authorization: Basic =",
        "Host: [",
        f"Host: x:{MANY_DIGITS}",
        f"X-Forwarded-Proto: {MANY_DIGITS}",
        "X-Forwarded-For: ::::",
        f"X-Request-Id: {MANY_DIGITS}",
        f"Content-Length: {MANY_DIGITS}",
        "Content-Length: \xb2",
        f"Keep-Alive: {MANY_DIGITS}",
        f"Expect: {MANY_DIGITS}",
    ],
    ids=lambda header: header[:40],
)
def test_no_header_is_a_fault(bench: Bench, web: WebProcess, followed: str, header: str) -> None:
    asset = re.search(rb'href="(/assets/[^"]+)"', web.client.get("/").content)
    assert asset is not None
    for path in ("/", "/v1/models", "/login", f"/api/jobs/{followed}/events", asset[1].decode()):
        host = "" if header.startswith("Host") else "Host: x\r\n"
        key = "" if header.startswith(("Authorization", "Cookie")) else f"x-api-key: {KEY}\r\n"
        response, body = ask(web, f"GET {path} HTTP/1.1\r\n{host}{key}{header}\r\n\r\n".encode("latin-1"))
        assert response.status < 500, (path, body)


@pytest.fixture(scope="module")
def followed(bench: Bench, web: WebProcess, node: Node) -> str:
    """A job that has ended."""
    bench.model("hostile")
    wait = bench.in_background(lambda: web.chat("hostile"))
    job_id = bench.place("hostile")
    bench.finish(job_id, bench.backend(says("done")))
    assert wait.result(LIMIT_S).status_code == 200
    return job_id


#: One value of each kind that a field may have and no reader expects.
VALUES = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1", "1e300", "9223372036854775808", MANY_DIGITS, "true", "null"),
    *('"x"', '"\\u0000"', '"\\ud800"', "[]", "{}", "[[[1]]]", '{"a": {"b": 1}}', '[{"a": NaN}]', "0.5", '""'),
)
#: Every name that a route reads.
NAMES = (
    *("model", "messages", "prompt", "input", "query", "documents", "top_n", "n", "stop", "tools", "tool_choice"),
    *(
        "response_format",
        "grammar",
        "logit_bias",
        "metadata",
        "max_tokens",
        "temperature",
        "seed",
        "stream",
        "dimensions",
    ),
    *("stream_options", "token", "job_id", "force", "model_name", "name", "address", "labels", "incarnation", "seq"),
    *("operations", "processes", "op_generation", "staged_files", "process_memory", "total_ram", "cpu_load_1", "after"),
)


def bodies() -> Iterator[bytes]:
    """Each value in every field at once, and bodies of another shape."""
    for value in VALUES:
        yield ("{" + ", ".join(f'"{name}": {value}' for name in NAMES) + "}").encode()
    item = '{"job_id": "x", "op_generation": 1e300, "op_state": "claimed", "phase": "loading", "path": 1, "slot": 1e99}'
    lists = ", ".join(
        f'"{name}": [{item}]' for name in ("operations", "processes", "staged_files", "messages", "tools")
    )
    yield ('{"incarnation": 1, "seq": 1, "name": "n", "model": "none", ' + lists + "}").encode()
    yield from (b"", b"[", b"{", b"\xff", b"1", b"[" * 50_000, b'{"a":' * 90 + b"1" + b"}" * 90)


def routes() -> list[tuple[str, str]]:
    found = []
    for rule in make_routes().url_map.iter_rules():
        path = re.sub(
            r"<(?:path:)?(\w+)>", lambda match: match[1] if match[1].endswith("_id") else "hostile", rule.rule
        )
        found += [
            (method, path) for method in sorted(rule.methods or ()) if method in ("POST", "PUT", "PATCH", "DELETE")
        ]
    return sorted(found)


def test_no_body_is_a_fault_whatever_the_route(bench: Bench, web: WebProcess, node: Node, followed: str) -> None:
    faults = []
    with httpx2.Client(base_url=web.url, timeout=LIMIT_S) as client:
        for method, route in routes():
            node_s = route.startswith("/api/node/")
            # An administrator's routes name no node and no job: some of these bodies would drain it.
            path = route.replace("job_id", ANY_ID).replace("node_id", node.id if node_s else ANY_ID)
            token = TOKEN if path.endswith("/register") else node.headers["Authorization"].split()[1] if node_s else KEY
            if path.endswith("deregister") or (node_s and method == "DELETE"):
                continue  # these bodies would end the node in good order
            for body in bodies():
                response = client.request(method, path, content=body, headers={"Authorization": f"Bearer {token}"})
                # 503: the test is in the place of control, and nothing is done about jobs.
                if response.status_code >= 500 and response.status_code not in (502, 503, 504):
                    faults.append((method, path, body[:80], response.text))
    assert faults == []
