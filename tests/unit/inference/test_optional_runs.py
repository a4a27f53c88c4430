"""Rows of optional parts are found however they are written; grammars of real use have short ones."""

from __future__ import annotations

import time

import pytest

from localai.inference.bounds import GRAMMAR_BYTES
from localai.inference.optional_runs import longest_optional_run

pytestmark = pytest.mark.unit

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize(
    ("grammar", "run"),
    [
        ("", 0),
        ('root ::= "a" "b"', 0),
        ('root ::= "a"? "b"* "c"{0,3} "d"', 3),
        ('root ::= "a"+ "b"{2} [a-z?*] "? ? ?"', 0),
        ("root ::= " + '"a"? ' * 200, 200),
        ("root ::= " + '("a"|) ' * 200, 200),
        ("root ::= " + '("a"|"") ' * 200, 200),
        ("root ::= " + '(("a"? "b"?) ("c"?)) ' * 50, 150),
        ("root ::= " + "a " * 200 + '\na ::= "x" |\n', 200),
        ("root ::= " + "a-1 " * 100 + '\na-1 ::= b b\nb ::= "x"?', 200),
        ('root ::= ("a"?){200}', 200),
        ('root ::= ("a"? "b"?){100}', 200),
        ('root ::= "a" | "b" | "c"', 0),
        ('# "a"? "a"? "a"?\nroot ::= "a"', 0),
        ('root ::= ("a"? "b") ("c"? "d") ("e"? "f")', 1),
        (") ) ? ? ::= | ( (", 1),
        ("a" * 50_000, 0),
    ],
)
def test_the_longest_row_of_optional_parts(grammar: str, run: int) -> None:
    assert longest_optional_run(grammar) == run


def test_a_grammar_of_real_use_has_a_short_row() -> None:
    assert 1 <= longest_optional_run(JSON) <= 6


@pytest.mark.parametrize("piece", ['"a"? ', "a b? ", "(", '"', "[", "{", "<", "a\n::=", "a ::= b\n", "\\", "#"])
def test_every_grammar_of_the_largest_size_is_read_soon(piece: str) -> None:
    began = time.process_time()
    longest_optional_run(piece * (GRAMMAR_BYTES // len(piece)))
    assert time.process_time() - began < 5
