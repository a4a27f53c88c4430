"""Fixtures of the browser tier: one server started as a user starts it, and windows on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cluster import API_KEY, SCALED_WINDOWS, Cluster, Frontend, show_complaints
from tests.ui.browser import Browser, Scheme, Visit, launch

REGISTRATION_TOKEN = "ui-registration-token"
_HEIGHT = {1280: 800, 390: 844}
_FAILED = pytest.StashKey[bool]()

Open = Callable[..., Visit]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    show_complaints(item, report)
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture(scope="session")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The browser first: without one no server is started."""
    variables = {
        "LOCALAI_ENABLE_FAULT_BACKEND": "true",
        "LOCALAI_REGISTRATION_TOKEN": REGISTRATION_TOKEN,
        "LOCALAI_REPORT_WINDOW": "8s",  # the hold of a failed load, which a person must be able to meet
    }
    found = Cluster(tmp_path_factory.mktemp("ui") / "cluster", {**SCALED_WINDOWS, **variables})
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="session")
def server(cluster: Cluster) -> Frontend:
    """`localai up`, with its node."""
    started = cluster.up()
    started.wait_for_nodes(1)
    return started


@pytest.fixture
def model(cluster: Cluster, server: Frontend) -> Callable[..., str]:
    """Write a config and wait until the server lists it."""

    def write(name: str, *options: str, **keys: Any) -> str:
        cluster.model(name, "fault", *options, **keys)
        server.wait_for_model(name)
        return name

    return write


@pytest.fixture
def open_page(request: pytest.FixtureRequest, browser: Browser, server: Frontend, tmp_path: Path) -> Iterator[Open]:
    """Open a window. After the test no page of it may have logged an error that the test did not provoke."""
    visits: list[Visit] = []

    def open_(
        path: str = "", *, scheme: Scheme = "light", width: int = 1280, signed_in: bool = True, at: Frontend = server
    ) -> Visit:
        size = {"width": width, "height": _HEIGHT[width]}
        context = browser.new_context(color_scheme=scheme, viewport=size)  # type: ignore[arg-type]
        visit = Visit(at.url, context, context.new_page())
        visits.append(visit)
        if signed_in:
            visit.sign_in(API_KEY)
        if path:
            visit.goto(path)
        return visit

    yield open_
    for number, visit in enumerate(visits):
        if request.node.stash.get(_FAILED, False):
            visit.page.screenshot(path=tmp_path / f"failed-{number}.png", full_page=True)
        visit.context.close()
    assert [error for visit in visits for error in visit.errors] == []
