"""What counts as an identity."""

from __future__ import annotations

from typing import Any

import pytest

from localai.ids import is_uuid, new_id

pytestmark = pytest.mark.unit
GIVEN = "4562be7f-bb42-40b2-8426-465e3e37952d"


@pytest.mark.parametrize("text", [GIVEN, GIVEN.upper()])
def test_a_uuid_is_known_by_its_usual_form(text: str) -> None:
    assert is_uuid(text)


def test_a_new_identity_is_one() -> None:
    assert is_uuid(new_id())


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        7,
        GIVEN.encode(),
        GIVEN.replace("-", ""),
        "{" + GIVEN + "}",
        "urn:uuid:" + GIVEN,
        GIVEN + "\n",
        " " + GIVEN,
        GIVEN.replace("4", "g", 1),
        GIVEN.replace("4", "\N{ARABIC-INDIC DIGIT FOUR}", 1),
    ],
)
def test_nothing_else_is_one(text: Any) -> None:
    assert not is_uuid(text)
