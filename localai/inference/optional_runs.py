"""The longest row of optional parts in a grammar of llama.cpp (GBNF), which decides what one token costs its sampler.

Each of them may be skipped, so a token has to be tried behind each, and its second character behind each of the rest.
A grammar that cannot be read has no row here: the engine refuses it. A copy of this file lies in the folders of the
built-in backends, so it imports nothing but the standard library.
"""

from __future__ import annotations

import re

#: Passes over a grammar: each finds the optional rules that are made of those of the pass before.
_PASSES = 4
#: Larger rows need not be told apart.
_MOST = 10_000

#: Each piece is read once: what nothing closes reaches to the end of the text.
_TOKEN = re.compile(
    r"""
    (?P<comment> \#[^\n]*)
    | (?P<rule> [\w-]++ (?=\s*+::=)) | ::=
    | (?P<terminal> "(?:\\.|[^"\\])*+(?:"|\Z|\\) | \[(?:\\.|[^\]\\])*+(?:\]|\Z|\\) | \. | !?<[^>]*+(?:>|\Z))
    | (?P<name> [\w-]++)
    | (?P<repeat> [*+?] | \{[^}]*+(?:\}|\Z))
    | (?P<mark> [()|])
    """,
    re.VERBOSE | re.DOTALL,
)


class _Sequence:
    """What is known of the alternatives of a rule or group while they are read. A weight of 0 is "not optional"."""

    def __init__(self) -> None:
        #: Weight of the heaviest alternative before this one that may be skipped as a whole.
        self.skipped = 0
        self.next()

    def next(self) -> None:
        """Begin an alternative."""
        self.empty, self.run, self.last, self.before = True, 0, 0, (True, 0)

    def add(self, weight: int) -> None:
        """One more part."""
        self.before, self.last = (self.empty, self.run), weight
        self.empty = self.empty and weight > 0
        self.run = min(self.run + weight, _MOST) if weight else 0

    def repeat(self, least: int) -> None:
        """The last part is repeated, `least` times at least."""
        weight = max(self.last, 1) if least == 0 else min(self.last * least, _MOST)
        self.empty, self.run = self.before
        self.add(weight)

    def end(self) -> None:
        """End an alternative."""
        if self.empty:
            self.skipped = max(self.skipped, self.run, 1)


def longest_optional_run(grammar: str) -> int:
    """How many optional parts follow each other at most, those inside optional groups and rules included."""
    rules: dict[str, int] = {}
    longest = 0
    for _ in range(_PASSES):
        found, longest = _read(grammar, rules)
        if found == rules:
            break
        rules = found
    return longest


def _read(grammar: str, rules: dict[str, int]) -> tuple[dict[str, int], int]:
    """The weights of the optional rules, and the longest row, with the weights of rules known so far."""
    found: dict[str, int] = {}
    longest, rule, open_ = 0, "", [_Sequence()]
    for token in _TOKEN.finditer(grammar):
        kind, text, at = token.lastgroup, token[0], open_[-1]
        if kind == "rule":
            _close(found, rule, open_)
            rule, open_ = text, [_Sequence()]
        elif kind == "terminal":
            at.add(1 if text == '""' else 0)
        elif kind == "name":
            at.add(rules.get(text, 0))
        elif kind == "repeat":
            at.repeat(_least(text))
        elif text == "(":
            open_.append(_Sequence())
        elif text == "|":
            at.end()
            at.next()
        elif text == ")" and len(open_) > 1:
            at.end()
            open_.pop()
            open_[-1].add(at.skipped)
        longest = max(longest, open_[-1].run)
    _close(found, rule, open_)
    return found, longest


def _close(found: dict[str, int], rule: str, open_: list[_Sequence]) -> None:
    open_[0].end()
    if open_[0].skipped:
        found[rule] = open_[0].skipped


def _least(text: str) -> int:
    if text in "*?":
        return 0
    number = re.match(r"\{\s*(\d{1,9})", text)
    return int(number[1]) if number else 1
