"""Lists and objects of a request have a maximum length, checked before their items, and one wrong item ends the check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from marshmallow import ValidationError, fields

from localai.errors import BadInput
from localai.jobs.operation_rules import Report
from web import limits
from web.schemas.chat import read_chat
from web.schemas.completions import read_completion
from web.schemas.embeddings import read_embeddings
from web.schemas.fields import Entries, Items
from web.schemas.nodes import read_heartbeat, read_registration
from web.schemas.rerank import read_rerank

pytestmark = pytest.mark.unit

HELLO = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "f"}}
OPERATION = {"job_id": "j", "op_generation": 1, "op_state": "claimed", "phase": "loading"}
PROCESS = {
    "process_instance": "p",
    "model": "m",
    "slot": 0,
    "job_id": "j",
    "op_generation": 1,
    "address": "h:1",
    "pid": 1,
    "ready": True,
}
FILE = {"path": "f", "sha256": "0" * 64, "bytes": 1}

Read = Callable[[Mapping[str, Any]], Any]


def chat(body: Mapping[str, Any]) -> Any:
    return read_chat({"model": "m", "messages": [HELLO], **body}, "id")


def completion(body: Mapping[str, Any]) -> Any:
    return read_completion({"model": "m", "prompt": "x", **body})


def rerank(body: Mapping[str, Any]) -> Any:
    return read_rerank({"model": "m", "query": "q", **body})


def embeddings(body: Mapping[str, Any]) -> Any:
    return read_embeddings({"model": "m", **body})


def registration(body: Mapping[str, Any]) -> Any:
    return read_registration({"name": "n", **body})


def report(body: Mapping[str, Any]) -> Any:
    return Report.from_json({"incarnation": 1, "seq": 1, **body})


def table(count: int, value: Any) -> dict[str, Any]:
    return {str(place): value for place in range(count)}


#: How a body is read, the field of the error, the limit, and a body with so many entries.
CASES: dict[str, tuple[Read, str, limits.Limit, Callable[[int], Mapping[str, Any]]]] = {
    "messages": (chat, "messages", limits.MESSAGES, lambda n: {"messages": [HELLO] * n}),
    "parts": (
        *(chat, "messages[0].content", limits.PARTS),
        lambda n: {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * n}]},
    ),
    "tool_calls": (
        *(chat, "messages[0].tool_calls", limits.TOOL_CALLS),
        lambda n: {"messages": [{"role": "assistant", "tool_calls": [{}] * n}]},
    ),
    "tools": (chat, "tools", limits.TOOLS, lambda n: {"tools": [TOOL] * n}),
    "logit_bias": (chat, "logit_bias", limits.LOGIT_BIAS, lambda n: {"logit_bias": table(n, 1)}),
    "metadata": (chat, "metadata", limits.METADATA, lambda n: {"metadata": table(n, "x")}),
    "modalities": (chat, "modalities", limits.MODALITIES, lambda n: {"modalities": ["text"] * n}),
    "stop": (chat, "stop", limits.STOP, lambda n: {"stop": ["x"] * n}),
    "stop of a completion": (completion, "stop", limits.STOP, lambda n: {"stop": ["x"] * n}),
    "logit_bias of a completion": (completion, "logit_bias", limits.LOGIT_BIAS, lambda n: {"logit_bias": table(n, 1)}),
    "prompt": (completion, "prompt", limits.PROMPTS, lambda n: {"prompt": ["x"] * n}),
    "input": (embeddings, "input", limits.INPUTS, lambda n: {"input": ["x"] * n}),
    "documents": (rerank, "documents", limits.DOCUMENTS, lambda n: {"documents": ["x"] * n}),
    "staged_files": (
        *(read_heartbeat, "staged_files", limits.STAGED_FILES),
        lambda n: {"staged_files": [FILE] * n},
    ),
    "process_memory": (
        *(read_heartbeat, "process_memory", limits.PROCESS_MEMORY),
        lambda n: {"process_memory": table(n, 1)},
    ),
    "operations": (report, "operations", limits.OPERATIONS, lambda n: {"operations": [OPERATION] * n}),
    "processes": (report, "processes", limits.PROCESSES, lambda n: {"processes": [PROCESS] * n}),
    "labels": (registration, "labels", limits.LABELS, lambda n: {"labels": table(n, "x")}),
}


def test_every_limit_of_a_field_has_a_case() -> None:
    assert {limit for _, _, limit, _ in CASES.values()} == set(limits.FIELDS)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_field_is_accepted_up_to_its_limit(
    case: tuple[Read, str, limits.Limit, Callable[[int], Mapping[str, Any]]],
) -> None:
    read, field, limit, body = case
    read(body(limit.most))
    with pytest.raises(BadInput) as caught:
        read(body(limit.most + 1))
    assert caught.value.field == field
    assert str(limit.most) in caught.value.message and str(limit.most + 1) in caught.value.message


class Seen(fields.String):
    """A text that counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def _deserialize(self, value: Any, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return super()._deserialize(value, *arguments, **options)


FEW = limits.Limit(5, "entries")


@pytest.mark.parametrize(("make", "body"), [(Items, list), (Entries, lambda values: dict(enumerate(values)))])
def test_no_item_is_looked_at_after_a_wrong_one_or_above_the_limit(
    make: Callable[..., fields.Field[Any]], body: Callable[[Iterator[Any]], Any]
) -> None:
    seen = Seen()
    field = make(seen, FEW)
    with pytest.raises(ValidationError) as caught:
        field.deserialize(body(iter(["a", 1, 2, 3])))
    assert seen.count == 2
    assert list(caught.value.messages) == [1]  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="6 entries; accepted: 0 to 5"):
        field.deserialize(body(iter("abcdef")))
    assert seen.count == 2
    assert len(field.deserialize(body(iter("abcde")))) == 5


@pytest.mark.parametrize("value", ["text", 1, True, {"a": 1}])
def test_what_is_no_list_is_none(value: Any) -> None:
    with pytest.raises(ValidationError, match="Not a valid list"):
        Items(Seen(), FEW).deserialize(value)


def test_the_first_wrong_message_is_the_one_that_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        chat({"messages": [HELLO, 1, *[1] * 4000]})
    assert caught.value.field == "messages[1]"


def test_a_field_of_a_message_that_is_not_known_changes_nothing() -> None:
    """Clients send back what an answer held: `refusal`, `annotations`."""
    message = {"role": "assistant", "content": "x", "refusal": None, "annotations": [], **table(2000, 1)}
    assert chat({"messages": [message]}).request.messages[0].content == "x"
    assert chat({"stream_options": {"include_usage": True, "include_obfuscation": False}}).include_usage


def test_the_page_has_every_limit() -> None:
    page = limits.limits_page()
    for limit in (*limits.STRUCTURE, *limits.FIELDS):
        assert f"| {limit.most:,} | {limit.what} |" in page
