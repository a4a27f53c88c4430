"""A real Chromium in a test: where it is, how it is started, and a page whose complaints are kept."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect

Scheme = Literal["light", "dark"]

#: The headless shell first: a whole browser also renders its own window around each page, which costs most of the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: A busy machine is slow and not wrong.
LIMIT_MS = 60_000
expect.set_options(timeout=LIMIT_MS)


def find_browser() -> str:
    """The installed browser. Without one the tier is skipped by name on a laptop, and fails in CI."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    missing = "no Chromium on the path: apt-get install chromium-headless-shell"
    if os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


def launch(playwright: Playwright) -> Browser:
    """A browser with a profile of its own."""
    return playwright.chromium.launch(executable_path=find_browser(), args=list(_FLAGS), headless=True)


@dataclass
class Visit:
    """One browser window on one server, and everything that went wrong in it."""

    url: str
    context: BrowserContext
    page: Page
    errors: list[str] = field(default_factory=list)
    #: Refusals that the test provokes: (status, end of the path). The browser logs each as an error.
    provoked: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.set_default_timeout(LIMIT_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))

    def goto(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def sign_in(self, key: str) -> None:
        """As the form does, without the form."""
        answer = self.context.request.post(self.url + "/api/auth/token-login", data={"token": key})
        assert answer.ok, answer.text()

    def violations(self) -> list[str]:
        """What axe finds wrong with the page as it is."""
        found: Any = Axe().run(self.page).response["violations"]
        return [f"{rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]

    def overflow(self) -> int:
        """How many pixels wider than the window the page is."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        place = message.location["url"].partition("?")[0]
        if any(f"status of {status} " in message.text and place.endswith(end) for status, end in self.provoked):
            return
        self.errors.append(f"{message.text} ({place})")
