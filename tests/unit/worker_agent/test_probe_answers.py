"""Who gets an answer of the worker's probes."""

from __future__ import annotations

from typing import Any

import pytest

from worker_agent.log_routes import Answer
from worker_agent.probes import Answers

pytestmark = pytest.mark.unit

TOKEN = "registration-token"
NOT_READY = "the process of secret-model refuses connections"


def status(path: str, peer: str, authorization: str = "", **settings: Any) -> str:
    def protected(environ: Any) -> Answer:
        raise AssertionError(environ)

    seen: list[str] = []
    answers = Answers(lambda: NOT_READY, protected, **settings)
    environ = {
        "PATH_INFO": path,
        "REQUEST_METHOD": "GET",
        "REMOTE_ADDR": peer,
        **({"HTTP_AUTHORIZATION": authorization} if authorization else {}),
    }
    body = b"".join(answers(environ, lambda line, _: seen.append(line)))  # type: ignore[arg-type,func-returns-value]
    assert not seen[0].startswith("403") or b"secret-model" not in body
    return seen[0][:3]


@pytest.mark.parametrize(("path", "found"), [("/readyz", "503"), ("/metrics", "200"), ("/healthz", "200")])
def test_this_machine_gets_every_answer(path: str, found: str) -> None:
    assert status(path, "127.0.0.1", registration_token=TOKEN) == found
    assert status(path, "::1") == found


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_another_machine_is_told_nothing_without_the_token(path: str) -> None:
    assert status(path, "10.0.0.7", registration_token=TOKEN) == "403"
    assert status(path, "10.0.0.7", "Bearer wrong", registration_token=TOKEN) == "403"
    assert status(path, "10.0.0.7", "Bearer ") == "403", "no token of the cluster opens nothing"
    assert status(path, "10.0.0.7", f"Bearer {TOKEN}", registration_token=TOKEN) in ("200", "503")
    assert status(path, "10.0.0.7", open_to_all=True) in ("200", "503")


def test_frontends_learn_of_a_process_that_runs() -> None:
    assert status("/healthz", "10.0.0.7", registration_token=TOKEN) == "200"
