"""A chat request becomes the options of one call."""

from __future__ import annotations

import json

import pytest

from localai.inference.convert import ChatDefaults, ChatRequest, Message, Sampling, predict_options
from protos import backend_pb2

pytestmark = pytest.mark.unit

HELLO = (Message(role="user", content="hello"),)


def test_the_request_wins_over_the_config_and_the_config_over_the_general_values() -> None:
    request = ChatRequest(messages=HELLO, sampling=Sampling(temperature=0.0, max_tokens=7))
    options = predict_options(request, ChatDefaults(sampling=Sampling(temperature=0.5, top_k=40), llama=True))
    assert (options.Temperature, options.Tokens, options.TopK) == (0.0, 7, 40)
    assert options.TopP == pytest.approx(0.95)
    assert options.Seed == -1


def test_the_general_temperature_applies_where_nobody_says_one() -> None:
    assert predict_options(ChatRequest(messages=HELLO), ChatDefaults()).Temperature == pytest.approx(0.9)


def test_the_system_prompt_is_put_first_when_the_request_has_none() -> None:
    options = predict_options(ChatRequest(messages=HELLO), ChatDefaults(system_prompt="be short"))
    assert [(m.role, m.content) for m in options.Messages] == [("system", "be short"), ("user", "hello")]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_request_s_own_system_message_replaces_the_config_s(role: str) -> None:
    messages = (Message(role=role, content="be long"), *HELLO)
    options = predict_options(ChatRequest(messages=messages), ChatDefaults(system_prompt="be short"))
    assert [m.content for m in options.Messages] == ["be long", "hello"]


def test_without_the_tokenizer_s_template_the_process_gets_one_prompt() -> None:
    messages = (Message(role="system", content="be short"), *HELLO)
    options = predict_options(ChatRequest(messages=messages), ChatDefaults(use_tokenizer_template=False))
    assert options.Prompt == "be short\nhello"
    assert not options.UseTokenizerTemplate
    assert not options.Messages


def test_stopwords_of_config_and_request_both_stop() -> None:
    options = predict_options(ChatRequest(messages=HELLO, stop=("b",)), ChatDefaults(stopwords=("a",)))
    assert list(options.StopPrompts) == ["a", "b"]


def test_tools_and_choice_travel_as_json_text() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    options = predict_options(ChatRequest(messages=HELLO, tools=(tool,), tool_choice="required"), ChatDefaults())
    assert json.loads(options.Tools) == [tool]
    assert json.loads(options.ToolChoice) == "required"


def test_a_conversation_with_tool_calls_is_passed_whole() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = (
        *HELLO,
        Message(role="assistant", tool_calls=(call,), reasoning="because"),
        Message(role="tool", tool_call_id="c1", content="42"),
    )
    sent = predict_options(ChatRequest(messages=messages), ChatDefaults()).Messages
    assert json.loads(sent[1].tool_calls) == [call]
    assert sent[1].reasoning_content == "because"
    assert (sent[2].tool_call_id, sent[2].content) == ("c1", "42")


def test_the_response_format_travels_in_the_metadata_and_a_client_cannot_replace_it() -> None:
    wanted = {"type": "json_object"}
    request = ChatRequest(messages=HELLO, response_format=wanted, metadata={"response_format": "{}", "own": "x"})
    options = predict_options(request, ChatDefaults(metadata={"enable_thinking": "false"}))
    assert json.loads(options.Metadata["response_format"]) == wanted
    assert (options.Metadata["own"], options.Metadata["enable_thinking"]) == ("x", "false")


def test_logprobs_and_bias_travel() -> None:
    request = ChatRequest(messages=HELLO, logprobs=True, top_logprobs=3, logit_bias={"5": -100})
    options = predict_options(request, ChatDefaults())
    assert (options.Logprobs, options.TopLogprobs, json.loads(options.LogitBias)) == (1, 3, {"5": -100})


def test_the_identity_is_left_to_the_chosen_replica() -> None:
    assert predict_options(ChatRequest(messages=HELLO), ChatDefaults()).ModelIdentity == ""


def test_the_token_limit_follows_the_same_order() -> None:
    request = ChatRequest(messages=HELLO, sampling=Sampling(max_tokens=5))
    config = ChatDefaults(sampling=Sampling(max_tokens=9))
    assert predict_options(request, config).Tokens == 5
    assert predict_options(ChatRequest(messages=HELLO), config).Tokens == 9
    assert predict_options(ChatRequest(messages=HELLO), ChatDefaults()).Tokens == 0


def sent(sampling: Sampling, *, config: Sampling | None = None, llama: bool = True) -> backend_pb2.PredictOptions:
    defaults = ChatDefaults(sampling=config or Sampling(), llama=llama)
    return predict_options(ChatRequest(messages=HELLO, sampling=sampling), defaults)


@pytest.mark.parametrize("llama", [True, False])
@pytest.mark.parametrize(
    ("name", "field"), [("top_p", "TopP"), ("typical_p", "TypicalP"), ("mirostat_tau", "MirostatTAU")]
)
def test_a_share_of_zero_is_sent_as_the_smallest_share(name: str, field: str, llama: bool) -> None:
    given = Sampling(**{name: 0.0})  # type: ignore[arg-type]
    other = Sampling(**{name: 0.5})  # type: ignore[arg-type]
    for options in (
        sent(given, llama=llama),
        sent(given, config=other, llama=llama),
        sent(Sampling(), config=given, llama=llama),
    ):
        assert 0 < getattr(options, field) < 1e-5
    assert getattr(sent(Sampling(), llama=llama), field) >= 0.9, "not given is not zero"


def test_top_k_zero_has_no_limit_whatever_the_config_says() -> None:
    for unlimited in (0, -1):
        assert sent(Sampling(top_k=unlimited), config=Sampling(top_k=40)).TopK > 1_000_000
        assert sent(Sampling(), config=Sampling(top_k=unlimited)).TopK > 1_000_000
    assert sent(Sampling(top_k=0), llama=False).TopK == 0, "these backends have no limit unless one is set"


def test_temperature_and_seed_zero_reach_backends_that_take_zero_for_not_set() -> None:
    options = sent(Sampling(temperature=0.0, seed=0))
    assert (options.Temperature, options.TopK, options.Seed) == (0, 0, 0), "llama.cpp takes them as they are"
    options = sent(Sampling(temperature=0.0, seed=0), llama=False)
    assert (options.Temperature, options.TopK) == (0, 1), "the most likely token at any temperature"
    assert options.Seed > 0
    assert (sent(Sampling(), llama=False).Seed, sent(Sampling(), llama=False).TopK) == (-1, 0)


def test_penalties_of_zero_override_those_of_the_config() -> None:
    config = Sampling(repeat_penalty=1.3, repeat_last_n=64, frequency_penalty=1.0, presence_penalty=1.0)
    options = sent(Sampling(frequency_penalty=0.0, presence_penalty=0.0, repeat_penalty=0.0), config=config)
    assert (options.FrequencyPenalty, options.PresencePenalty, options.Penalty, options.Repeat) == (0, 0, 1, 64)
    options = sent(Sampling(repeat_last_n=0), config=config)
    assert (options.FrequencyPenalty, options.PresencePenalty, options.Penalty, options.Repeat) == (0, 0, 1, 0)
