"""What stops something from a page: it asks first, does exactly that, and says what became of it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.cluster import Frontend, wait_for
from tests.ui.browser import Scheme
from tests.ui.conftest import REGISTRATION_TOKEN, Open

pytestmark = pytest.mark.ui

Model = Callable[..., str]


def row_of(page: Page, name: str) -> Locator:
    return page.get_by_role("row", name=re.compile(f"^{re.escape(name)} "))


def loading(server: Frontend, name: str) -> dict[str, Any]:
    """The load of a model, begun and on the node."""
    assert server.post("/backend/load", {"model": name}).status_code == 202

    def on_the_node() -> dict[str, Any] | None:
        answer = server.get(f"/api/models/{name}/load-status")
        found = answer.json()
        return found if answer.status_code == 200 and found["state"] == "loading" else None

    return wait_for(f"the load of {name} on the node", on_the_node)


def test_a_load_is_cancelled_from_the_row_of_its_model(open_page: Open, model: Model, server: Frontend) -> None:
    name = model("cancel-row", "load_delay:10m")
    job = loading(server, name)["job_id"]
    page = open_page("/app/models").page
    button = row_of(page, name).get_by_role("button", name=f"Cancel the load of {name}")
    button.click()
    dialog = page.get_by_role("dialog", name=f"Cancel the load of {name}?")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_have_count(0)
    button.click()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert server.get(f"/api/jobs/{job}").json()["state"] == "running", "twice no"
    button.click()
    dialog.get_by_role("button", name="Cancel the load").click()
    expect(page.locator("#said")).to_have_text(f"The load of {name} is stopped.")
    expect(row_of(page, name).locator(".status")).to_have_text(re.compile("^(cancelled|unloaded)$"))
    shown = server.get(f"/api/jobs/{job}").json()
    assert (shown["state"], shown["stop_state"]) == ("cancelled", "confirmed")


def test_a_load_is_cancelled_from_the_page_of_its_job(open_page: Open, model: Model, server: Frontend) -> None:
    name = model("cancel-job", "load_delay:10m")
    job = loading(server, name)["job_id"]
    page = open_page(f"/app/jobs/{job}").page
    page.get_by_role("button", name=f"Cancel {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the load").click()
    expect(page.locator(".title")).to_contain_text("cancelled")
    expect(page.get_by_text("Cancelled by request", exact=True)).to_be_visible()
    expect(page.locator(".card.failed")).to_have_count(0)
    expect(page.get_by_role("button", name=f"Cancel {name}")).to_have_count(0)
    expect(page.locator("#said")).to_have_text(f"{name} is stopped.")


def test_a_model_is_unloaded_from_its_row_and_a_cleanup_is_called_by_its_model(
    open_page: Open, model: Model, server: Frontend
) -> None:
    name = model("unload-row")
    assert server.chat(name).status_code == 200
    page = open_page("/app/models").page
    row_of(page, name).get_by_role("button", name=f"Unload {name}").click()
    page.get_by_role("dialog", name=f"Unload {name}?").get_by_role("button", name="Unload", exact=True).click()
    expect(row_of(page, name)).to_contain_text("unloaded")
    page.goto(page.url.replace("/models", "/jobs?kind=replica.cleanup"))
    expect(page.get_by_role("link", name=re.compile(rf"^{name}#0 \(process [0-9a-f]{{8}}\)$"))).to_be_visible()


@pytest.fixture
def bystander(server: Frontend) -> Iterator[str]:
    """A node whose agent has registered and does nothing else; it is approved and holds nothing."""
    key = {"Authorization": f"Bearer {REGISTRATION_TOKEN}"}
    said = {"name": "bystander", "address": "127.0.0.1:9", "token": REGISTRATION_TOKEN, "total_ram": 8 * 2**30}
    registered = server.post("/api/node/register", said, headers=key)
    assert registered.status_code == 201, registered.text
    node = registered.json()["id"]
    assert server.post(f"/api/nodes/{node}/drain").status_code == 200, "no load of another test goes there"
    assert server.post(f"/api/nodes/{node}/approve").status_code == 200
    yield "bystander"
    server.delete(f"/api/nodes/{node}?force=true")


def test_a_node_is_resumed_drained_and_removed_by_its_name(open_page: Open, bystander: str) -> None:
    visit = open_page("/app/nodes")
    page, row = visit.page, row_of(visit.page, bystander)
    said = page.locator("#said")
    expect(row.locator(".status")).to_have_text("drained")
    row.get_by_role("button", name=f"Resume {bystander}").click()
    expect(said).to_have_text("bystander may get work again.")
    expect(row).to_contain_text("healthy")
    row.get_by_role("button", name=f"Drain {bystander}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("No model is loaded there.")
    dialog.get_by_role("button", name="Drain").click()
    expect(row.locator(".status")).to_have_text("drained")
    row.get_by_role("button", name=f"Remove {bystander}").click()
    remove = dialog.get_by_role("button", name="Remove")
    expect(remove).to_be_disabled()
    dialog.get_by_label(f"Type {bystander} to confirm").fill("bystand")
    expect(remove).to_be_disabled()
    page.keyboard.type("er")
    expect(remove).to_be_enabled()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(said).to_have_text("bystander is removed.")
    expect(row).to_have_count(0)
    expect(dialog).to_have_count(0)


def test_how_a_machine_joins_is_on_the_page_also_when_there_are_nodes(open_page: Open, server: Frontend) -> None:
    page = open_page("/app/nodes").page
    page.wait_for_selector("td.name")
    command = page.locator("#add code").first
    expect(command).to_be_hidden()
    page.get_by_text("Add a machine").click()
    expect(command).to_contain_text("localai worker")
    expect(command).to_contain_text("--state-dir")
    expect(page.locator("#add")).to_contain_text("listen on this machine only")
    expect(command).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_dialog_and_the_fold_are_sound(open_page: Open, bystander: str, scheme: Scheme, width: int) -> None:
    visit = open_page("/app/nodes", scheme=scheme, width=width)
    row_of(visit.page, bystander).get_by_role("button", name=f"Remove {bystander}").wait_for()
    visit.page.get_by_text("Add a machine").click()
    assert visit.violations() == []
    assert visit.overflow() <= 0
    row_of(visit.page, bystander).get_by_role("button", name=f"Remove {bystander}").click()
    dialog = visit.page.get_by_role("dialog")
    dialog.get_by_label(f"Type {bystander} to confirm").fill(bystander)
    expect(dialog.get_by_role("button", name="Remove")).to_be_enabled()
    assert visit.violations() == []
    assert visit.overflow() <= 0


def hanging(server: Frontend, model: Model, name: str) -> threading.Thread:
    """A loaded model with a request that hangs."""
    model(name, "hang_in_predict:true")
    asking = threading.Thread(target=server.chat, args=(name,), daemon=True)
    asking.start()
    wait_for("the request in flight", lambda: any(row["in_flight"] for row in rows_of(server, name)))
    return asking


def rows_of(server: Frontend, name: str) -> list[dict[str, Any]]:
    nodes = [node["id"] for node in server.nodes()]
    rows = [row for node in nodes for row in server.get(f"/api/nodes/{node}/models").json()]
    return [row for row in rows if row["model_name"] == name]


def test_an_unload_that_waits_is_stopped_now_or_cancelled_on_the_page_of_its_job(
    open_page: Open, model: Model, server: Frontend
) -> None:
    asking = hanging(server, model, "hung-on-page")
    job = server.post("/backend/shutdown", {"model": "hung-on-page"}).json()["job_id"]
    page = open_page(f"/app/jobs/{job}").page
    page.get_by_role("button", name="Cancel hung-on-page").click()
    dialog = page.get_by_role("dialog", name="Cancel the unload of hung-on-page?")
    expect(dialog).to_contain_text("Running answers are not cut.")
    dialog.get_by_role("button", name="Cancel the unload").click()
    expect(page.locator("#said")).to_have_text("The unload of hung-on-page is cancelled.")
    expect(page.get_by_role("button", name="Stop now hung-on-page")).to_have_count(0)
    assert asking.is_alive() and rows_of(server, "hung-on-page")[0]["state"] == "unloading"

    again = server.post("/backend/shutdown", {"model": "hung-on-page"}).json()["job_id"]
    page = open_page(f"/app/jobs/{again}").page
    page.get_by_role("button", name="Stop now hung-on-page").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop now").click()
    expect(page.locator("#said")).to_have_text("Running answers are stopped.")
    expect(page.locator(".title .status")).to_have_text("succeeded")
    asking.join(60)
    assert not asking.is_alive() and rows_of(server, "hung-on-page") == []


def test_a_model_is_unloaded_now_from_its_row(open_page: Open, model: Model, server: Frontend) -> None:
    asking = hanging(server, model, "hung-in-row")
    page = open_page("/app/models").page
    row_of(page, "hung-in-row").get_by_role("button", name="Unload hung-in-row").click()
    dialog = page.get_by_role("dialog", name="Unload hung-in-row?")
    expect(dialog).to_contain_text("Unload now does not wait for them.")
    dialog.get_by_role("button", name="Unload now").click()
    expect(row_of(page, "hung-in-row")).to_contain_text("unloaded")
    wait_for("the process gone", lambda: rows_of(server, "hung-in-row") == [])
    asking.join(60)
    assert not asking.is_alive()
