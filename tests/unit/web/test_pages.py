"""The pages as the server sends them: who sees them, what they may run, and where a link may lead."""

from __future__ import annotations

import gzip
import re
from html import unescape
from pathlib import Path

import pytest

from tests.fakes.web import KEY, WebBench
from web.auth.sessions import COOKIE
from web.pages.assets import STATIC, modules_of
from web.pages.routes import own_path

pytestmark = pytest.mark.unit

HTML = {"Accept": "text/html"}
JOB = "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11"
PAGES = ["/app/chat", "/app/models", "/app/nodes", "/app/jobs", f"/app/jobs/{JOB}"]
TEMPLATES = STATIC.parent / "templates"


@pytest.fixture
def signed_in(bench: WebBench) -> WebBench:
    assert bench.client.post("/api/auth/token-login", json={"token": KEY}).status_code == 200
    return bench


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_for_who_has_signed_in(bench: WebBench, path: str) -> None:
    response = bench.client.get(path, headers=HTML)
    assert (response.status_code, response.headers["Location"]) == (303, "/login?next=" + path.replace("/", "%2F"))
    assert bench.client.get(path).status_code == 401


@pytest.mark.parametrize("path", [*PAGES, "/login"])
def test_a_page_runs_and_shows_only_files_of_this_server(signed_in: WebBench, path: str) -> None:
    if path == "/login":
        signed_in.client.delete_cookie(COOKIE)
    response = signed_in.client.get(path, headers=HTML)
    text = response.get_data(as_text=True)
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy and "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text), "inline code would not run"
    assert re.findall(r'(?:src|href)="(?:https?:)?//', text) == []
    assert response.headers["Cache-Control"] == "no-store", "it holds the token for writes"


@pytest.mark.parametrize("path", PAGES)
def test_every_file_a_page_names_is_there_and_kept_for_ever(signed_in: WebBench, path: str) -> None:
    text = signed_in.client.get(path, headers=HTML).get_data(as_text=True)
    files = re.findall(r'(?:src|href)="(/assets/[^"]+)"', text)
    assert len(files) > 5
    for file in files:
        response = signed_in.client.get(file, buffered=True)
        assert response.status_code == 200 and "immutable" in response.headers["Cache-Control"]
        if file.endswith(".js"):
            assert response.mimetype in ("text/javascript", "application/javascript")


def test_a_page_names_all_modules_so_that_they_come_in_one_round_trip(signed_in: WebBench) -> None:
    text = signed_in.client.get("/app/chat", headers=HTML).get_data(as_text=True)
    preloaded = {name.split("/", 3)[3] for name in re.findall(r'rel="modulepreload" href="([^"]+)"', text)}
    assert {"js/chat/page.js", "js/chat/talk.js", "js/lib/api.js", "js/lib/dom.js"} <= preloaded


def test_every_import_names_a_file() -> None:
    for path in STATIC.rglob("*.js"):
        for name in modules_of(path.relative_to(STATIC).as_posix()):
            assert (STATIC / name).is_file(), f"{path} imports {name}"


def test_every_module_is_used() -> None:
    text = (Path(__file__).parents[3] / "web/pages/routes.py").read_text()
    used = {name for entry in re.findall(r'module="([^"]+)"', text) for name in modules_of(entry)} | {"js/theme.js"}
    assert {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js")} == used


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.js")) + sorted(TEMPLATES.glob("*.html")), ids=lambda p: p.name)
def test_no_file_makes_elements_of_text(path: Path) -> None:
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|\|\s*safe\b", path.read_text())


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.js")), ids=lambda p: p.name)
def test_a_module_says_first_what_it_answers_and_is_small(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 200
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["x", "1", "..%2f..", "%3Cscript%3E", "None", "a" * 500, "5b2f8a58"])
def test_a_job_id_that_is_none_is_not_found(signed_in: WebBench, name: str) -> None:
    response = signed_in.client.get(f"/app/jobs/{name}", headers=HTML)
    text = response.get_data(as_text=True)
    assert response.status_code == 404
    assert "Not found" in text and "<script>" not in text


def test_the_menu_says_where_one_is(signed_in: WebBench) -> None:
    for path in PAGES:
        text = signed_in.client.get(path, headers=HTML).get_data(as_text=True)
        ((current,),) = [re.findall(r'<a href="([^"]+)" aria-current="page"', text)]
        assert path.startswith(current)


def test_the_filters_offer_every_state_and_kind(signed_in: WebBench) -> None:
    text = signed_in.client.get("/app/jobs", headers=HTML).get_data(as_text=True)
    options = re.findall(r"<option>([^<]+)</option>", text)
    assert {"queued", "running", "succeeded", "failed", "cancelled", "model.load", "replica.cleanup"} <= set(options)


@pytest.mark.parametrize(
    "path", ["/app/jobs", "/app/jobs?state=failed&kind=model.load", "/api/jobs", "/", "/app/chat?model=org%2Fname:v1"]
)
def test_the_way_back_may_be_any_path_here(path: str) -> None:
    assert own_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "/a\\..\\b",
        "/é",
        "/\0",
    ],
)
def test_the_way_back_never_leads_to_another_server(bench: WebBench, path: str) -> None:
    assert own_path(path) == "/app/chat"
    if "\0" not in path:
        text = bench.client.get("/login", query_string={"next": path}, headers=HTML).get_data(as_text=True)
        assert re.findall(r'data-after="([^"]*)"', text) == ["/app/chat"]


def test_the_sign_in_keeps_the_way_back(bench: WebBench) -> None:
    text = bench.client.get("/login?next=/app/jobs?state=failed%26kind=x", headers=HTML).get_data(as_text=True)
    assert [unescape(after) for after in re.findall(r'data-after="([^"]*)"', text)] == ["/app/jobs?state=failed&kind=x"]


def test_who_has_signed_in_is_not_asked_again(signed_in: WebBench) -> None:
    response = signed_in.client.get("/login?next=/app/nodes", headers=HTML)
    assert (response.status_code, response.headers["Location"]) == (303, "/app/nodes")
    assert signed_in.client.get("/", headers=HTML).headers["Location"] == "/app/chat"
    assert signed_in.client.get("/app", headers=HTML).headers["Location"] == "/app/chat"


def test_a_stale_cookie_is_taken_away_and_said(bench: WebBench) -> None:
    bench.client.set_cookie(COOKIE, "stale")
    text = bench.client.get("/login", headers=HTML).get_data(as_text=True)
    assert "Your session has ended" in text
    assert bench.client.get_cookie(COOKIE) is None
    assert "Your session has ended" not in bench.client.get("/login", headers=HTML).get_data(as_text=True)


def test_an_address_of_the_api_leads_a_person_to_the_sign_in_too(bench: WebBench) -> None:
    assert bench.client.get("/api/jobs", headers=HTML).headers["Location"] == "/login?next=%2Fapi%2Fjobs"
    post = bench.client.post("/v1/chat/completions", json={}, headers=HTML)
    assert post.status_code == 401, "a write is not a page"


@pytest.mark.parametrize("path", PAGES)
def test_the_scripts_of_a_page_stay_small(signed_in: WebBench, path: str) -> None:
    text = signed_in.client.get(path, headers=HTML).get_data(as_text=True)
    names = [name.split("/", 3)[3] for name in re.findall(r'rel="modulepreload" href="([^"]+)"', text)]
    assert sum(len(gzip.compress((STATIC / name).read_bytes())) for name in names) < 40_000
