"""Which frontend is asked, what counts as an answer, and from when it counts."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import httpx2
import pytest

from localai.errors import (
    NodeNameTaken,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    NotTheNextLife,
    Replaced,
    StartRefused,
)
from localai.jobs.operation_rules import Report
from tests.unit.worker_agent.factories import Clock
from worker_agent.frontends import ClaimRefused, Frontends, NoFrontend, Registered, RegistrationsFull

pytestmark = pytest.mark.unit

REGISTERED = Registered("n", "node", "healthy", 1, "own")
A, B = "http://a", "http://b"
Handler = Callable[[httpx2.Request], httpx2.Response]


class Content(httpx2.SyncByteStream):
    """A body that is sent, and then breaks off where a test wants that."""

    def __init__(self, content: bytes, error: Exception | None = None) -> None:
        self._content = content
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        if self._error is not None:
            raise self._error


def frontends(handler: Handler, clock: Clock | None = None, urls: tuple[str, ...] = (A, B)) -> Frontends:
    made = Frontends(
        urls,
        registration_token="shared",
        timeout_s=1.0,
        clock=clock or Clock(),
        transport=httpx2.MockTransport(handler),
    )
    made.use_credential("own")
    return made


def answering(**answers: object) -> tuple[Handler, list[str]]:
    """A handler by host: a status, a (status, body), or an exception; and the hosts that were asked."""
    asked: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        answer = answers[request.url.host]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer if isinstance(answer, tuple) else (answer, {})
        return httpx2.Response(status, json=body)

    return handle, asked


@pytest.mark.parametrize("failure", [503, 500, httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow")])
def test_the_next_frontend_is_asked_when_one_does_not_answer_and_the_good_one_is_remembered(failure: object) -> None:
    handle, asked = answering(a=failure, b=(200, {"status": "healthy"}))
    client = frontends(handle)
    assert client.heartbeat("n", {}) == "healthy"
    assert client.heartbeat("n", {}) == "healthy"
    assert asked == ["a", "b", "b"]


def test_no_answer_from_anybody_is_not_an_answer_and_names_them_all() -> None:
    handle, _ = answering(a=503, b=httpx2.ConnectError("refused"))
    with pytest.raises(NoFrontend, match=r"http://a: status 503; http://b: refused"):
        frontends(handle).heartbeat("n", {})


def test_something_that_is_no_frontend_is_passed_over() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "a":
            return httpx2.Response(404, text="<html>some proxy</html>")
        return httpx2.Response(200, json={"status": "healthy"})

    assert frontends(handle).heartbeat("n", {}) == "healthy"


def test_an_answer_that_is_a_refusal_is_not_asked_of_another_frontend() -> None:
    handle, asked = answering(a=(409, {"error": "refused"}), b=200)
    with pytest.raises(ClaimRefused, match="refused"):
        frontends(handle).claim(REGISTERED, "j", 1, seq=0)
    assert asked == ["a"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, NotAuthenticated), (403, NotAuthorized), (404, NotFound), (409, Replaced), (400, NoFrontend)],
)
def test_what_the_answer_to_a_report_means(status: int, error: type[Exception]) -> None:
    handle, _ = answering(a=(status, {"error": "text"}), b=200)
    with pytest.raises(error):
        frontends(handle).report("n", lambda: Report(incarnation=1, seq=1))


def test_c03_c04_the_age_of_an_answer_begins_before_the_try_that_was_answered() -> None:
    clock = Clock(100.0)

    def handle(request: httpx2.Request) -> httpx2.Response:
        clock.now += 10.0
        return httpx2.Response(503 if request.url.host == "a" else 200, json={"operations": []})

    _, sent_at = frontends(handle, clock).report("n", lambda: Report(incarnation=1, seq=1))
    assert sent_at == 110.0


def test_each_try_of_a_report_carries_a_number_of_its_own() -> None:
    seen: list[bytes] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.content)
        return httpx2.Response(503 if request.url.host == "a" else 200, json={"operations": []})

    numbers = iter((1, 2))
    frontends(handle).report("n", lambda: Report(incarnation=1, seq=next(numbers)))
    assert [b'"seq":1' in seen[0], b'"seq":2' in seen[1]] == [True, True]


def test_an_answer_to_a_report_that_cannot_be_read_is_no_answer() -> None:
    handle, _ = answering(a=(200, {"operations": [{"job_id": "j"}]}))
    with pytest.raises(NoFrontend, match="cannot be read"):
        frontends(handle, urls=(A,)).report("n", lambda: Report(incarnation=1, seq=1))


@pytest.mark.parametrize(("status", "error"), [(401, NotAuthenticated), (409, Replaced)])
def test_a_heartbeat_never_shows_the_registration_token(status: int, error: type[Exception]) -> None:
    shown: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        shown.append(request.headers["Authorization"])
        return httpx2.Response(status, json={"error": "text"})

    with pytest.raises(error):
        frontends(handle).heartbeat("n", {})
    assert shown == ["Bearer own"]


def test_registration_shows_the_token_in_header_and_body_and_gives_the_credential() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["Authorization"] == "Bearer shared"
        assert b'"token":"shared"' in request.content
        body = {"id": "n", "name": "node", "status": "pending", "incarnation": 3, "node_token": "own"}
        return httpx2.Response(201, json=body)

    registered = frontends(handle).register({"name": "node"})
    assert (registered.node_id, registered.incarnation, registered.node_token) == ("n", 3, "own")


def test_a_registration_of_another_life_than_the_next_learns_which_is_the_newest() -> None:
    handle, _ = answering(a=(409, {"error": "too late", "incarnation": 7}))
    with pytest.raises(NotTheNextLife) as refused:
        frontends(handle).register({"name": "node", "after": 0})
    assert refused.value.incarnation == 7


def test_a_registration_under_a_taken_name_is_an_error_of_its_own() -> None:
    handle, _ = answering(a=(409, {"error": "taken by b", "code": "node_name_taken"}))
    with pytest.raises(NodeNameTaken, match="taken by b"):
        frontends(handle).register({"name": "node"})


@pytest.mark.parametrize(("status", "error"), [(401, NotAuthenticated), (429, RegistrationsFull), (400, StartRefused)])
def test_a_refused_registration_is_the_frontends_own_word(status: int, error: type[Exception]) -> None:
    handle, _ = answering(a=(status, {"error": "name is missing"}))
    with pytest.raises(error, match="name is missing"):
        frontends(handle).register({})


def test_a_file_goes_on_from_where_it_is_and_an_answer_with_all_of_it_begins_anew() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["Range"] == "bytes=4-"
        return httpx2.Response(206 if request.url.path == "/part" else 200, stream=Content(b"rest"))

    client = frontends(handle)
    for path, start in (("/part", 4), ("/whole", 0)):
        with client.file(path, start=4, silence_s=1) as stream:
            assert (stream.start, stream.missing, b"".join(stream.chunks)) == (start, False, b"rest")


@pytest.mark.parametrize(("other", "missing"), [(404, True), (416, True), (200, False)])
def test_a_file_is_missing_only_when_every_frontend_says_so(other: int, missing: bool) -> None:
    handle, asked = answering(a=404, b=other)
    with frontends(handle).file("/x", start=0, silence_s=1) as stream:
        assert stream.missing is missing
    assert asked == ["a", "b"]


def test_a_file_is_not_missing_while_a_frontend_is_silent() -> None:
    handle, _ = answering(a=404, b=httpx2.ConnectError("refused"))
    with pytest.raises(NoFrontend), frontends(handle).file("/x", start=0, silence_s=1):
        pass


def test_a_transfer_that_breaks_off_sends_the_next_one_elsewhere() -> None:
    asked: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return httpx2.Response(200, stream=Content(bytes(1024 * 1024), httpx2.ReadError("broken")))

    client = frontends(handle)
    for _ in range(2):
        with pytest.raises(NoFrontend, match="broken"), client.file("/x", start=0, silence_s=1) as stream:
            list(stream.chunks)
    assert asked == ["a", "b"]


def test_the_credential_is_not_shown_to_a_source_that_is_no_frontend() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert "Authorization" not in request.headers
        return httpx2.Response(200, stream=Content(b"x"))

    with frontends(handle).file("http://elsewhere/x", start=0, silence_s=1) as stream:
        assert list(stream.chunks) == [b"x"]


def test_an_empty_token_is_not_shown_at_all() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert "Authorization" not in request.headers
        return httpx2.Response(200, json={"status": "healthy"})

    client = frontends(handle)
    client.use_credential("")
    assert client.heartbeat("n", {}) == "healthy"


@pytest.mark.parametrize("urls", [["https://a"], ["HTTPS://a"], ["http://a", "https://b"], ["b"]])
def test_certificates_are_judged_unless_every_frontend_speaks_plain_http(urls: list[str]) -> None:
    frontends = Frontends(urls, registration_token="", timeout_s=1.0, clock=lambda: 0.0)
    context = frontends._client._transport._pool._ssl_context  # type: ignore[attr-defined]
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    frontends.close()
