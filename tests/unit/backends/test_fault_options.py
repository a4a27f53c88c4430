"""Options of the fault backend are read strictly: a typing error must not make a test pass."""

from __future__ import annotations

from types import ModuleType

import pytest

from protos import backend_pb2 as pb
from tests.unit.backends.conftest import LoadModule

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def faults(load_module: LoadModule) -> ModuleType:
    return load_module("fault", "faults")


def test_no_options_mean_a_backend_that_behaves(faults: ModuleType) -> None:
    assert faults.parse([]) == faults.Faults()


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("bind_delay:10s", "bind_delay", 10.0),
        ("load_delay:1m30s", "load_delay", 90.0),
        ("token_delay:250ms", "token_delay", 0.25),
        ("first_token_delay:2.5", "first_token_delay", 2.5),
        ("start_exit:0", "start_exit", 0),
        ("tokens: 12", "tokens", 12),
        ("crash_after:0", "crash_after", 0),
        ("load_fail:cannot open: no such file", "load_fail", "cannot open: no such file"),
        (r"stderr:one\ntwo", "stderr", "one\ntwo"),
        ("require_files:a.bin, sub/b.bin", "require_files", ("a.bin", "sub/b.bin")),
        ("hold_interpreter:16s", "hold_interpreter", 16.0),
        ("hang_in_predict:true", "hang_in_predict", True),
        ("map_model:true", "map_model", True),
        ("ignore_sigterm:false", "ignore_sigterm", False),
    ],
)
def test_an_option_has_a_typed_value(faults: ModuleType, option: str, name: str, value: object) -> None:
    assert getattr(faults.parse([option]), name) == value


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("tokenz:3", "'tokenz' is not known"),
        ("tokens:-1", "a whole number"),
        ("load_delay:soon", "a duration"),
        ("fork_child:maybe", "true or false"),
        ("fork_child", "true or false"),
    ],
)
def test_a_bad_option_is_refused_and_named(faults: ModuleType, option: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        faults.parse([option])


def test_every_option_has_a_parser(faults: ModuleType) -> None:
    names = {field.name for field in faults.fields(faults.Faults)}
    assert set(faults._PARSERS) == names


@pytest.fixture(scope="module")
def answers(load_module: LoadModule) -> ModuleType:
    return load_module("fault", "answers")


def test_an_answer_names_the_model_and_stops_at_the_callers_limit(answers: ModuleType) -> None:
    options = pb.PredictOptions(Tokens=2, Messages=[pb.Message(role="user", content="one two")])
    parts = list(answers.replies("alpha", 5, options))
    assert [(part.message, part.tokens, part.prompt_tokens) for part in parts] == [
        (b"alpha says: tok1", 1, 2),
        (b" tok2", 2, 2),
    ]
    assert answers.joined(parts).message == b"alpha says: tok1 tok2"


def test_a_tool_call_takes_the_name_given_or_the_first_tool_of_the_request(answers: ModuleType) -> None:
    options = pb.PredictOptions(Tools='[{"type": "function", "function": {"name": "weather"}}]')
    for wanted, name in (("true", "weather"), ("clock", "clock")):
        first = next(answers.tool_call(wanted, options))
        assert first.chat_deltas[0].tool_calls[0].name == name
