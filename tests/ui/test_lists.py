"""Models, nodes and jobs: what the tables say, and what may be done from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.acceptance.cluster import Cluster, Frontend
from tests.ui.conftest import REGISTRATION_TOKEN, Open

pytestmark = pytest.mark.ui

Model = Callable[..., str]


def test_a_model_is_loaded_from_its_row_and_the_row_follows(open_page: Open, model: Model) -> None:
    name = model("row", "load_delay:3s")
    page = open_page("/app/models").page
    row = page.get_by_role("row", name=re.compile(f"^{name} "))
    expect(row.get_by_text("unloaded")).to_be_visible()
    row.get_by_role("button", name=f"Load {name}").click()
    expect(row.get_by_role("progressbar")).to_be_visible()
    expect(row.get_by_role("link", name=f"Job of {name}")).to_be_visible()
    expect(row.get_by_text("loaded", exact=True)).to_be_visible()


def test_a_held_model_shows_its_cause(open_page: Open, model: Model, server: Frontend) -> None:
    name = model("held", "load_fail:no such tensor")
    assert server.chat(name).status_code == 503
    row = open_page("/app/models").page.get_by_role("row", name=re.compile(f"^{name} "))
    expect(row).to_contain_text("failed")
    expect(row).to_contain_text("no such tensor")


def test_a_file_that_cannot_be_used_is_named(open_page: Open, cluster: Cluster) -> None:
    path = cluster.models / "half-written.yaml"
    path.write_text("name: [")
    try:
        page = open_page("/app/models").page
        expect(page.get_by_text("half-written.yaml")).to_be_visible()
    finally:
        path.unlink()


@pytest.fixture
def newcomer(server: Frontend) -> Iterator[str]:
    """A node whose agent has registered and does nothing else; no load goes there after the test."""
    key = {"Authorization": f"Bearer {REGISTRATION_TOKEN}"}
    said = {"name": "newcomer", "address": "127.0.0.1:9", "token": REGISTRATION_TOKEN, "total_ram": 8 * 2**30}
    registered = server.post("/api/node/register", said, headers=key)
    assert registered.status_code == 201, registered.text
    yield "newcomer"
    own = {"Authorization": f"Bearer {registered.json()['node_token']}"}
    left = server.post(f"/api/node/{registered.json()['id']}/deregister", {}, headers=own)
    assert left.status_code == 200, left.text


def test_a_new_node_waits_until_it_is_approved_here(open_page: Open, newcomer: str) -> None:
    visit = open_page("/app/nodes")
    row = visit.page.get_by_role("row", name=re.compile("^newcomer "))
    expect(row).to_contain_text("pending")
    assert visit.violations() == []
    visit.page.get_by_role("button", name="Approve newcomer").focus()
    visit.page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Approve newcomer")).to_have_count(0)
    expect(row).not_to_contain_text("pending")
    expect(visit.page.locator("#said")).to_have_text("newcomer is approved.")


def test_a_refused_worker_with_the_name_of_a_node_is_seen_at_the_node(open_page: Open, server: Frontend) -> None:
    key = {"Authorization": f"Bearer {REGISTRATION_TOKEN}"}
    said = {"name": "wanted", "address": "127.0.0.1:9", "token": REGISTRATION_TOKEN, "secret": "own"}
    registered = server.post("/api/node/register", said, headers=key).json()
    refused = server.post("/api/node/register", {**said, "address": "127.0.0.1:19", "secret": "other"}, headers=key)
    assert (refused.status_code, refused.json()["code"]) == (409, "node_name_taken")
    visit = open_page("/app/nodes")
    row = visit.page.get_by_role("row", name=re.compile("^wanted "))
    expect(row).to_contain_text(re.compile("Registration refused .*127.0.0.1:9 .*127.0.0.1:19 "))
    assert visit.violations() == []
    own = {"Authorization": f"Bearer {registered['node_token']}"}
    assert server.post(f"/api/node/{registered['id']}/deregister", {}, headers=own).status_code == 200
    again = server.post("/api/node/register", {**said, "address": "127.0.0.1:19", "secret": "other"}, headers=key)
    assert again.json()["status"] == "pending"
    expect(row).to_contain_text("Approval lost: the worker at 127.0.0.1:19 ")
    assert server.delete(f"/api/nodes/{registered['id']}?force=true").status_code == 200


def test_a_node_says_what_it_has_left(open_page: Open, server: Frontend) -> None:
    (name,) = [node["name"] for node in server.nodes() if node["name"] != "newcomer"]
    row = open_page("/app/nodes").page.get_by_role("row", name=re.compile(f"^{re.escape(name)} "))
    expect(row).to_contain_text("healthy")
    expect(row).to_contain_text(re.compile(r"[\d.]+ GiB free\s*of [\d.]+ GiB RAM"))
    expect(row).to_contain_text(re.compile(r"\d+ %\s*of \d+ cores?"))
    expect(row).to_contain_text(re.compile(r"(now|\d+ s ago)"))


def test_jobs_are_filtered_and_the_address_keeps_the_filter(open_page: Open, model: Model, server: Frontend) -> None:
    good, bad = model("filter-good"), model("filter-bad", "load_fail:no")
    assert server.chat(good).status_code == 200
    assert server.chat(bad).status_code == 503
    visit = open_page("/app/jobs")
    page = visit.page
    page.get_by_label("State").select_option("failed")
    expect(page).to_have_url(f"{visit.url}/app/jobs?state=failed")
    expect(page.get_by_role("link", name=bad)).to_be_visible()
    expect(page.get_by_role("link", name=good)).to_have_count(0)
    page.get_by_label("Subject").fill(good)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No job fits")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(page).to_have_url(f"{visit.url}/app/jobs")
    expect(page.get_by_role("link", name=good)).to_be_visible()


def test_older_jobs_are_a_page_away(open_page: Open, model: Model, server: Frontend) -> None:
    for name in ("page-1", "page-2"):
        assert server.chat(model(name)).status_code == 200
    visit = open_page("/app/jobs?limit=1")
    first = visit.page.locator("td.name a").inner_text()
    visit.page.get_by_role("link", name="Older").click()
    expect(visit.page).to_have_url(re.compile(r"limit=1&before="))
    expect(visit.page.locator("td.name a")).not_to_have_text(first)
    visit.page.get_by_role("link", name="Newest").click()
    expect(visit.page.locator("td.name a")).to_have_text(first)


def test_a_filter_that_means_nothing_is_said_with_a_way_out(open_page: Open) -> None:
    visit = open_page()
    visit.provoked.append((400, "/api/jobs"))
    page = visit.goto("/app/jobs?state=confused")
    expect(page.get_by_role("alert")).to_contain_text("'confused' cannot be used")
    page.get_by_role("link", name="Show all jobs").click()
    expect(page).to_have_url(f"{visit.url}/app/jobs")
