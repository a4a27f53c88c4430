"""Signing in as a person does: typing, mistakes, and coming back to a session that has ended."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.acceptance.cluster import API_KEY
from tests.ui.conftest import Open

pytestmark = pytest.mark.ui


def test_a_person_signs_in_with_the_keyboard_and_lands_where_they_wanted(open_page: Open) -> None:
    visit = open_page("/app/jobs?state=failed", signed_in=False)
    page = visit.page
    expect(page).to_have_url(f"{visit.url}/login?next=%2Fapp%2Fjobs%3Fstate%3Dfailed")
    expect(page.get_by_label("Admin key")).to_be_focused()
    page.keyboard.type(API_KEY)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{visit.url}/app/jobs?state=failed")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def test_no_script_can_read_the_cookie(open_page: Open) -> None:
    visit = open_page("/app/chat")
    assert visit.page.evaluate("document.cookie") == ""
    (cookie,) = visit.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert API_KEY not in cookie["value"]


@pytest.mark.parametrize("typed", [f" {API_KEY} ", f"{API_KEY}\n", f"\r\n\t{API_KEY}\r\n"])
def test_a_key_pasted_with_spaces_or_a_line_break_around_is_taken(open_page: Open, typed: str) -> None:
    visit = open_page("/login", signed_in=False)
    visit.page.get_by_label("Admin key").fill(typed)
    visit.page.get_by_role("button", name="Sign in").click()
    expect(visit.page).to_have_url(f"{visit.url}/app/chat")


def test_a_line_break_inside_that_reaches_the_server_is_explained(open_page: Open) -> None:
    visit = open_page("/login", signed_in=False)
    visit.provoked.append((400, "/token-login"))
    # Chromium takes line breaks out of a password field: a field that keeps them stands in for other browsers.
    visit.page.evaluate("Object.assign(document.getElementById('key'), {type: 'hidden', value: 'acceptance\\n-key'})")
    visit.page.get_by_role("button", name="Sign in").click()
    expect(visit.page.get_by_role("alert")).to_contain_text("A key is one line of text")


@pytest.mark.parametrize(("typed", "said"), [("wrong", "not the admin key"), ("", "empty"), ("   ", "empty")])
def test_a_mistake_is_said_and_the_field_is_ready_again(open_page: Open, typed: str, said: str) -> None:
    visit = open_page("/login", signed_in=False)
    visit.provoked.append((401, "/token-login"))
    field = visit.page.get_by_label("Admin key")
    field.fill(typed)
    field.press("Enter")
    expect(visit.page.get_by_role("alert")).to_contain_text(said)
    expect(field).to_be_focused()
    assert visit.violations() == []
    field.fill(API_KEY)
    field.press("Enter")
    expect(visit.page).to_have_url(f"{visit.url}/app/chat")


def test_a_stale_cookie_leads_to_the_sign_in_and_back(open_page: Open) -> None:
    visit = open_page(signed_in=False)
    visit.context.add_cookies([{"name": "session", "value": "AAAA.BBBB.CCCC", "url": visit.url}])
    visit.goto("/app/nodes")
    expect(visit.page.get_by_text("Your session has ended")).to_be_visible()
    visit.page.get_by_label("Admin key").fill(API_KEY)
    visit.page.keyboard.press("Enter")
    expect(visit.page).to_have_url(f"{visit.url}/app/nodes")


def test_a_session_that_ends_under_an_open_page_leads_to_the_sign_in(open_page: Open) -> None:
    visit = open_page("/app/nodes")
    visit.provoked.append((401, "/api/nodes"))
    visit.page.wait_for_selector("td.name")
    visit.context.add_cookies([{"name": "session", "value": "stale", "url": visit.url}])
    expect(visit.page).to_have_url(f"{visit.url}/login?next=%2Fapp%2Fnodes")
    expect(visit.page.get_by_text("Your session has ended")).to_be_visible()


@pytest.mark.parametrize(
    "after", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_crafted_link_leads_nowhere_else(open_page: Open, after: str) -> None:
    visit = open_page(signed_in=False)
    visit.page.goto(visit.url + "/login?next=" + after)
    visit.page.get_by_label("Admin key").fill(API_KEY)
    visit.page.keyboard.press("Enter")
    expect(visit.page).to_have_url(f"{visit.url}/app/chat")


def test_signing_out_ends_it_for_this_browser(open_page: Open) -> None:
    visit = open_page("/app/chat")
    visit.page.get_by_role("button", name="Sign out").click()
    expect(visit.page).to_have_url(f"{visit.url}/login")
    assert visit.context.cookies() == []
    visit.goto("/app/models")
    expect(visit.page).to_have_url(f"{visit.url}/login?next=%2Fapp%2Fmodels")


def test_another_site_cannot_write_with_the_cookie(open_page: Open) -> None:
    visit = open_page("/app/chat")
    visit.provoked.append((403, "/backend/load"))
    status = visit.page.evaluate("fetch('/backend/load', {method: 'POST', body: '{}'}).then((answer) => answer.status)")
    assert status == 403
