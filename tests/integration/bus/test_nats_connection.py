"""How the NATS bus lives through what servers and networks do."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from localai.bus import subjects
from localai.bus.nats import NatsBus, ThreadDelivery
from localai.bus.nats_connection import OUTBOX_LIMIT
from localai.bus.responders import AT_ONCE
from localai.clock import boottime
from localai.errors import BadInput, LocalAIError, NodeQuiet, NodeUnreachable
from tests.certificates import Authority
from tests.integration.bus.scripted_server import ScriptedServer
from tests.loopback import LIMIT_S, NatsServer, eventually, free_port

pytestmark = pytest.mark.integration

NODE = "node-1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def bus(server: NatsServer) -> Iterator[NatsBus]:
    bus = NatsBus(server.url, name="test", delivery=ThreadDelivery())
    try:
        eventually(bus.connected, "a connection")
        yield bus
    finally:
        server.thaw()
        bus.close()


def settle(bus: NatsBus) -> None:
    """Return when the server has taken every subscription made so far."""
    settled = threading.Event()
    bus.on_resync(settled.set)
    assert settled.wait(LIMIT_S)


def send_raw(server: NatsServer, subject: str, data: bytes) -> None:
    async def send() -> None:
        client = await nats.connect(server.url)
        await client.publish(subject, data)
        await client.flush()
        await client.close()

    asyncio.run(send())


def test_the_constructor_neither_waits_nor_fails_when_nats_is_down_and_connects_later(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    started = boottime()
    bus = NatsBus(server.url, name="early", delivery=ThreadDelivery())
    try:
        assert boottime() - started < 1
        seen: list[str] = []
        resyncs: list[bool] = []
        bus.subscribe(subjects.ROUTING_CHANGED, lambda subject, payload: seen.append(subject))
        bus.on_resync(lambda: resyncs.append(True))
        with pytest.raises(NodeUnreachable):
            bus.request(NODE, subjects.MODEL_STOP, {}, 5)
        assert not bus.connected()
        assert not resyncs
        server.start()
        eventually(lambda: resyncs, "a resync after the first connect")
        bus.publish(subjects.ROUTING_CHANGED, {})
        eventually(lambda: seen)
    finally:
        bus.close()
        server.kill()


def test_an_outage_is_logged_once_and_its_end_too(
    server: NatsServer, bus: NatsBus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for outage in (1, 2):
        server.kill()
        eventually(lambda: bus.counters.connect_failures >= 3, "three failed attempts")
        server.start()
        eventually(bus.connected, "a connection")
        settle(bus)
        lines = [record.getMessage() for record in caplog.records]
        assert sum("no connection to the bus" in line for line in lines) == outage
        assert sum(line == "connected to the bus" for line in lines) >= outage


def test_what_is_published_while_the_server_is_away_is_bounded_and_the_newest_arrives(
    server: NatsServer, bus: NatsBus
) -> None:
    server.kill()
    eventually(lambda: not bus.connected(), "the loss")
    numbers: list[int] = []
    bus.subscribe("jobs.*.progress", lambda subject, payload: numbers.append(payload["number"]))
    started = boottime()
    for number in range(OUTBOX_LIMIT + 500):
        bus.publish(subjects.job_progress("one"), {"number": number})
    assert boottime() - started < 10
    assert bus.counters.dropped == 500
    server.start()
    eventually(lambda: len(numbers) >= OUTBOX_LIMIT, "what was kept")
    assert numbers == list(range(500, OUTBOX_LIMIT + 500))


def test_a_question_under_way_when_the_server_dies_is_unreachable_before_its_limit(
    server: NatsServer, bus: NatsBus
) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        entered.set()
        release.wait(LIMIT_S)
        return {}

    bus.serve(NODE, subjects.MODEL_STOP, slow)
    settle(bus)
    failed: list[LocalAIError] = []

    def ask() -> None:
        try:
            bus.request(NODE, subjects.MODEL_STOP, {}, 10 * LIMIT_S)
        except LocalAIError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert entered.wait(LIMIT_S)
        server.kill()
        asking.join(LIMIT_S)
        assert [type(error) for error in failed] == [NodeUnreachable]
    finally:
        release.set()


def test_a_frozen_server_holds_up_neither_publish_nor_request_nor_close(server: NatsServer, bus: NatsBus) -> None:
    server.freeze()
    started = boottime()
    for _ in range(200):
        bus.publish(subjects.ROUTING_CHANGED, {"text": "x" * 50_000})
    assert boottime() - started < 10
    with pytest.raises((NodeQuiet, NodeUnreachable)):
        bus.request(NODE, subjects.MODEL_STOP, {}, 0.5)
    asked = boottime()
    bus.close()
    assert boottime() - asked < 20


def test_what_cannot_be_read_is_counted_and_ignored_and_null_is_the_empty_payload(
    server: NatsServer, bus: NatsBus
) -> None:
    seen: list[dict[str, Any]] = []
    bus.subscribe("jobs.*.result", lambda subject, payload: seen.append(dict(payload)))
    settle(bus)
    for data in (b"{", b"[1]", b"\xff\xfe", b"1", b'"text"', b"[" * 100_000):
        send_raw(server, "jobs.one.result", data)
    send_raw(server, "jobs.one.result", b"null")
    send_raw(server, "jobs.one.result", b"")
    send_raw(server, "jobs.one.result", b'{"unknown": true}')
    eventually(lambda: len(seen) == 3)
    assert seen == [{}, {}, {"unknown": True}]
    assert bus.counters.malformed == 6


def test_a_request_that_is_no_object_is_refused_and_an_unreadable_answer_is_no_word_of_the_worker(
    server: NatsServer, bus: NatsBus
) -> None:
    bus.serve(NODE, subjects.MODEL_STOP, lambda payload: {})
    settle(bus)

    async def garble(message: Msg) -> None:
        await message.respond(b"<html>")

    async def talk() -> tuple[bytes, type[LocalAIError]]:
        client = await nats.connect(server.url)
        try:
            answer = await client.request(subjects.node_operation(NODE, subjects.MODEL_STOP), b"[]", timeout=LIMIT_S)
            await client.subscribe("nodes.garbled.model.stop", cb=garble)
            await client.flush()
            try:
                await asyncio.to_thread(bus.request, "garbled", subjects.MODEL_STOP, {}, LIMIT_S)
            except LocalAIError as error:
                return answer.data, type(error)
            raise AssertionError("an unreadable answer passed as an answer")
        finally:
            await client.close()

    answer, error = asyncio.run(talk())
    assert b"error" in answer
    assert error is NodeUnreachable


def test_a_published_request_without_a_reply_subject_is_served_without_an_answer(
    server: NatsServer, bus: NatsBus
) -> None:
    asked = threading.Event()

    def responder(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.set()
        return {"answered": True}

    bus.serve(NODE, "backend.stop", responder)
    settle(bus)
    send_raw(server, "nodes.node-1.backend.stop", b"")
    assert asked.wait(LIMIT_S)


def test_a_payload_over_the_servers_limit_is_the_callers_fault_in_a_request_and_dropped_in_an_event(
    bus: NatsBus,
) -> None:
    with pytest.raises(BadInput):
        bus.request(NODE, subjects.MODEL_STOP, {"text": "x" * 2_000_000}, LIMIT_S)
    bus.publish(subjects.ROUTING_CHANGED, {"text": "x" * 2_000_000})
    eventually(lambda: bus.counters.dropped == 1)
    assert bus.connected()


def test_more_questions_than_a_node_answers_at_a_time_wait_and_are_never_refused(bus: NatsBus) -> None:
    release = threading.Event()
    entered: list[bool] = []

    def slow(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        entered.append(True)
        release.wait(LIMIT_S)
        return {}

    bus.serve(NODE, subjects.MODEL_STOP, slow)
    settle(bus)
    answers: list[Mapping[str, Any]] = []

    def ask() -> None:
        answers.append(bus.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S))

    asking = [threading.Thread(target=ask) for _ in range(AT_ONCE + 10)]
    for thread in asking:
        thread.start()
    try:
        eventually(lambda: len(entered) == AT_ONCE, "all places taken")
        with pytest.raises(NodeQuiet):
            bus.request(NODE, subjects.MODEL_STOP, {}, 0.2)
        assert len(entered) == AT_ONCE
    finally:
        release.set()
        for thread in asking:
            thread.join(LIMIT_S)
    assert len(answers) == AT_ONCE + 10


def test_a_refused_subscription_is_logged_and_the_others_live(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = NatsServer(tmp_path)
    server.configure(
        'authorization { users = [{ user: "u", password: "p", '
        'permissions: { subscribe: ["routing.changed", "_INBOX.>"], publish: ">" } }] }'
    )
    server.start()
    url = server.bare_url.replace("nats://", "nats://u:p@")
    bus = NatsBus(url, name="scoped", delivery=ThreadDelivery())
    try:
        seen: list[str] = []
        bus.subscribe("jobs.*.result", lambda subject, payload: None)
        bus.subscribe(subjects.ROUTING_CHANGED, lambda subject, payload: seen.append(subject))
        settle(bus)
        eventually(lambda: "jobs.*.result" in caplog.text, "the refused subject in the log")
        bus.publish(subjects.ROUTING_CHANGED, {})
        eventually(lambda: seen)
        assert bus.counters.server_errors >= 1
    finally:
        bus.close()
        server.kill()


def test_a_process_that_is_behind_drops_events_and_reads_rows_again_once(server: NatsServer) -> None:
    bus = NatsBus(server.url, name="behind", delivery=ThreadDelivery(limit=10))
    try:
        release, entered = threading.Event(), threading.Event()
        resyncs: list[bool] = []
        handled: list[int] = []

        def slow(subject: str, payload: Mapping[str, Any]) -> None:
            entered.set()
            release.wait(LIMIT_S)
            handled.append(payload["number"])

        bus.subscribe("jobs.*.progress", slow)
        bus.on_resync(lambda: resyncs.append(True))
        settle(bus)
        before = len(resyncs)
        bus.publish(subjects.job_progress("one"), {"number": 0})
        assert entered.wait(LIMIT_S)
        for number in range(1, 100):
            bus.publish(subjects.job_progress("one"), {"number": number})
        eventually(lambda: bus.counters.received >= 100, "all events")
        assert bus.counters.overflowed >= 80
        release.set()
        eventually(lambda: len(resyncs) > before, "a resync after the backlog")
        assert len(resyncs) == before + 1
        assert handled[0] == 0
    finally:
        release.set()
        bus.close()


def test_bu_01_expired_credentials_lead_to_a_new_connection_with_fresh_ones_and_all_subscriptions() -> None:
    server = ScriptedServer()
    tokens = itertools.count(1)
    bus = NatsBus(
        server.url, name="short-lived", delivery=ThreadDelivery(), options=lambda: {"token": f"token-{next(tokens)}"}
    )
    try:
        resyncs: list[bool] = []
        bus.subscribe(subjects.ROUTING_CHANGED, lambda subject, payload: None)
        bus.serve(NODE, subjects.MODEL_STOP, lambda payload: {})
        bus.on_resync(lambda: resyncs.append(True))
        eventually(lambda: resyncs, "the first connection")
        before = len(resyncs)
        server.say_to_last("-ERR 'User Authentication Expired'")
        eventually(lambda: len(resyncs) > before, "a resync on the second connection")
        assert [connect["auth_token"] for connect in server.connects] == ["token-1", "token-2"]
        assert set(server.subscribed[1]) >= {"routing.changed", "nodes.node-1.model.stop"}
    finally:
        bus.close()
        server.close()


def test_bu_01_a_token_changed_on_the_server_is_found_by_asking_for_fresh_options(server: NatsServer) -> None:
    token = [server.token]
    bus = NatsBus(server.bare_url, name="rotated", delivery=ThreadDelivery(), options=lambda: {"token": token[0]})
    try:
        eventually(bus.connected, "the first connection")
        server.configure('authorization { token: "another" }')
        server.reload()
        eventually(lambda: bus.counters.connect_failures >= 1, "a refused attempt with the old token")
        token[0] = "another"
        eventually(bus.connected, "a connection with the new token")
    finally:
        bus.close()


def test_bu_01_connect_options_that_cannot_be_drawn_are_a_failed_attempt_and_asked_for_again(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = itertools.count(1)

    def options() -> Mapping[str, Any]:
        if next(attempts) < 3:
            raise LocalAIError("no frontend answers")
        return {"token": server.token}

    bus = NatsBus(server.bare_url, name="late", delivery=ThreadDelivery(), options=options)
    try:
        eventually(bus.connected, "a connection at the third attempt")
        assert "no frontend answers" in caplog.text
    finally:
        bus.close()


def test_of_several_servers_one_that_lives_is_enough(server: NatsServer) -> None:
    dead = f"nats://127.0.0.1:{free_port()}"
    bus = NatsBus(f"{dead}, {server.url}", name="several", delivery=ThreadDelivery())
    try:
        eventually(bus.connected, "a connection to the living one")
    finally:
        bus.close()


TLS_REFUSALS = 2


def tls_url(server: NatsServer) -> str:
    return server.url.replace("nats://", "tls://")


def test_a_server_named_with_tls_is_trusted_by_the_ca_file_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.issue("IP:127.0.0.1")
    server = NatsServer(tmp_path)
    server.configure(
        f'authorization {{ token: "{server.token}" }}\ntls {{ cert_file: "{pair.cert}", key_file: "{pair.key}" }}'
    )
    server.start()
    trusting = NatsBus(tls_url(server), name="trusting", delivery=ThreadDelivery(), ca_file=authority.cert)
    strange = NatsBus(tls_url(server), name="strange", delivery=ThreadDelivery())
    try:
        eventually(trusting.connected, "a connection over TLS")
        eventually(lambda: strange.counters.connect_failures >= TLS_REFUSALS, "refusals")
        assert not strange.connected()
    finally:
        trusting.close()
        strange.close()
        server.kill()


def test_a_server_named_with_tls_that_offers_none_gets_no_credentials(server: NatsServer) -> None:
    bus = NatsBus(tls_url(server), name="downgraded", delivery=ThreadDelivery())
    try:
        eventually(lambda: bus.counters.connect_failures >= TLS_REFUSALS, "refusals")
        assert not bus.connected() and bus.counters.connects == 0
    finally:
        bus.close()
