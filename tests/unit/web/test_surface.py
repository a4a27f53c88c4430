"""What every route has in common: keys, ids, envelopes, limits, and no text of a fault."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from localai.errors import StorageUnavailable
from tests.fakes.inference import says
from tests.fakes.web import KEY, NODE_ID, NODE_TOKEN, WebBench
from web.access import Access

pytestmark = pytest.mark.unit


def test_every_route_says_who_may_call_it(bench: WebBench) -> None:
    unsaid = [name for name, view in bench.app.view_functions.items() if not hasattr(view, "access")]
    assert unsaid == []


def test_only_these_routes_are_open(bench: WebBench) -> None:
    found = {
        rule.rule
        for rule in bench.app.url_map.iter_rules()
        if bench.app.view_functions[rule.endpoint].access is Access.ANYBODY  # type: ignore[attr-defined]
    }
    assert found == {
        "/",
        "/healthz",
        "/readyz",
        "/assets/<version>/<path:name>",
        "/login",
        "/api/auth/status",
        "/api/auth/token-login",
    }


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer {KEY}"},
        {"Authorization": KEY},
        {"x-api-key": KEY},
        {"xi-api-key": KEY},
        {"Authorization": "Bearer wrong", "x-api-key": KEY},
    ],
)
def test_a_key_is_accepted_in_every_form(bench: WebBench, headers: dict[str, str]) -> None:
    assert bench.client.get("/v1/models", headers=headers).status_code == 200


def test_a_key_is_accepted_as_a_cookie(bench: WebBench) -> None:
    bench.client.set_cookie("token", KEY)
    assert bench.client.get("/v1/models").status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"x-api-key": ""}, {"x-api-key": "é"}])
@pytest.mark.parametrize("path", ["/v1/models", "/api/models", "/api/jobs", "/api/nodes", "/version"])
def test_a_wrong_key_is_401_and_says_how_to_send_one(bench: WebBench, path: str, headers: dict[str, str]) -> None:
    response = bench.client.get(path, headers=headers)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.get_json()["error"]["message"]


def test_a_wrong_key_is_found_before_the_body_is_read(bench: WebBench) -> None:
    response = bench.client.post("/v1/chat/completions", data=b"{", headers={"x-api-key": "wrong"})
    assert response.status_code == 401


def test_the_request_id_goes_in_and_out(bench: WebBench) -> None:
    for name in ("X-Request-Id", "X-Correlation-ID"):
        response = bench.client.get("/healthz", headers={name: "abc-123"})
        assert response.headers["X-Request-Id"] == response.headers["X-Correlation-ID"] == "abc-123"


@pytest.mark.parametrize("given", ["", "a b", "x" * 200, "né"])
def test_an_unusable_request_id_is_replaced(bench: WebBench, given: str) -> None:
    response = bench.client.get("/healthz", headers={"X-Request-Id": given})
    assert response.headers["X-Request-Id"] not in ("", given)


def test_errors_carry_the_request_id_too(bench: WebBench) -> None:
    assert bench.client.get("/nowhere").headers["X-Request-Id"]
    assert bench.client.get("/v1/models").headers["X-Request-Id"]


def test_one_line_for_each_request(bench: WebBench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "web.request")
    bench.model("m", says("a"))
    response = bench.chat(stream=True)
    (record,) = [record for record in caplog.records if record.name == "web.request"]
    fields: dict[str, Any] = record.fields  # type: ignore[attr-defined]
    assert {"method", "path", "status", "ms", "request_id", "sql", "model"} <= fields.keys()
    assert fields["request_id"] == response.headers["X-Request-Id"]
    assert (fields["path"], fields["status"], fields["sql"], fields["model"]) == ("/v1/chat/completions", 200, 0, "m")


def test_probes_are_not_logged_at_the_usual_level(bench: WebBench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "web.request")
    bench.client.get("/healthz")
    assert [record for record in caplog.records if record.name == "web.request"] == []


def test_an_unknown_route_is_an_envelope_for_programs_and_a_page_for_people(bench: WebBench) -> None:
    assert bench.client.get("/v1/nowhere").get_json()["error"]["code"] == "not_found"
    page = bench.client.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert (page.status_code, page.mimetype) == (404, "text/html")
    assert bench.client.get("/api/node/x/nowhere").get_json() == {"error": "there is nothing at /api/node/x/nowhere"}


def test_a_wrong_method_is_405_with_the_right_ones(bench: WebBench) -> None:
    response = bench.get("/v1/chat/completions")
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    assert response.get_json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("data", [b'{"model": "m", ', b"", b"\xff\xfe", b"[" * 100])
def test_malformed_json_is_400(bench: WebBench, data: bytes) -> None:
    response = bench.client.post("/v1/chat/completions", data=data, headers=bench.key())
    assert response.status_code == 400
    error = response.get_json()["error"]
    assert "JSON" in error["message"] and error["param"] == "body"


@pytest.mark.parametrize("escape", [r"\u0000", r"\ud800", r"\uDC00\ud800"])
def test_what_is_no_character_is_replaced_and_no_fault(bench: WebBench, escape: str) -> None:
    bench.model("m", says("a"))
    text = f'{{"model": "m", "messages": [{{"role": "user", "content": "x{escape}y \\ud83d\\ude00"}}]}}'
    response = bench.client.post("/v1/chat/completions", data=text.encode(), headers=bench.key())
    assert response.status_code == 200
    ((_, options),) = bench.inference.asked
    shown = options.Messages[0].content if options.Messages else options.Prompt
    assert shown.strip("\ufffd") and shown.replace("\ufffd", "") == "xy \U0001f600"
    assert "\ufffd" in shown


def test_a_body_that_cannot_be_read_is_400(bench: WebBench) -> None:
    class Broken:
        def read(self, *_: object) -> bytes:
            raise OSError("Invalid chunk size: b'zz'")

    response = bench.client.post(
        "/v1/chat/completions", headers=bench.key(), environ_overrides={"wsgi.input": Broken(), "CONTENT_LENGTH": "5"}
    )
    assert response.status_code == 400
    assert response.get_json()["error"]["param"] == "body"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/jobs?subject=a%00b", 400), ("/api/jobs?a%00=b", 400), ("/api/models/%00/load-status", 404)],
)
def test_a_nul_in_an_address_is_the_caller_s_mistake(bench: WebBench, path: str, status: int) -> None:
    assert bench.get(path).status_code == status


@pytest.mark.parametrize("body", [[1, 2], "text", 3, None])
def test_json_that_is_no_object_is_400(bench: WebBench, body: Any) -> None:
    response = bench.post("/v1/chat/completions", body)
    assert response.status_code == 400
    assert response.get_json()["error"]["param"] == "body"


def test_a_body_over_the_limit_is_413_and_names_the_setting(bench: WebBench) -> None:
    bench.app.config["BODY_LIMIT_BYTES"] = 1000
    response = bench.chat(messages=[{"role": "user", "content": "x" * 2000}])
    assert response.status_code == 413
    assert "LOCALAI_UPLOAD_LIMIT" in response.get_json()["error"]["message"]


def test_se_05_a_fault_shows_its_request_id_and_nothing_else(bench: WebBench, caplog: pytest.LogCaptureFixture) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("postgresql://user:secret@host")

    bench.app.extensions["localai"].configs.require = explode
    response = bench.chat()
    assert response.status_code == 500
    text = response.get_data(as_text=True)
    assert "secret" not in text and "Traceback" not in text and "RuntimeError" not in text
    assert response.headers["X-Request-Id"] in text
    assert any(record.exc_info for record in caplog.records), "the log has it"


def test_a_database_that_is_away_is_503_with_retry_after(bench: WebBench) -> None:
    def refuse(*_: object) -> None:
        raise StorageUnavailable("connection to server at 127.0.0.1 refused")

    bench.loads.status = refuse  # type: ignore[attr-defined]
    response = bench.get("/api/models/m/load-status")
    assert (response.status_code, response.get_json()["error"]["code"]) == (503, "storage_unavailable")
    assert response.headers["Retry-After"] == "5"
    assert "127.0.0.1" not in response.get_data(as_text=True)


def test_liveness_depends_on_nothing(bench: WebBench) -> None:
    bench.table.clear()
    assert bench.client.get("/healthz").status_code == 200


def test_readiness_waits_for_the_routes(bench: WebBench) -> None:
    bench.table.clear()
    response = bench.client.get("/readyz")
    assert response.status_code == 503
    assert response.get_json()["status"] == "starting"


def test_stale_routes_keep_a_process_ready_and_are_named(bench: WebBench) -> None:
    from localai.routing.rules import Lease

    lease = Lease.granted(bench.clock(), 90)
    bench.clock.advance(100)
    bench.table.hold(lease.refused(bench.clock()))
    response = bench.client.get("/readyz")
    assert response.status_code == 200
    assert "stale routing" in response.get_data(as_text=True)


def test_the_page_says_ready_and_needs_no_script(bench: WebBench) -> None:
    response = bench.client.get("/")
    text = response.get_data(as_text=True)
    assert response.status_code == 200
    assert ">\n      ready\n" in text
    assert "<script" not in text and "style=" not in text
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    style = text.split('rel="stylesheet" href="')[1].split('"')[0]
    css = bench.client.get(style, buffered=True)
    assert css.status_code == 200 and "immutable" in css.headers["Cache-Control"]
    assert bench.client.get("/assets/other/css/shell.css").status_code == 404


def test_the_models_list_has_the_original_api_s_shape(bench: WebBench) -> None:
    bench.model("org/name:v1")
    body = bench.get("/v1/models").get_json()
    assert body["object"] == "list"
    assert [model["id"] for model in body["data"]] == ["org/name:v1"]
    assert body["data"][0]["object"] == "model"
    assert bench.get("/v1/models/org/name:v1").get_json()["id"] == "org/name:v1"
    assert bench.get("/v1/models/nobody").get_json()["error"]["code"] == "model_not_found"


class Statuses:
    """A load service that knows one model."""

    def __init__(self, known: str) -> None:
        self.known = known
        self.asked: list[str] = []

    def status(self, model: str) -> Any:
        self.asked.append(model)
        return _Status(model) if model == self.known else None


class _Status:
    def __init__(self, model: str) -> None:
        self.model, self.state = model, "staging"

    def to_json(self) -> dict[str, Any]:
        return {"model": self.model, "state": self.state}


@pytest.mark.parametrize("path", ["org/name:v1", "org%2Fname:v1", "org%2fname%3Av1"])
def test_ap_09_a_name_is_decoded_once_also_with_an_encoded_slash(bench: WebBench, path: str) -> None:
    statuses = Statuses("org/name:v1")
    bench.loads.status = statuses.status  # type: ignore[attr-defined]
    response = bench.get(f"/api/models/{path}/load-status")
    assert response.get_json() == {"model": "org/name:v1", "state": "staging"}
    assert bench.get("/api/models/org%252Fname/load-status").status_code == 404
    assert statuses.asked[-1] == "org%2Fname"


def test_nothing_loading_is_404_and_no_name_is_400(bench: WebBench) -> None:
    bench.loads.status = Statuses("x").status  # type: ignore[attr-defined]
    response = bench.get("/api/models/m/load-status")
    assert (response.status_code, response.get_json()["error"]["type"]) == (404, "not_found_error")
    assert bench.get("/api/models//load-status").status_code == 400


def test_the_models_page_shows_how_loaded_each_is(bench: WebBench) -> None:
    bench.loads.status = Statuses("loading-one").status  # type: ignore[attr-defined]
    bench.model("loaded-one", says("a"))
    bench.model("loading-one")
    bench.model("idle-one")
    (bench.models / "broken.yaml").write_text("name: [")
    bench.configs.refresh()
    body = bench.get("/api/models").get_json()
    states = {model["name"]: model["state"] for model in body["models"]}
    assert states == {"loaded-one": "loaded", "loading-one": "staging", "idle-one": "unloaded"}
    assert body["models"][1]["replicas"][0]["node"] == "one"
    assert [problem["file"] for problem in body["problems"]] == ["broken.yaml"]


@pytest.mark.parametrize(
    ("path", "headers", "most"),
    [
        ("/api/auth/token-login", {}, 16 * 1024),
        (f"/api/node/{NODE_ID}/heartbeat", {"Authorization": f"Bearer {NODE_TOKEN}"}, 2 * 1024 * 1024),
        (f"/api/node/{NODE_ID}/report", {"Authorization": f"Bearer {NODE_TOKEN}"}, 2 * 1024 * 1024),
        (f"/api/node/{NODE_ID}/jobs/x/claim", {"Authorization": f"Bearer {NODE_TOKEN}"}, 64 * 1024),
        ("/backend/load", {"x-api-key": KEY}, 64 * 1024),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_route_reads_no_more_than_it_takes(
    bench: WebBench, path: str, headers: dict[str, str], most: int, chunked: bool
) -> None:
    read: list[int] = []

    class Endless:
        def read(self, size: int) -> bytes:
            read.append(size)
            return b" " * size

    environ: dict[str, Any] = {"wsgi.input": Endless()}
    if chunked:
        environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    else:
        environ |= {"CONTENT_LENGTH": str(most + 1)}
    response = bench.client.post(path, headers=headers, environ_overrides=environ)
    assert response.status_code == 413, response.get_data(as_text=True)
    assert str(most) in response.get_data(as_text=True)
    assert sum(read) <= (most + 1 if chunked else 0)


def test_a_body_that_is_late_is_408(bench: WebBench) -> None:
    class Late:
        def read(self, size: int) -> bytes:
            raise TimeoutError

    response = bench.client.post(
        "/api/auth/token-login", environ_overrides={"wsgi.input": Late(), "CONTENT_LENGTH": "9"}
    )
    assert response.status_code == 408
    assert "30 seconds" in response.get_json()["error"]["message"]
