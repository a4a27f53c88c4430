"""One job: its phases as bars, live while it runs, and the reason when it failed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.acceptance.cluster import Frontend, wait_for
from tests.ui.conftest import Open

pytestmark = pytest.mark.ui

Model = Callable[..., str]


def test_a_running_job_is_followed_to_its_end_without_a_reload(open_page: Open, model: Model, server: Frontend) -> None:
    name = model("followed", "load_delay:5s")
    asking = threading.Thread(target=server.chat, args=(name,))
    asking.start()
    job = wait_for("a job", lambda: next(iter(server.jobs(subject=name)), None))
    page = open_page(f"/app/jobs/{job['id']}").page
    page.evaluate("window.unbroken = true")
    phases = page.get_by_role("list", name="Phases").get_by_role("listitem")
    expect(phases.filter(has_text="loading")).to_have_class("live")
    expect(page.get_by_text("running").first).to_be_visible()
    expect(page.locator(".title")).to_contain_text("succeeded")
    expect(page.locator("li.live")).to_have_count(0)
    names = [text.split("\n")[0] for text in phases.all_inner_texts()]
    assert names[0] == "queued" and names[-1] == "loading" and "pending" in names
    lengths = [text.split("\n")[-1] for text in phases.all_inner_texts()]
    assert float(lengths[-1].removesuffix(" s")) >= 4.5, lengths
    assert page.evaluate("window.unbroken === true")
    asking.join(60)


def test_the_bars_lie_one_after_the_other(open_page: Open, model: Model, server: Frontend) -> None:
    name = model("bars", "load_delay:1s")
    assert server.chat(name).status_code == 200
    page = open_page(f"/app/jobs/{server.jobs(subject=name)[0]['id']}").page
    page.wait_for_selector(".phases .bar")
    boxes = [bar.bounding_box() for bar in page.locator(".phases .bar").all()]
    tracks = [track.bounding_box() for track in page.locator(".phases .track").all()]
    for box, track in zip(boxes, tracks, strict=True):
        assert box and track
        assert (
            box["width"] >= 3
            and track["x"] - 1 <= box["x"]
            and box["x"] + box["width"] <= track["x"] + track["width"] + 1
        )
    lefts = [box["x"] for box in boxes if box]
    assert lefts == sorted(lefts)
    longest = boxes[-1]
    assert longest and longest["width"] > sum(box["width"] for box in boxes[:-1] if box)


def test_a_failed_job_says_why_with_the_last_words_of_the_process(
    open_page: Open, model: Model, server: Frontend
) -> None:
    name = model("lost", "load_fail:bad magic", "stderr:reading the file")
    assert server.chat(name).status_code == 503
    page = open_page(f"/app/jobs/{server.jobs(subject=name)[0]['id']}").page
    expect(page.locator(".card.failed")).to_contain_text("bad magic")
    expect(page.locator(".card.failed pre")).to_contain_text("reading the file")
    expect(page.locator(".phases li.failed")).to_contain_text("loading")
    expect(page.get_by_role("table", name="Moves").get_by_role("row").last).to_contain_text("failed")


def test_a_failed_load_is_tried_again_from_its_page_once_its_hold_is_over(
    open_page: Open, model: Model, server: Frontend
) -> None:
    name = model("again", "load_fail:bad magic", "load_delay:3s")
    asking = threading.Thread(target=server.chat, args=(name,))
    asking.start()
    failed = wait_for("a job", lambda: next(iter(server.jobs(subject=name)), None))["id"]
    visit = open_page()
    visit.provoked.append((503, "/retry"))
    page = visit.goto(f"/app/jobs/{failed}")
    button = page.get_by_role("button", name=f"Try again {name}")
    button.click()  # which is there once the load has failed, and the hold has just begun
    expect(page.locator("#said")).to_contain_text(re.compile(r"is not tried again: the failed load holds .* \d+ s"))
    wait_for("the end of the hold", lambda: not server.get(f"/api/jobs/{failed}").json()["hold_in_s"])
    button.click()
    expect(page).not_to_have_url(re.compile(failed))
    expect(page.locator(".title")).to_contain_text("failed")
    assert page.url.endswith(server.jobs(subject=name)[0]["id"])
    asking.join(60)


@pytest.mark.parametrize("job_id", ["nonsense", "5b2f8a58", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "..%2f..%2fetc"])
def test_a_job_id_that_is_none_is_not_found(open_page: Open, job_id: str) -> None:
    visit = open_page()
    visit.provoked.append((404, job_id))
    answer = visit.page.goto(f"{visit.url}/app/jobs/{job_id}")
    assert answer and answer.status == 404
    expect(visit.page.get_by_role("heading", name="Not found")).to_be_visible()
    visit.errors[:] = [error for error in visit.errors if "status of 404" not in error]


def test_an_id_that_no_job_has_is_not_found(open_page: Open) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    visit = open_page()
    visit.provoked.append((404, nobody))
    page = visit.goto(f"/app/jobs/{nobody}")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    page.get_by_role("link", name="Show all jobs").click()
    expect(page).to_have_url(f"{visit.url}/app/jobs")
