"""A model in quarantine: it is said where one looks, and a button lifts it instead of asking in vain."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.acceptance.cluster import Frontend, wait_for
from tests.ui.conftest import Open

pytestmark = pytest.mark.ui

Model = Callable[..., str]


def of_model(server: Frontend, name: str) -> dict[str, Any]:
    return next(model for model in server.get("/api/models").json()["models"] if model["name"] == name)


@pytest.fixture
def broken(model: Model, server: Frontend) -> str:
    """A model that has failed so often that nothing is tried."""
    name = model("kept-off", "load_fail:no such tensor")
    refused = "model_quarantined"
    wait_for("its quarantine", lambda: server.chat(name).json()["error"]["code"] == refused, limit_s=60)
    return name


def test_a_quarantine_is_seen_and_lifted_where_one_looks(open_page: Open, server: Frontend, broken: str) -> None:
    visit = open_page("/app/nodes")
    page = visit.page
    expect(page.get_by_text(f"Quarantined: {broken}, its last 3 loads failed with load_refused.")).to_be_visible()
    assert visit.violations() == []

    visit.goto("/app/models")
    row = page.get_by_role("row", name=re.compile(f"^{broken} "))
    expect(row.locator(".status")).to_have_text("quarantined")
    expect(row).to_contain_text("its last 3 loads failed with load_refused")
    assert visit.violations() == []
    row.get_by_role("button", name=f"Try again {broken}").click()
    expect(page.locator("#said")).to_contain_text("lifted on 1 node")
    assert of_model(server, broken)["quarantined"] == []
    wait_for("the fourth try", lambda: len(server.jobs(subject=broken, state="failed")) == 4)

    wait_for(
        "the quarantine anew", lambda: server.chat(broken).json()["error"]["code"] == "model_quarantined", limit_s=60
    )
    visit.provoked.append((503, "/v1/chat/completions"))
    visit.goto(f"/app/chat?model={broken}")
    page.wait_for_selector("#model:enabled")
    page.get_by_label("Message").fill("Hello")
    page.keyboard.press("Enter")
    card = page.locator(".card.failed")
    expect(card).to_contain_text("is in quarantine")
    tried = len(server.jobs(subject=broken))
    page.get_by_role("button", name="Try again").click()
    expect(card).not_to_contain_text("is in quarantine")
    expect(card).to_contain_text("no such tensor")
    assert len(server.jobs(subject=broken)) == tried + 1
    assert of_model(server, broken)["quarantined"] == []
