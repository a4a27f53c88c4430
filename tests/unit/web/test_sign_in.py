"""Signing in with the admin key: what the browser gets, what it may do with it, and when that ends."""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.test import TestResponse

from localai import callers, metrics
from localai.callers import Caller, key_name
from tests.fakes.web import KEY, NODE_ID, FakeEndedSessions, WebBench
from web.auth.ended import BELIEVED_S, EndedSessions
from web.auth.sessions import AHEAD_S, COOKIE, CSRF_HEADER, SESSION_S, Sessions
from web.identity import Keys

pytestmark = pytest.mark.unit

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
#: Writes of an admin that need no body; the fakes know no such node.
A_WRITE = "/api/auth/logout"
NONE_ENDED = EndedSessions(FakeEndedSessions(), SESSION_S)


def sign_in(bench: WebBench, token: Any = KEY, **options: Any) -> TestResponse:
    return bench.client.post("/api/auth/token-login", json={"token": token}, **options)


def session(bench: WebBench) -> str:
    cookie = bench.client.get_cookie(COOKIE)
    assert cookie is not None
    return str(cookie.value)


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_the_cookie_is_no_key_and_no_script_or_other_site_gets_it(bench: WebBench) -> None:
    response = sign_in(bench)
    assert response.status_code == 200
    header = response.headers["Set-Cookie"]
    assert KEY not in header and KEY not in response.get_data(as_text=True)
    assert "HttpOnly" in header and "SameSite=Strict" in header and "Path=/" in header and "Secure" not in header
    assert f"Max-Age={SESSION_S}" in header


@pytest.mark.parametrize("way", [{"base_url": "https://localhost"}, {"headers": {"X-Forwarded-Proto": "https"}}])
def test_over_https_the_cookie_stays_on_https(bench: WebBench, way: dict[str, Any]) -> None:
    assert "Secure" in sign_in(bench, **way).headers["Set-Cookie"]


def test_the_scheme_of_a_stranger_is_not_believed(bench: WebBench) -> None:
    way = {"headers": {"X-Forwarded-Proto": "https"}, "environ_base": {"REMOTE_ADDR": "192.0.2.1"}}
    assert "Secure" not in sign_in(bench, **way).headers["Set-Cookie"]


def test_the_cookie_reads(bench: WebBench) -> None:
    sign_in(bench)
    for path in ("/v1/models", "/api/models", "/app/chat"):
        assert bench.client.get(path).status_code == 200


@pytest.mark.parametrize("around", [" {} ", "{}\n", "\r\n\t{}\r\n", "\u00a0{}"])
def test_what_copying_put_around_the_key_is_taken_off(bench: WebBench, around: str) -> None:
    assert sign_in(bench, around.format(KEY)).status_code == 200


@pytest.mark.parametrize("token", ["the-\nkey", "the-key\r\nX-Evil: 1", "a\x1bb", "a\u2028b", "x" * 5000])
def test_a_line_break_inside_the_key_is_a_clear_400(bench: WebBench, token: str) -> None:
    response = sign_in(bench, token)
    error = response.get_json()["error"]
    assert (response.status_code, error["param"]) == (400, "token")
    assert "one line" in error["message"]
    assert token not in response.get_data(as_text=True), "a key is not shown, not even a wrong one"


@pytest.mark.parametrize("token", [None, "", "  \n", 7, ["the-key"], {"a": 1}, True])
def test_no_key_is_400(bench: WebBench, token: Any) -> None:
    response = sign_in(bench, token)
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, "token")


@pytest.mark.parametrize("escape", [b"\\ud800", b"\\udc80", b"\\u0000"])
def test_what_is_no_character_is_no_key_and_no_fault(bench: WebBench, escape: bytes) -> None:
    response = bench.client.post("/api/auth/token-login", data=b'{"token": "a' + escape + b'b"}')
    assert response.status_code in (400, 401)


@pytest.mark.parametrize("token", ["wrong", "ключ", KEY + "x", KEY.upper(), "🔑"])
def test_a_wrong_key_is_401_and_sets_nothing(bench: WebBench, token: str) -> None:
    response = sign_in(bench, token)
    assert response.status_code == 401
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("data", [b"", b"token=the-key", b"[]", b'"the-key"', b"{"])
def test_another_body_than_an_object_is_400(bench: WebBench, data: bytes) -> None:
    assert bench.client.post("/api/auth/token-login", data=data).status_code == 400


@pytest.mark.parametrize("headers", [{}, {CSRF_HEADER: ""}, {CSRF_HEADER: "wrong"}, {CSRF_HEADER: "é"}])
def test_a_write_with_the_cookie_alone_is_403(bench: WebBench, headers: dict[str, str]) -> None:
    sign_in(bench)
    response = bench.client.post(A_WRITE, headers=headers)
    assert (response.status_code, response.get_json()["error"]["code"]) == (403, "csrf_token_missing")
    bench.model("m")
    assert bench.client.post("/v1/chat/completions", json={"model": "m"}, headers=headers).status_code == 403


def test_a_write_with_the_token_of_its_session_is_let_through(bench: WebBench) -> None:
    token = sign_in(bench).get_json()["csrf_token"]
    assert bench.client.post(A_WRITE, headers={CSRF_HEADER: token}).status_code == 200


def test_the_token_of_another_session_is_refused(bench: WebBench) -> None:
    other = sign_in(bench).get_json()["csrf_token"]
    sign_in(bench)
    assert bench.client.post(A_WRITE, headers={CSRF_HEADER: other}).status_code == 403


def test_a_write_with_the_key_in_a_header_needs_no_token_also_beside_a_cookie(bench: WebBench) -> None:
    sign_in(bench)
    assert bench.client.post(A_WRITE, headers=bench.key()).status_code == 200


def test_a_key_as_a_cookie_writes_only_with_the_header_that_no_other_site_can_add(bench: WebBench) -> None:
    bench.client.set_cookie("token", KEY)
    assert bench.client.get("/v1/models").status_code == 200
    assert bench.client.post(A_WRITE).status_code == 403
    assert bench.client.post(A_WRITE, headers={CSRF_HEADER: "any"}).status_code == 200


@pytest.mark.parametrize(
    "value", ["x", "a.b.c", "." * 199, "x" * 3000, "é", KEY, "YQ.YQ.YQ", "%00", "\u2028", "a.9999999999999.c"]
)
def test_a_forged_cookie_is_401_for_a_program_and_the_sign_in_for_a_person(bench: WebBench, value: str) -> None:
    bench.client.set_cookie(COOKIE, value)
    response = bench.client.get("/api/nodes")
    assert response.status_code == 401 and response.headers["WWW-Authenticate"] == "Bearer"
    page = bench.client.get("/app/jobs?state=failed", headers=HTML)
    assert (page.status_code, page.headers["Location"]) == (303, "/login?next=%2Fapp%2Fjobs%3Fstate%3Dfailed")


def test_a_changed_letter_anywhere_ends_a_session(bench: WebBench) -> None:
    sign_in(bench)
    value = session(bench)
    for at in range(len(value)):
        other = "A" if value[at] != "A" else "B"
        if at == len(value) - 1:
            continue  # the last letter of base64 has bits that mean nothing
        bench.client.set_cookie(COOKIE, value[:at] + other + value[at + 1 :])
        assert bench.client.get("/v1/models").status_code == 401, at


def test_a_session_ends_with_its_time() -> None:
    clock = Clock()
    sessions = Sessions(Keys([KEY]), NONE_ENDED, clock=clock)
    value = sessions.begin(KEY)
    assert sessions.accept(value)
    clock.now += SESSION_S
    assert sessions.accept(value)
    clock.now += 1
    assert not sessions.accept(value)
    assert sessions.csrf_token(value) == ""


def test_a_session_of_a_frontend_whose_clock_is_ahead_is_accepted_within_a_bound() -> None:
    ahead, behind = Clock(), Clock()
    ahead.now += AHEAD_S
    value = Sessions(Keys([KEY]), NONE_ENDED, clock=ahead).begin(KEY)
    assert Sessions(Keys([KEY]), NONE_ENDED, clock=behind).accept(value)
    behind.now -= 1
    assert not Sessions(Keys([KEY]), NONE_ENDED, clock=behind).accept(value), (
        "a wrong clock lengthens no session by hours"
    )


def test_a_session_ends_with_its_key_and_outlives_the_others() -> None:
    one = Sessions(Keys(["one"]), NONE_ENDED).begin("one")
    assert Sessions(Keys(["two", "one"]), NONE_ENDED).accept(one), "any frontend with the key"
    assert not Sessions(Keys(["two"]), NONE_ENDED).accept(one)
    assert not Sessions(Keys([]), NONE_ENDED).accept(one)


def test_two_sessions_differ() -> None:
    sessions = Sessions(Keys([KEY]), NONE_ENDED, clock=Clock())
    one, two = sessions.begin(KEY), sessions.begin(KEY)
    assert one != two
    assert sessions.csrf_token(one) != sessions.csrf_token(two)
    assert not sessions.may_write(one or "", sessions.csrf_token(two))
    assert not sessions.may_write("forged", ""), "nothing equals nothing"


def test_signing_out_takes_the_cookie_and_the_page(bench: WebBench) -> None:
    token = sign_in(bench).get_json()["csrf_token"]
    bench.client.post(A_WRITE, headers={CSRF_HEADER: token})
    assert bench.client.get_cookie(COOKIE) is None
    assert bench.client.get("/app/chat", headers=HTML).status_code == 303


def test_the_status_says_who_is_there_and_how_to_write(bench: WebBench) -> None:
    before = bench.client.get("/api/auth/status").get_json()
    assert (before["authEnabled"], before["user"]) == (True, None)
    assert "csrf_token" not in before
    token = sign_in(bench).get_json()["csrf_token"]
    after = bench.client.get("/api/auth/status")
    assert after.get_json()["user"]["role"] == "admin"
    assert after.get_json()["csrf_token"] == token
    assert after.headers["Cache-Control"] == "no-store"


def test_the_status_with_a_stale_cookie_says_nobody(bench: WebBench) -> None:
    bench.client.set_cookie(COOKIE, "stale")
    assert bench.client.get("/api/auth/status").get_json()["user"] is None


def refused(kind: str) -> float:
    return float(metrics.CREDENTIALS_REFUSED.labels(kind)._value.get())


def test_after_ten_wrong_keys_an_address_waits_also_with_the_right_one(bench: WebBench) -> None:
    there = {"environ_base": {"REMOTE_ADDR": "192.0.2.1"}}
    before = refused("login")
    for _ in range(10):
        assert sign_in(bench, "wrong", **there).status_code == 401
    for key in ("wrong", KEY):
        response = sign_in(bench, key, **there)
        assert response.status_code == 429
        assert 0 < int(response.headers["Retry-After"]) <= 61
        assert response.get_json()["error"]["code"] == "too_many_logins"
    assert refused("login") - before == 12
    assert sign_in(bench, environ_base={"REMOTE_ADDR": "192.0.2.2"}).status_code == 200


def test_clients_of_a_proxy_are_told_apart(bench: WebBench) -> None:
    for _ in range(11):
        sign_in(bench, "wrong", headers={"X-Forwarded-For": "192.0.2.1"})
    assert sign_in(bench, headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 429
    assert sign_in(bench, headers={"X-Forwarded-For": "192.0.2.2"}).status_code == 200


@pytest.mark.parametrize(
    ("kind", "path", "headers"),
    [
        ("key", "/v1/models", {"x-api-key": "wrong"}),
        ("key", "/v1/models", {"Authorization": "Bearer wrong"}),
        ("node", f"/api/node/{NODE_ID}/models", {"Authorization": "Bearer wrong"}),
    ],
)
def test_a_refused_credential_is_counted(bench: WebBench, kind: str, path: str, headers: dict[str, str]) -> None:
    before = refused(kind)
    assert bench.client.get(path, headers=headers).status_code == 401
    assert refused(kind) == before + 1


def test_a_refused_session_is_counted(bench: WebBench) -> None:
    before = refused("session")
    bench.client.set_cookie(COOKIE, "wrong")
    assert bench.client.get("/v1/models").status_code == 401
    assert refused("session") == before + 1


def test_a_request_without_a_credential_is_no_refused_one(bench: WebBench) -> None:
    before = [refused(kind) for kind in ("login", "key", "session", "node")]
    assert bench.client.get("/v1/models").status_code == 401
    assert [refused(kind) for kind in ("login", "key", "session", "node")] == before


@pytest.mark.parametrize(("path", "status"), [("/api/auth/status", 200), ("/v1/models", 401), ("/no/such/route", 404)])
def test_no_answer_in_json_is_kept_by_a_cache(bench: WebBench, path: str, status: int) -> None:
    response = bench.client.get(path)
    assert response.mimetype == "application/json"
    assert response.headers["Cache-Control"] == "no-store"


def fields_of(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    found: dict[str, Any] = [record for record in caplog.records if record.name == "web.request"][-1].fields  # type: ignore[attr-defined]
    return found


def test_the_line_of_a_request_names_its_client_and_the_digest_of_its_key(
    bench: WebBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "web.request")
    bench.client.get("/v1/models", headers={"x-api-key": KEY, "X-Forwarded-For": "192.0.2.1"})
    assert (fields_of(caplog)["client"], fields_of(caplog)["key"]) == ("192.0.2.1", key_name(KEY))
    sign_in(bench)
    assert fields_of(caplog)["key"] == key_name(KEY)
    bench.client.get("/v1/models")
    assert fields_of(caplog)["key"] == key_name(KEY), "of the session"
    bench.client.get(
        "/v1/models", headers={"x-api-key": "wrong", "Cookie": ""}, environ_base={"REMOTE_ADDR": "192.0.2.9"}
    )
    assert fields_of(caplog)["client"] == "192.0.2.9"
    assert KEY not in str([record.__dict__ for record in caplog.records])


def test_events_of_a_request_name_its_caller_and_the_next_request_has_another(bench: WebBench) -> None:
    bench.client.get("/v1/models", headers={"x-api-key": KEY, "X-Forwarded-For": "192.0.2.1"})
    assert callers.current() == Caller("192.0.2.1", key_name(KEY))
    bench.client.get("/v1/models", headers={"x-api-key": "wrong"})
    assert callers.current() is None


def csrf(bench: WebBench) -> dict[str, str]:
    return {CSRF_HEADER: bench.client.get("/api/auth/status").get_json()["csrf_token"]}


def test_signing_out_ends_the_session_also_for_a_copy_of_its_cookie(bench: WebBench) -> None:
    sign_in(bench)
    copied = session(bench)
    assert bench.client.post(A_WRITE, headers=csrf(bench)).status_code == 200
    bench.client.set_cookie(COOKIE, copied)
    assert bench.client.get("/v1/models").status_code == 401
    assert bench.client.get("/api/auth/status").get_json()["user"] is None
    sign_in(bench)
    assert bench.client.get("/v1/models").status_code == 200, "a new session"


def test_another_frontend_learns_of_the_end_within_seconds() -> None:
    rows, clock = FakeEndedSessions(), Clock()
    here = EndedSessions(rows, SESSION_S, clock=clock)
    there = EndedSessions(rows, SESSION_S, clock=clock)
    assert not there.is_ended("v")
    here.end("v")
    assert here.is_ended("v") and not there.is_ended("v")
    clock.now += BELIEVED_S
    assert there.is_ended("v")


def test_while_the_database_is_away_sessions_go_on_and_ended_ones_stay_ended() -> None:
    rows, clock = FakeEndedSessions(), Clock()
    ended = EndedSessions(rows, SESSION_S, clock=clock)
    ended.end("v")
    rows.away = True
    clock.now += SESSION_S
    assert ended.is_ended("v") and not ended.is_ended("w")


def test_a_sign_out_that_no_row_holds_is_no_success(bench: WebBench) -> None:
    sign_in(bench)
    headers = csrf(bench)
    bench.ended.away = True
    assert bench.client.post(A_WRITE, headers=headers).status_code == 503
    assert bench.client.get("/v1/models").status_code == 401, "this process knows it"
