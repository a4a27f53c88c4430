"""The event of a job names the client and the key of the request that caused it."""

from __future__ import annotations

import contextvars
import hashlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from localai import callers
from localai.callers import Caller, key_name
from localai.jobs.rows import record

pytestmark = pytest.mark.unit


class Written:
    """A unit of work that keeps the parameters of its statement."""

    after_commit = None

    def execute(self, statement: str, parameters: dict[str, Any]) -> None:
        self.detail = json.loads(parameters["detail"]) if parameters["detail"] else None


def detail_of(caller: Caller | None, detail: dict[str, Any] | None) -> Any:
    def write() -> Any:
        callers.begin(caller)
        names = dict.fromkeys(("state", "phase", "generation", "op_generation", "node_id"), None)
        written = Written()
        record(written, "cancelled", SimpleNamespace(id="1", kind="model.load", **names), "api", detail)  # type: ignore[arg-type]
        return written.detail

    return contextvars.copy_context().run(write)


def test_an_event_names_its_caller() -> None:
    caller = Caller("192.0.2.1", "1a2b3c4d")
    assert detail_of(caller, None) == {"client": "192.0.2.1", "key": "1a2b3c4d"}
    assert detail_of(caller, {"by": "Cancel"}) == {"by": "Cancel", "client": "192.0.2.1", "key": "1a2b3c4d"}


def test_an_event_of_no_request_names_none() -> None:
    assert detail_of(None, None) is None
    assert detail_of(None, {"by": "Lapse"}) == {"by": "Lapse"}


def test_the_digest_is_what_a_person_computes() -> None:
    assert key_name("the-key") == hashlib.sha256(b"the-key").hexdigest()[:8]
