"""Every page in light and dark, wide and narrow: nothing axe finds, nothing to scroll sideways, no console error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.acceptance.cluster import Frontend
from tests.ui.browser import Scheme, Visit
from tests.ui.conftest import Open

pytestmark = pytest.mark.ui

#: Each page and what is there once it has drawn what it read.
PAGES = {
    "home": ("/", "text=For programs"),
    "sign-in": ("/login?next=/app/jobs", "#key"),
    "stale": ("/login", "text=Your session has ended"),
    "not-found": ("/nowhere", "text=There is no page"),
    "chat": ("/app/chat", "#model:enabled"),
    "models": ("/app/models", "td.name"),
    "nodes": ("/app/nodes", "td.name"),
    "jobs": ("/app/jobs", "td.name"),
    "no-jobs": ("/app/jobs?subject=nothing-of-that-name", "text=No job fits"),
    "bad-filter": ("/app/jobs?before=x", "[role=alert]"),
    "unknown-job": ("/app/jobs/00000000-0000-4000-8000-000000000000", "text=There is no job"),
    "no-job-id": ("/app/jobs/nonsense", "text=is not the id of a job"),
    "failed-job": ("", "text=The last words of the process"),
}
OPEN = {"home", "sign-in", "stale", "not-found"}


@pytest.fixture(scope="module")
def failed_job(server: Frontend, cluster: object) -> str:
    """A job whose text is long and ugly."""
    name = "org/a-model-with-a-name-that-has-no-place-to-break-" + "x" * 40
    cluster.model(name, "fault", "load_fail:" + "no" * 200, description="long " * 60)  # type: ignore[attr-defined]
    server.wait_for_model(name)
    assert server.chat(name).status_code == 503
    return str(server.jobs(subject=name)[0]["id"])


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_sound(open_page: Open, failed_job: str, name: str, scheme: Scheme, width: int) -> None:
    path, there = PAGES[name]
    visit = open_page(scheme=scheme, width=width, signed_in=name not in OPEN)
    visit.provoked += [(404, "/nowhere"), (404, "/nonsense"), (404, "000000000000"), (400, "/api/jobs")]
    if name == "stale":
        visit.context.add_cookies([{"name": "session", "value": "stale", "url": visit.url}])
    visit.goto(path or f"/app/jobs/{failed_job}").wait_for_selector(there)
    assert_sound(visit)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_open_menu_of_a_phone_is_sound(open_page: Open, scheme: Scheme) -> None:
    visit = open_page("/app/nodes", scheme=scheme, width=390)
    menu = visit.page.get_by_role("navigation", name="Main")
    expect(menu).to_be_hidden()
    visit.page.get_by_role("button", name="Menu").click()
    expect(menu).to_be_visible()
    assert_sound(visit)
    visit.page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(visit.page.get_by_role("button", name="Menu")).to_be_focused()


def test_a_chosen_theme_stays_and_wins_over_the_system(open_page: Open) -> None:
    page = open_page("/app/nodes", scheme="light").page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_label("Theme").select_option("system")
    assert page.evaluate(ground) == light


def test_the_first_tab_skips_the_menu(open_page: Open) -> None:
    page = open_page("/app/nodes").page
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_page_that_cannot_read_says_so_and_shows_what_it_knew(open_page: Open) -> None:
    visit = open_page("/app/nodes")
    page = visit.page
    page.wait_for_selector("td.name")
    stale = page.get_by_text("Not up to date: this was read")
    visit.context.set_offline(True)
    expect(stale).to_be_visible()
    expect(page.locator("td.name").first).to_be_visible()
    expect(page.locator("#said")).to_have_text("Not up to date. The server does not answer.")
    assert_sound(visit)
    visit.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(stale).to_be_hidden()
    assert visit.errors, "the browser complains about the network, and about nothing else"
    visit.errors[:] = [error for error in visit.errors if "ERR_INTERNET_DISCONNECTED" not in error]


def test_a_page_that_has_nothing_yet_says_why_it_failed(open_page: Open) -> None:
    visit = open_page("/app/nodes")
    page = visit.page
    page.wait_for_selector("td.name")
    page.route("**/api/jobs?**", lambda route: route.abort())
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("alert")).to_contain_text("The jobs cannot be read. The server does not answer.")
    page.unroute("**/api/jobs?**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    visit.errors[:] = [error for error in visit.errors if "ERR_FAILED" not in error]


def assert_sound(visit: Visit) -> None:
    assert visit.violations() == []
    assert visit.overflow() <= 0


def test_nothing_is_asked_of_another_server(open_page: Open, model: Callable[..., str]) -> None:
    visit = open_page()
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    for path in ("/app/chat", "/app/models", "/app/nodes", "/app/jobs"):
        visit.goto(path)
        visit.page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith(visit.url)] == []
