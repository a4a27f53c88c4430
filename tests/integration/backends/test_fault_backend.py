"""Every option of the fault backend does what its page says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest

from protos import backend_pb2 as pb
from protos.backend_pb2_grpc import BackendStub
from tests.integration.backends.conftest import LIMIT_S, Running, Start

pytestmark = pytest.mark.integration

HELLO = pb.PredictOptions(Prompt="one two three")


def load(stub: BackendStub, *options: str, model: str = "alpha", folder: Path | None = None) -> pb.Result:
    request = pb.ModelOptions(Model=model, ModelPath=str(folder or ""), Options=options)
    return stub.LoadModel(request, timeout=LIMIT_S)


def loaded(start: Start, *options: str) -> tuple[Running, BackendStub]:
    one = start(*options)
    stub = one.connect()
    result = load(stub, *options)
    assert result.success, result.message
    return one, stub


def test_the_answer_names_the_model_and_counts_tokens(start: Start) -> None:
    _, stub = loaded(start, "tokens:3")
    reply = stub.Predict(HELLO, timeout=LIMIT_S)
    assert reply.message == b"alpha says: tok1 tok2 tok3"
    assert (reply.tokens, reply.prompt_tokens) == (3, 3)


def test_streamed_counts_are_cumulative(start: Start) -> None:
    _, stub = loaded(start, "tokens:3")
    replies = list(stub.PredictStream(HELLO, timeout=LIMIT_S))
    assert [reply.tokens for reply in replies] == [1, 2, 3]
    assert b"".join(reply.message for reply in replies) == b"alpha says: tok1 tok2 tok3"


def test_max_tokens_bounds_the_answer(start: Start) -> None:
    _, stub = loaded(start, "tokens:5")
    reply = stub.Predict(pb.PredictOptions(Tokens=2), timeout=LIMIT_S)
    assert reply.message == b"alpha says: tok1 tok2"


def test_health_is_ok_before_and_after_a_load_and_status_says_which(start: Start) -> None:
    stub = start().connect()
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.UNINITIALIZED
    load(stub)
    assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.READY


def test_a_staged_model_is_named_by_its_folder(start: Start) -> None:
    stub = start().connect()
    load(stub, "tokens:1", model="/data/models/beta/weights.bin", folder=Path("/data/models/beta"))
    assert stub.Predict(HELLO, timeout=LIMIT_S).message == b"beta says: tok1"


def test_the_model_is_gone_after_free(start: Start) -> None:
    _, stub = loaded(start)
    assert stub.Free(pb.HealthMessage(), timeout=LIMIT_S).success
    assert refused(stub).code() is grpc.StatusCode.FAILED_PRECONDITION


def test_an_unknown_option_refuses_the_load_and_is_named(start: Start) -> None:
    result = load(start().connect(), "tokenz:3")
    assert not result.success
    assert "tokenz" in result.message


def test_bind_delay_keeps_the_port_closed_that_long(start: Start) -> None:
    began = time.monotonic()
    start("bind_delay:1s").connect()
    assert time.monotonic() - began >= 1


def test_start_exit_ends_before_the_port_is_bound_with_that_code_and_stderr(start: Start) -> None:
    one = start("start_exit:3", r"stderr:first\nsecond")
    assert one.wait() == 3
    one.end()
    assert one.lines == ["first", "second"]


def test_load_delay_lasts_while_health_answers(start: Start) -> None:
    stub = start().connect()
    began = time.monotonic()
    call = stub.LoadModel.future(pb.ModelOptions(Model="alpha", Options=["load_delay:1s"]), timeout=LIMIT_S)
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    assert call.result().success
    assert time.monotonic() - began >= 1


def test_load_fail_refuses_with_its_text_and_tells_stderr(start: Start) -> None:
    one = start()
    result = load(one.connect(), "load_fail:out of memory")
    assert (result.success, result.message) == (False, "out of memory")
    one.line("load failed: out of memory")


def test_st_03_require_files_refuses_and_names_what_is_missing(start: Start, tmp_path: Path) -> None:
    stub = start().connect()
    (tmp_path / "vocab.txt").touch()
    result = load(stub, "require_files:vocab.txt,sub/merges.txt", folder=tmp_path)
    assert not result.success
    assert "sub/merges.txt" in result.message
    assert "vocab.txt" not in result.message
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "merges.txt").touch()
    assert load(stub, "require_files:vocab.txt,sub/merges.txt", folder=tmp_path).success


def test_fork_child_leaves_a_child_in_the_process_group(start: Start) -> None:
    one, _ = loaded(start, "fork_child:true")
    child = int(one.line(r"forked child pid=(\d+)")[1])
    assert os.getpgid(child) == one.process.pid
    one.process.terminate()
    one.wait()
    assert psutil.pid_exists(child)


def test_ignore_sigterm_goes_on_serving(start: Start) -> None:
    one, stub = loaded(start, "ignore_sigterm:true")
    one.process.terminate()
    assert stub.Predict(HELLO, timeout=LIMIT_S).tokens
    assert one.process.poll() is None


def test_sigterm_ends_the_process_in_order_with_a_hanging_call(start: Start) -> None:
    one, stub = loaded(start, "hang_in_predict:true")
    call = stub.Predict.future(HELLO, timeout=LIMIT_S)
    one.process.terminate()
    assert one.wait() == 0
    with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
        call.result()


def refused(stub: BackendStub, request: pb.PredictOptions = HELLO) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request, timeout=LIMIT_S)
    return caught.value


SECRET = "a-secret-of-a-process"
#: What callers show that do not know it.
WRONG: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("authorization", ""),),
    (("authorization", SECRET),),
    (("authorization", f"bearer {SECRET}"),),
    (("authorization", f"Bearer {SECRET}x"),),
    (("authorization", f"Bearer {SECRET[:-1]}"),),
    (("authorization", "Bearer wrong"), ("authorization", f"Bearer {SECRET}")),
)


def test_a_process_with_a_secret_refuses_every_call_that_does_not_show_it(start: Start) -> None:
    stub = start(LOCALAI_GRPC_AUTH_TOKEN=SECRET).connect()
    key = (("authorization", f"Bearer {SECRET}"),)
    model, hello = pb.ModelOptions(Model="alpha"), pb.PredictOptions(Prompt="one two three", Tokens=1)
    assert stub.LoadModel(model, timeout=LIMIT_S, metadata=key).success
    for shown in WRONG:
        answers = (
            stub.Health.future(pb.HealthMessage(), timeout=LIMIT_S, metadata=shown),
            stub.Status.future(pb.HealthMessage(), timeout=LIMIT_S, metadata=shown),
            stub.LoadModel.future(model, timeout=LIMIT_S, metadata=shown),
            stub.Predict.future(hello, timeout=LIMIT_S, metadata=shown),
            stub.PredictStream(hello, timeout=LIMIT_S, metadata=shown),
            stub.Embedding.future(hello, timeout=LIMIT_S, metadata=shown),
            stub.Free.future(pb.HealthMessage(), timeout=LIMIT_S, metadata=shown),
        )
        for answer in answers:
            assert answer.code() is grpc.StatusCode.UNAUTHENTICATED, shown
            assert SECRET not in answer.details()
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S, metadata=key).message == b"OK"
    assert stub.Predict(hello, timeout=LIMIT_S, metadata=key).tokens == 1
    assert [reply.tokens for reply in stub.PredictStream(hello, timeout=LIMIT_S, metadata=key)] == [1]


def test_i12_another_identity_is_refused_and_an_empty_one_is_not_checked(start: Start) -> None:
    _, stub = loaded(start)
    error = refused(stub, pb.PredictOptions(ModelIdentity="beta"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "model identity mismatch" in error.details()
    assert stub.Predict(pb.PredictOptions(ModelIdentity="alpha"), timeout=LIMIT_S).tokens
    assert stub.Predict(HELLO, timeout=LIMIT_S).tokens


def test_wrong_identity_refuses_every_call(start: Start) -> None:
    _, stub = loaded(start, "wrong_identity:true")
    error = refused(stub, pb.PredictOptions(ModelIdentity="alpha"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "model identity mismatch" in error.details()


def test_rt_06_forget_drops_the_model_after_that_many_answers(start: Start) -> None:
    _, stub = loaded(start, "forget:2")
    for _ in range(2):
        stub.Predict(HELLO, timeout=LIMIT_S)
    error = refused(stub)
    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "model not loaded")
    assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.UNINITIALIZED


def test_rt_08_resource_exhausted_ends_after_its_time(start: Start) -> None:
    _, stub = loaded(start, "resource_exhausted_for:300ms")
    began = time.monotonic()
    assert refused(stub).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    while time.monotonic() - began < LIMIT_S:
        try:
            assert stub.Predict(HELLO, timeout=LIMIT_S).tokens
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        else:
            return
    raise AssertionError("the process stayed full")


@pytest.mark.parametrize("streamed", [True, False])
def test_crash_after_kills_the_process_without_a_word(start: Start, streamed: bool) -> None:
    one, stub = loaded(start, "crash_after:2", "tokens:5", "token_delay:50ms")
    got = []
    with pytest.raises(grpc.RpcError) as caught:
        if streamed:
            got.extend(reply.tokens for reply in stub.PredictStream(HELLO, timeout=LIMIT_S))
        else:
            stub.Predict(HELLO, timeout=LIMIT_S)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert one.wait() == -9
    assert set(got) <= {1, 2}


def test_delays_come_before_the_first_and_between_the_other_tokens(start: Start) -> None:
    _, stub = loaded(start, "first_token_delay:400ms", "token_delay:300ms", "tokens:3")
    began = time.monotonic()
    stub.Predict(HELLO, timeout=LIMIT_S)
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("option", ["hang_in_predict:true", "first_token_delay:1h", "token_delay:1h"])
def test_cancel_ends_the_call_on_the_server_at_once(start: Start, option: str) -> None:
    """SIGTERM waits for calls under way: it ends well within its grace because the cancelled one has left."""
    one, stub = loaded(start, option)
    stream = stub.PredictStream(HELLO, timeout=LIMIT_S)
    if option.startswith("token_delay"):
        next(stream)
    stream.cancel()
    with pytest.raises(grpc.RpcError):
        list(stream)
    one.process.terminate()
    assert one.wait() == 0


def test_health_answers_beside_many_hanging_calls(start: Start) -> None:
    _, stub = loaded(start, "hang_in_predict:true")
    calls = [stub.Predict.future(HELLO, timeout=LIMIT_S) for _ in range(40)]
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    for call in calls:
        call.cancel()


def test_a_held_interpreter_answers_nothing_else_and_the_call_ends(start: Start) -> None:
    _, stub = loaded(start, "hold_interpreter:5s", "tokens:1")
    call = stub.Predict.future(HELLO, timeout=LIMIT_S)
    with pytest.raises(grpc.RpcError) as caught:  # asked until the call has taken the interpreter
        for _ in range(1000):
            stub.Health(pb.HealthMessage(), timeout=1)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert call.result().tokens == 1


def test_pings_never_end_a_silent_call(start: Start) -> None:
    """A server with default settings ends it after the third ping, here after six seconds."""
    one, _ = loaded(start, "first_token_delay:12s", "tokens:1")
    options = [("grpc.keepalive_time_ms", 2000), ("grpc.http2.max_pings_without_data", 0)]
    with grpc.insecure_channel(one.address, options=options) as channel:
        assert BackendStub(channel).Predict(HELLO, timeout=LIMIT_S).tokens == 1  # type: ignore[no-untyped-call]


def test_calls_run_side_by_side(start: Start) -> None:
    _, stub = loaded(start, "first_token_delay:500ms", "tokens:1")
    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: stub.Predict(HELLO, timeout=LIMIT_S), range(16)))
    assert len(replies) == 16
    assert time.monotonic() - began < 16 * 0.5


def test_ap_03_a_tool_call_has_one_id_its_name_first_and_arguments_that_join_to_json(start: Start) -> None:
    _, stub = loaded(start, "emit_tool_call:weather")
    calls = [
        call
        for reply in stub.PredictStream(HELLO, timeout=LIMIT_S)
        for delta in reply.chat_deltas
        for call in delta.tool_calls
    ]
    assert (calls[0].index, calls[0].id, calls[0].name) == (0, "call_1", "weather")
    assert "".join(call.arguments for call in calls) == '{"argument": "value"}'
    assert [call.name for call in calls[1:]] == ["", ""]


def test_kill_parent_kills_the_process_that_started_it(fault_folder: Path) -> None:
    """A stand-in for the agent starts the backend and says its address; the load must end the stand-in."""
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.argv[1] + '/run.sh', '--addr', '127.0.0.1:0'], stderr=subprocess.PIPE, text=True)\n"
        "print(child.pid, child.stderr.readline(), flush=True)\n"
        "child.wait()\n"
    )
    environment = os.environ | {"LOCALAI_PYTHON": sys.executable}
    command = [sys.executable, "-c", script, str(fault_folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid, _, line = parent.stdout.readline().strip().partition(" ")
        try:
            with grpc.insecure_channel(line.removeprefix("listening on ").strip()) as channel:
                assert load(BackendStub(channel), "kill_parent:true").success
            assert parent.wait(LIMIT_S) == -9
        finally:
            os.kill(int(pid), 9)


def test_lj_09_a_taken_port_is_refused_and_not_shared(start: Start) -> None:
    first = start()
    first.connect()
    address = first.lines[-1].removeprefix("listening on ")
    second = start(address=address)
    assert second.wait() == 1
    second.end()
    assert any(f"cannot listen on {address}" in line for line in second.lines)
