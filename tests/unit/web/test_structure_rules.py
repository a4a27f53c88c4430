"""The structure of a body is counted exactly, and what stands inside of a text is no structure."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from localai.errors import RequestTooComplex
from web import limits, structure_rules

pytestmark = pytest.mark.unit

#: What looks like structure, ends a text too early, or is left open by a piece that ends here.
SNARES = ['"', "\\", '\\"', '"\\', "[{,:]}", "1" * 300, "\\\\", '\\\\"', "é☃\U0001f600", "\n\t\0", "", "a"]


def check(text: str | bytes) -> None:
    for _ in structure_rules.check(text if isinstance(text, bytes) else text.encode()):
        pass


def refused(text: str | bytes) -> str:
    with pytest.raises(RequestTooComplex) as caught:
        check(text)
    return caught.value.message


def listed(count: int, item: str) -> str:
    return "[" + ",".join([item] * count) + "]"


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("limit", "accepted", "over"),
    [
        (limits.VALUES, listed(limits.VALUES.most, "1"), listed(limits.VALUES.most + 1, "1")),
        (limits.CONTAINERS, listed(limits.CONTAINERS.most - 1, "{}"), listed(limits.CONTAINERS.most, "{}")),
        (limits.DEPTH, nested(limits.DEPTH.most), nested(limits.DEPTH.most + 1)),
        (limits.DIGITS, "[" + "1" * limits.DIGITS.most + "]", "[" + "1" * (limits.DIGITS.most + 1) + "]"),
        (limits.DIGITS, "[0." + "1" * limits.DIGITS.most + "]", "[0." + "1" * (limits.DIGITS.most + 1) + "]"),
    ],
)
def test_a_body_is_accepted_up_to_the_limit(limit: limits.Limit, accepted: str, over: str) -> None:
    check(accepted)
    message = refused(over)
    assert str(limit.most) in message and limit.what in message


def test_names_are_counted_whether_they_repeat_or_not() -> None:
    check("{" + ",".join(['"a":1'] * limits.NAMES.most) + "}")
    assert limits.NAMES.what in refused("{" + ",".join(['"a":1'] * (limits.NAMES.most + 1)) + "}")


@pytest.mark.parametrize("snare", ["[", "{,", '\\"[', "\\\\[", "[" * 200, "1" * 200, ":,"])
def test_what_stands_inside_of_a_text_does_not_count(snare: str) -> None:
    check(json.dumps({"content": snare * (2_000_000 // len(snare))}))


@pytest.mark.parametrize("text", ["a\\", "a\\\\", 'a"', 'a\\"', '\\\\"'])
def test_structure_after_a_text_counts_whatever_the_text_ends_with(text: str) -> None:
    assert limits.DEPTH.what in refused(f"[{json.dumps(text)},{nested(limits.DEPTH.most)}]")


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 64])
def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(structure_rules, "PIECE_BYTES", piece_bytes)
    for seed in range(60):
        value = random_value(random.Random(seed), 5)
        counted = structure_rules._Exact()
        texts = structure_rules._WithoutTexts()
        for piece in structure_rules._pieces(json.dumps(value, ensure_ascii=seed % 2 == 0).encode()):
            counted.add(texts.rest_of(piece))
        containers, commas, names = structure_of(value)
        assert (counted.containers, counted.values, counted.names) == (containers, containers + commas, names), seed


@pytest.mark.parametrize("piece_bytes", [1, 5, 100])
def test_a_long_number_is_found_across_pieces(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(structure_rules, "PIECE_BYTES", piece_bytes)
    assert limits.DIGITS.what in refused('{"a": "' + "2" * 500 + '", "b": ' + "1" * (limits.DIGITS.most + 1) + "}")
    check('{"a": "' + "2" * 500 + '", "b": ' + "1" * limits.DIGITS.most + "}")


def test_a_long_body_is_counted_in_steps_and_refused_at_the_first_that_is_too_much() -> None:
    text = b"[" + b"1," * 4_000_000 + b"1]"
    steps = 0
    with pytest.raises(RequestTooComplex):
        for _ in structure_rules.check(text):
            steps += 1
    # The limit lies within the first tenth of the text, and it is counted twice.
    assert 2 < steps < len(text) / structure_rules.PIECE_BYTES / 2


@pytest.mark.parametrize(
    "text", [b"", b"\\", b'"', b'\\"', b"]" * 10_000, b"\xff\xfe" * 1000, b'"\\', b"}" * 300 + b"{"]
)
def test_bytes_that_are_no_json_are_left_to_the_parser(text: bytes) -> None:
    check(text)


def random_value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(6 if depth else 3)
    if kind == 0:
        return rng.choice([0, -1.5, 1e10, True, None, rng.getrandbits(60)])
    if kind in (1, 2):
        return "".join(rng.choices(SNARES, k=rng.randrange(5)))
    if kind in (3, 4):
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(5))]
    return {f"{place}{rng.choice(SNARES)}": random_value(rng, depth - 1) for place in range(rng.randrange(5))}


def structure_of(value: Any) -> tuple[int, int, int]:
    """Lists and objects, commas between items, and names."""
    if not isinstance(value, list | dict):
        return 0, 0, 0
    inner = [structure_of(item) for item in (value.values() if isinstance(value, dict) else value)]
    containers, commas, names = (sum(column) for column in zip(*inner, strict=True)) if inner else (0, 0, 0)
    return containers + 1, commas + max(0, len(value) - 1), names + (len(value) if isinstance(value, dict) else 0)
