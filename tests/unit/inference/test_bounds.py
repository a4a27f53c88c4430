"""What an engine cannot take in beside its other requests is found before it gets there."""

from __future__ import annotations

from typing import Any

import pytest

from localai.inference import bounds

pytestmark = pytest.mark.unit


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "grammar",
    [
        "",
        "root ::= " + "(" * 256 + '"a"' + ")" * 256,
        "root ::= " + "|".join(f'"v{number}"' for number in range(1000)),
        'root ::= "' + "x" * (bounds.GRAMMAR_BYTES - 11) + '"',
        'root ::= ")" ' * 300,
    ],
)
def test_a_grammar_at_its_bounds_is_taken(grammar: str) -> None:
    bounds.check_grammar(grammar)


@pytest.mark.parametrize(
    ("grammar", "accepted"),
    [
        ("root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000, "at most 65536 bytes"),
        ('root ::= "' + "é" * 40_000 + '"', "at most 65536 bytes"),
        ("root ::= " + "(" * 257 + '"a"' + ")" * 257, "at most 256"),
        ("%llguidance {}\nstart: " + "(" * 257, "at most 256"),
        ("root ::= " + "[" * 257, "at most 256"),
        ("root ::= " + "|".join(f'"v{number}"' for number in range(1001)), "at most 1000"),
    ],
)
def test_a_grammar_outside_its_bounds_is_refused_with_the_bound(grammar: str, accepted: str) -> None:
    with pytest.raises(bounds.OutOfBounds, match=accepted):
        bounds.check_grammar(grammar)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"enum": list(range(1000))},
        {"properties": {f"p{number}": {"type": "integer"} for number in range(2400)}},
        nested(127),
        {"enum": {"not": "a list"}, "pattern": 3},
        {"pattern": "(" * 64 + "a" + ")" * 64},
    ],
)
def test_a_schema_at_its_bounds_is_taken(schema: Any) -> None:
    bounds.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "accepted"),
    [
        ({"enum": [f"value {number}" for number in range(100_000)]}, "at most"),
        ({"enum": list(range(1001))}, "at most 1000"),
        ({"anyOf": [{"enum": list(range(501))}, {"enum": list(range(500))}]}, "at most 1000"),
        ([{"enum": list(range(501))}, {"enum": list(range(500))}], "at most 1000"),
        ({"properties": {f"p{number}": {} for number in range(5000)}}, "at most 5000"),
        ({"properties": {f"p{number}": {"type": "integer"} for number in range(2500)}}, "at most 5000"),
        (nested(200), "at most 128"),
        (nested(100_000), "at most 128"),
        ({"const": "x" * 300_000}, "at most 262144"),
        ({"x" * 300_000: 1}, "at most 262144"),
        ({"pattern": "(" * 50_000}, "at most 4096"),
        ({"properties": {"a": {"pattern": "(" * 65}}}, "at most 64"),
        ({"patternProperties": {"(" * 65: {}}}, "at most 64"),
    ],
)
def test_a_schema_outside_its_bounds_is_refused_with_the_bound(schema: Any, accepted: str) -> None:
    with pytest.raises(bounds.OutOfBounds, match=accepted):
        bounds.check_schema(schema)
