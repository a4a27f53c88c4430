"""One table says what a caller sees of an error, and the page says the same."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from localai import errors
from localai.errors import LocalAIError
from localai.jobs.operations import WorkerMustDrop
from web.errors import TABLE, errors_page, node_admin_body, node_body, openai_body, retry_after_of, row_of, text_of

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_made_from_the_table() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    assert page == errors_page(), "docs/reference/errors.md is stale: run `make fmt`"


def test_every_error_of_ours_has_a_row_of_its_own() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LocalAIError)]
    assert [kind.__name__ for kind in kinds if kind not in TABLE] == []


def test_an_error_of_a_subsystem_is_shown_as_its_nearest_parent() -> None:
    class Special(errors.BackendBusy):
        """Special."""

    assert row_of(Special()) is TABLE[errors.BackendBusy]


def test_se_05_what_the_database_said_is_never_shown() -> None:
    error = errors.StorageUnavailable("FATAL: password authentication failed for user postgres")
    assert "password" not in text_of(error)
    assert "password" not in str(openai_body(error))


def test_se_05_a_fault_of_ours_is_never_shown() -> None:
    assert text_of(LocalAIError("secret")) == "Something went wrong."


def test_lj_12_retry_after_is_whole_seconds_and_at_least_one() -> None:
    assert retry_after_of(errors.ModelHeld("x", {}, 0)) == 1
    assert retry_after_of(errors.ModelLoading("x", {}, 300)) == 300
    assert retry_after_of(errors.BackendBusy()) == 5
    assert retry_after_of(errors.BadInput("a", 1, "b")) is None


def test_the_loading_object_stands_beside_the_error() -> None:
    body = openai_body(errors.ModelLoading("m is staging", {"model": "m"}, 5))
    assert body["loading"] == {"model": "m"}
    assert body["error"]["type"] == body["error"]["code"] == "model_loading"


def test_the_field_is_the_param() -> None:
    assert openai_body(errors.BadInput("n", 2, "1"))["error"]["param"] == "n"
    assert openai_body(errors.NotFound())["error"]["param"] is None


def test_an_admin_route_says_that_the_key_is_missing() -> None:
    assert openai_body(errors.NotAuthenticated(), admin=True)["error"]["type"] == "authentication_error"
    assert openai_body(errors.NotAuthenticated())["error"]["type"] == "invalid_request_error"


def test_node_routes_have_shapes_of_their_own() -> None:
    assert node_admin_body(errors.NotFound("no node"))["error"]["code"] == 404
    assert node_admin_body(errors.NotFound("no node"))["error"]["type"] == "node_error"
    assert node_body(errors.NotFound("no node")) == {"error": "no node"}
    assert node_body(WorkerMustDrop("failed"))["state"] == "failed"
