"""The chat: a cold model is loaded under the eyes of who asked, and answers without a reload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, wait_for
from tests.ui.conftest import Open

pytestmark = pytest.mark.ui

Model = Callable[..., str]


def ask(page: Page, text: str, model: str = "") -> None:
    if model:
        page.get_by_label("Model").select_option(model)
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def mark(page: Page) -> None:
    """A reload takes this away."""
    page.evaluate("window.unbroken = true")


def is_unbroken(page: Page) -> bool:
    return bool(page.evaluate("window.unbroken === true"))


def test_a_cold_model_shows_its_load_and_then_answers_by_itself(open_page: Open, model: Model) -> None:
    name = model("cold", "load_delay:4s", "tokens:30", "token_delay:60ms")
    page = open_page("/app/chat").page
    mark(page)
    ask(page, "What is this?", name)
    card = page.locator(".card")
    expect(card).to_contain_text(f"{name} is loading on")
    expect(card.get_by_role("progressbar", name=f"Load of {name}")).to_be_visible()
    expect(card.locator("[aria-current=step]")).to_have_text("loading")
    answer = page.locator(".message.assistant .text")
    expect(answer).to_contain_text("cold says: tok1")
    assert "tok30" not in answer.inner_text(), "it is shown while it comes"
    expect(card).to_be_hidden()
    expect(answer).to_contain_text("tok30")
    expect(page.locator(".message.assistant .foot")).to_contain_text("30 tokens")
    assert is_unbroken(page)


@pytest.fixture(scope="module")
def impatient(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Frontend]]:
    """A server that answers 503 while the load goes on, after half a second."""
    variables = {"LOCALAI_ENABLE_FAULT_BACKEND": "true", "LOCALAI_MODEL_LOAD_WAIT": "500ms"}
    cluster = Cluster(Path(tmp_path_factory.mktemp("impatient")) / "cluster", {**SCALED_WINDOWS, **variables})
    try:
        server = cluster.up()
        server.wait_for_nodes(1)
        yield cluster, server
    finally:
        cluster.close()


@pytest.mark.parametrize("told", [True, False])
def test_a_load_longer_than_the_server_waits_is_no_error_either(
    open_page: Open, impatient: tuple[Cluster, Frontend], told: bool
) -> None:
    """Also where the header that asks for the load in the stream does not arrive."""
    cluster, server = impatient
    name = cluster.model(f"long-{told}".lower(), "fault", "load_delay:6s")
    server.wait_for_model(name)
    visit = open_page("/app/chat", at=server)
    visit.provoked.append((503, "/v1/chat/completions"))
    answered: list[int] = []
    visit.page.on("response", lambda response: answered.append(response.status))
    if not told:
        visit.page.route("**/v1/chat/completions", _without_the_header)
    mark(visit.page)
    ask(visit.page, "Hello", name)
    expect(visit.page.locator(".card")).to_contain_text("is loading")
    expect(visit.page.locator(".message.assistant .text")).to_contain_text(f"{name} says:")
    assert (503 in answered) != told, "told in one answer, or refused on the way"
    expect(visit.page.locator(".card.failed")).to_have_count(0)
    assert is_unbroken(visit.page)


def _without_the_header(route: Route) -> None:
    route.continue_(headers={**route.request.headers, "x-localai-loading": "off"})


def test_what_was_said_before_is_part_of_the_next_question(open_page: Open, model: Model) -> None:
    name = model("talker", "tokens:3")
    page = open_page("/app/chat").page
    bodies: list[Any] = []
    page.on("request", lambda request: request.method == "POST" and bodies.append(json.loads(request.post_data or "")))
    ask(page, "First", name)
    expect(page.locator(".foot")).to_have_count(1)
    ask(page, "Second")
    expect(page.locator(".foot")).to_have_count(2)
    said = [(message["role"], message["content"]) for message in bodies[-1]["messages"]]
    assert said == [("user", "First"), ("assistant", "talker says: tok1 tok2 tok3"), ("user", "Second")]
    page.reload()
    expect(page.locator(".foot")).to_have_count(2)
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("Ask a model")).to_be_visible()


def test_stop_keeps_what_has_come_and_the_next_question_works(open_page: Open, model: Model) -> None:
    name = model("chatty", "tokens:10000", "token_delay:50ms")
    page = open_page("/app/chat").page
    ask(page, "Go on", name)
    answer = page.locator(".message.assistant .text")
    expect(answer).to_contain_text("tok5")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".foot")).to_have_text("Stopped.")
    expect(answer).to_contain_text("tok5")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()


def test_stopping_while_it_loads_ends_the_wait_and_not_the_load(
    open_page: Open, model: Model, server: Frontend
) -> None:
    name = model("patient", "load_delay:5s")
    page = open_page("/app/chat").page
    ask(page, "Hello", name)
    expect(page.locator(".card")).to_contain_text("is loading")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".foot")).to_have_text("Stopped waiting. The load goes on.")
    assert server.chat_until_answered(name).status_code == 200
    (job,) = server.jobs(subject=name)
    assert job["state"] == "succeeded"


def test_a_held_model_says_why_and_how_long_and_tries_again_when_asked(
    open_page: Open, model: Model, cluster: Cluster, server: Frontend
) -> None:
    name = model("sick", "load_fail:the weights are cursed", "stderr:a last word")
    visit = open_page("/app/chat")
    visit.provoked.append((503, "/v1/chat/completions"))
    page = visit.page
    mark(page)
    ask(page, "Hello", name)
    card = page.locator(".card.failed")
    expect(card).to_contain_text("the weights are cursed")
    expect(card).to_contain_text("a last word")
    expect(card).to_contain_text(re.compile(r"Another load may begin in \d+ s\."))
    assert visit.violations() == []
    (failed,) = server.jobs(subject=name, state="failed")
    before = revision(server, name)
    model(name, "tokens:2")
    wait_for(f"a new revision after {failed['id']}", lambda: revision(server, name) != before)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".message.assistant .text")).to_contain_text("sick says: tok1 tok2")
    assert is_unbroken(page)


def revision(server: Frontend, name: str) -> str:
    """The revision of the config that the server has read."""
    models = server.get("/api/models").json()["models"]
    return str(next(found for found in models if found["name"] == name)["config_revision"])


def test_an_answer_that_breaks_says_so_in_words(open_page: Open, model: Model) -> None:
    name = model("brittle", "crash_after:4", "tokens:10", "token_delay:250ms")
    page = open_page("/app/chat").page
    ask(page, "Hello", name)
    card = page.locator(".card.failed")
    expect(card).to_be_visible()
    text = card.inner_text()
    assert len(text) > 20 and "{" not in text and "undefined" not in text, text
    expect(page.locator(".message.assistant .text")).to_contain_text("tok1")


def test_a_link_chooses_the_model(open_page: Open, model: Model) -> None:
    name = model("org/linked:v1", "tokens:2")
    page = open_page("/app/models").page
    page.get_by_role("link", name=f"Chat with {name}").click()
    expect(page.get_by_label("Model")).to_have_value(name)
    ask(page, "Hello")
    expect(page.locator(".message.assistant .text")).to_contain_text("org/linked:v1 says: tok1 tok2")


def test_a_model_that_cannot_chat_is_not_offered(open_page: Open, model: Model) -> None:
    encoder = model("encoder", known_usecases=["embeddings"])
    model("speaker", known_usecases=["chat"])
    page = open_page("/app/chat").page
    page.wait_for_selector("#model:enabled")
    offered = page.get_by_label("Model").locator("option").all_inner_texts()
    assert "speaker" in offered and encoder not in offered


def test_text_of_a_model_is_text(open_page: Open) -> None:
    page = open_page("/app/chat").page
    source = "# T\n<img src=x onerror=alert(1)> **b** `c`\n- [l](javascript:alert(1)) [ok](https://a.example/)\n```\n<b>\n```"
    html = page.evaluate(
        """async (source) => {
          const root = document.querySelector('script[type=module]').src.replace('chat/page.js', 'lib/');
          const [{ render }, { markdown }] = await Promise.all([import(root + 'dom.js'), import(root + 'markdown.js')]);
          const box = document.createElement('div');
          render(box, markdown(source));
          return box.innerHTML;
        }""",
        source,
    )
    assert "<img" not in html and "<b>" not in html
    assert "&lt;img src=x" in html and "<strong>b</strong>" in html and "<code>c</code>" in html
    assert html.count("<a ") == 1 and 'href="https://a.example/"' in html


def test_marks_that_nothing_closes_are_shown_in_linear_time(open_page: Open) -> None:
    """A model can write a hundred thousand of them; the page shows each answer again and again while it grows."""
    page = open_page("/app/chat").page
    sources = {
        "[": "[" * 100_000,
        "[ before one address": "[" * 100_000 + "](https://" + "a" * 100_000,
        "[a](https://a": "[a](https://a" * 10_000,
        "*": "*" * 100_001,
        "** ": "** " * 33_333,
        "`": "`" * 100_001,
        "`a": "`a" * 50_000 + "`",
        "(": "(" * 100_000,
        "<": "<" * 100_000,
        "> ": "> " * 50_000,
        " ": " " * 100_000 + "x",
    }
    took = page.evaluate(
        """async (sources) => {
          const root = document.querySelector('script[type=module]').src.replace('chat/page.js', 'lib/');
          const { markdown } = await import(root + 'markdown.js');
          return Object.entries(sources).map(([name, source]) => {
            const began = performance.now();
            markdown(source);
            return [name, performance.now() - began];
          });
        }""",
        sources,
    )
    assert max(took, key=lambda item: item[1])[1] < 5_000, took
