"""Replies of a process become parts of an answer."""

from __future__ import annotations

import pytest

from localai.inference.streams import AnswerReader, whole
from protos import backend_pb2

pytestmark = pytest.mark.unit

Reply = backend_pb2.Reply


def tool(index: int, call_id: str, name: str, arguments: str) -> backend_pb2.Reply:
    call = backend_pb2.ToolCallDelta(index=index, id=call_id, name=name, arguments=arguments)
    return Reply(chat_deltas=[backend_pb2.ChatDelta(tool_calls=[call])])


def test_a_character_cut_in_two_is_shown_when_it_is_whole() -> None:
    data = "aé🙂b".encode()
    reader = AnswerReader()
    texts = [reader.read(Reply(message=data[place : place + 1])).content for place in range(len(data))]
    assert "".join(texts) == "aé🙂b"
    assert "�" not in "".join(texts)
    assert reader.rest().content == ""


def test_an_answer_that_ends_inside_a_character_shows_that() -> None:
    reader = AnswerReader()
    assert reader.read(Reply(message="é".encode()[:1])).content == ""
    assert reader.rest().content == "�"


def test_deltas_win_over_the_text() -> None:
    delta = backend_pb2.ChatDelta(content="said", reasoning_content="thought")
    part = AnswerReader().read(Reply(message=b"raw", chat_deltas=[delta]))
    assert (part.content, part.reasoning) == ("said", "thought")


def test_counters_are_cumulative_and_never_go_back() -> None:
    reader = AnswerReader()
    for reply in (Reply(tokens=1, prompt_tokens=9), Reply(tokens=3, prompt_tokens=9), Reply(message=b"x")):
        reader.read(reply)
    assert (reader.usage().completion_tokens, reader.usage().prompt_tokens) == (3, 9)


def test_a_process_that_counts_nothing_gets_an_estimate() -> None:
    reader = AnswerReader()
    reader.read(Reply(message=b"nine bytes"))
    assert reader.usage().completion_tokens == 3


def test_ap_03_pieces_of_tool_calls_are_joined_by_index() -> None:
    reader = AnswerReader()
    replies = [tool(0, "c1", "f", ""), tool(1, "c2", "g", "{}"), tool(0, "", "", '{"a": '), tool(0, "", "", "1}")]
    answer = whole(reader.read(reply) for reply in replies)
    assert [(c.call_id, c.name, c.arguments) for c in answer.tool_calls] == [("c1", "f", '{"a": 1}'), ("c2", "g", "{}")]


@pytest.mark.parametrize(
    ("told", "tools", "tokens", "limit", "reason"),
    [
        ("", False, 3, 0, "stop"),
        ("", False, 3, 3, "length"),
        ("", False, 2, 3, "stop"),
        ("", True, 3, 3, "tool_calls"),
        ("stop", False, 3, 3, "stop"),
        ("stop", True, 3, 0, "tool_calls"),
        ("length", False, 2, 0, "length"),
        ("length", True, 2, 0, "length"),
        ("unheard of", False, 2, 2, "length"),
    ],
)
def test_ap_11_the_reason_is_the_process_s_word_else_what_the_counters_say(
    told: str, tools: bool, tokens: int, limit: int, reason: str
) -> None:
    reader = AnswerReader()
    reader.read(Reply(tokens=tokens))
    if tools:
        reader.read(tool(0, "c", "f", "{}"))
    assert reader.finish_reason(told, limit) == reason


def test_logprobs_of_all_parts_are_joined() -> None:
    reader = AnswerReader()
    parts = [reader.read(Reply(logprobs=b'{"content":[{"token":"%d"}]}' % number)) for number in (1, 2)]
    assert whole(parts).logprobs == {"content": [{"token": "1"}, {"token": "2"}]}


def test_a_part_without_anything_to_show_is_false() -> None:
    assert not AnswerReader().read(Reply(tokens=3))
    assert AnswerReader().read(Reply(message=b"x"))
