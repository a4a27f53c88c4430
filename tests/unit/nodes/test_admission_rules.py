"""Which registration keeps a node, waits for an approval, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from localai.nodes.admission_rules import Admission, Decision, KnownNode, Terms, decide, moves, reports
from localai.nodes.rules import Registration, Status
from tests.unit.jobs.builders import NOW, at

pytestmark = pytest.mark.unit
TERMS = Terms(stale_after_s=300.0)
HERE, ELSEWHERE = ("a:1", "a:2"), ("b:1", "b:2")
#: Other ports of the same host: a worker that was started again.
BESIDE = ("a:8", "A:9")


def known(place: tuple[str, str] = HERE, **changes: Any) -> KnownNode:
    values = {
        "status": Status.HEALTHY,
        "status_at": at(-1000),
        "last_heartbeat": at(-10),
        "address": place[0],
        "http_address": place[1],
        "secret_hash": "own",
        "contested_at": None,
        "now": NOW,
    }
    return KnownNode(**{**values, **changes})


def asks(secret_hash: str | None = "own", place: tuple[str, str] = HERE) -> Registration:
    return Registration(name="gpu-1", address=place[0], http_address=place[1], secret_hash=secret_hash)


def judged(row: KnownNode | None, registration: Registration, terms: Terms = TERMS) -> Decision:
    return decide(row, registration, terms)


SILENT = {"status": Status.OFFLINE, "status_at": at(-5), "last_heartbeat": at(-400)}


@pytest.mark.parametrize(
    ("row", "registration", "admission"),
    [
        (None, asks(), Admission.ADMITTED),
        (known(), asks(), Admission.ADMITTED),
        (known(), asks(place=BESIDE), Admission.ADMITTED),
        (known(), asks(place=ELSEWHERE), Admission.MOVED),
        (known(), asks(place=("a:1", "b:2")), Admission.MOVED),
        (known(), asks(place=("", "a:2")), Admission.MOVED),
        (known(place=("", "")), asks(), Admission.MOVED),
        (known(**SILENT), asks(place=BESIDE), Admission.ADMITTED),
        (known(**SILENT), asks(place=ELSEWHERE), Admission.MOVED),
        (known(), asks("other", ELSEWHERE), Admission.REFUSED),
        (known(), asks("other", HERE), Admission.REFUSED),
        (known(), asks(None, ELSEWHERE), Admission.REFUSED),
        (known(), asks(None, HERE), Admission.REFUSED),
        (known(**SILENT), asks("other", HERE), Admission.UNPROVEN),
        (known(**SILENT), asks(None, ELSEWHERE), Admission.UNPROVEN),
        (known(contested_at=at(-20)), asks(), Admission.ADMITTED),
        (known(contested_at=at(-20)), asks(place=ELSEWHERE), Admission.REFUSED),
        (known(contested_at=at(-20)), asks(place=BESIDE), Admission.REFUSED),
        (known(contested_at=at(-20), **SILENT), asks(place=BESIDE), Admission.ADMITTED),
        (known(contested_at=at(-20), **SILENT), asks(place=ELSEWHERE), Admission.MOVED),
        (known(secret_hash=None), asks(None, BESIDE), Admission.ADMITTED),
        (known(secret_hash=None), asks(None, ELSEWHERE), Admission.UNPROVEN),
        (known(secret_hash=None), asks("first", HERE), Admission.ADMITTED),
        (known(secret_hash=None), asks("first", ELSEWHERE), Admission.REFUSED),
        (known(secret_hash=None, **SILENT), asks("first", BESIDE), Admission.ADMITTED),
        (known(secret_hash=None, **SILENT), asks("first", ELSEWHERE), Admission.UNPROVEN),
    ],
)
def test_only_the_secret_keeps_a_node(row: KnownNode | None, registration: Registration, admission: Admission) -> None:
    assert judged(row, registration).admission is admission


def test_a_refusal_names_both_addresses_and_what_to_do() -> None:
    reason = judged(known(), asks("other", ELSEWHERE)).reason
    assert all(text in reason for text in ("'gpu-1'", "a:1", "a:2", "b:1", "b:2", "LOCALAI_NODE_NAME"))
    copied = judged(known(contested_at=at(-1)), asks(place=ELSEWHERE)).reason
    assert all(text in copied for text in ("a:1", "b:1", "copy", "node-secret"))
    for row in (known(), known(secret_hash=None, **SILENT)):
        moved = judged(row, asks(place=ELSEWHERE)).reason
        assert all(text in moved for text in ("a:1", "a:2", "b:1", "b:2", "host", "LOCALAI_ADVERTISE_ADDR"))
    unproven = judged(known(**SILENT), asks("other", ELSEWHERE)).reason
    assert all(text in unproven for text in ("a:1", "b:1", "secret"))


def test_a_secret_that_the_settings_name_needs_no_other_proof() -> None:
    terms = Terms(stale_after_s=300.0, vouched=True)
    assert judged(known(), asks("new", ELSEWHERE), terms).admission is Admission.ADMITTED


@pytest.mark.parametrize(
    ("row", "running"),
    [
        (known(), True),
        (known(last_heartbeat=at(-4000)), True),  # the stale pass has not judged it yet
        (known(status=Status.DRAINING), True),
        (known(last_heartbeat=None), False),
        (known(status=Status.PENDING), True),
        (known(status=Status.PENDING, last_heartbeat=at(-301)), False),
        (known(status=Status.OFFLINE, status_at=at(-5)), False),
        (known(status=Status.OFFLINE, status_at=at(-15)), True),  # heard of since, not taken back yet
        (known(status=Status.OFFLINE, status_at=at(-500), last_heartbeat=at(-400)), False),
    ],
)
def test_a_node_reports_until_it_was_judged_silent_or_left(row: KnownNode, running: bool) -> None:
    assert reports(row, 300.0) is running


def test_another_address_is_a_move_and_a_new_name_is_none() -> None:
    assert moves(known(), asks(place=ELSEWHERE))
    assert not moves(known(), asks())
    assert not moves(None, asks())
