"""What the supervisor does with its children, on stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from localai.embedded.process import LOG_KEPT_BYTES, LOG_LIMIT_BYTES, Process
from localai.embedded.supervisor import StopAsked, Supervisor
from localai.errors import StartRefused
from tests.embedded_servers import ROOT, clean_environment
from tests.integration.embedded.stand_in import WAITS, ended, pids, program, waiting
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_children_start_in_order_and_stop_in_reverse(tmp_path: Path) -> None:
    order: list[str] = []

    def noted(name: str) -> None:
        order.append(name)

    children = [waiting(name, tmp_path, before_start=lambda name=name: noted(name)) for name in ("a", "b", "c")]
    with Supervisor(order.append) as supervisor:
        supervisor.start(children)
        running = [pids(tmp_path, child.name)[0] for child in children]
        assert all(alive(pid) for pid in running)
    assert order == ["a", "b", "c"]
    times = [(tmp_path / f"{name}.ended").stat().st_mtime_ns for name in ("c", "b", "a")]
    assert times == sorted(times)
    assert not any(alive(pid) for pid in running)


def test_each_child_gets_its_own_stop_signal_and_session(tmp_path: Path) -> None:
    with Supervisor(lambda _: None) as supervisor:
        supervisor.start([waiting("fast", tmp_path, stop_signal=signal.SIGINT), waiting("usual", tmp_path)])
        (pid,) = pids(tmp_path, "fast")
        assert os.getsid(pid) == pid
        assert Path(f"/proc/{pid}/fd/0").resolve() == Path(os.devnull)
    assert ended(tmp_path, "fast") == ["fast SIGINT"]
    assert ended(tmp_path, "usual") == ["usual SIGTERM"]


def test_what_ends_unasked_is_started_again_after_a_pause_and_told(tmp_path: Path) -> None:
    told: list[str] = []
    with Supervisor(told.append) as supervisor:
        supervisor.start([waiting("child", tmp_path)])
        for count in (1, 2):
            os.kill(pids(tmp_path, "child")[-1], signal.SIGKILL)
            assert supervisor.wait_until(lambda count=count: len(pids(tmp_path, "child")) > count, LIMIT_S)
    assert len(told) == 2
    assert "child ended with signal SIGKILL" in told[0] and "again in 0.05 s" in told[0] and "child.log" in told[0]
    assert "again in 0.5 s" in told[1]


def test_a_child_not_to_be_restarted_stays_down_and_the_others_up(tmp_path: Path) -> None:
    told: list[str] = []
    with Supervisor(told.append) as supervisor:
        supervisor.start([waiting("once", tmp_path, restart=False), waiting("other", tmp_path)])
        os.kill(pids(tmp_path, "once")[0], signal.SIGKILL)
        assert supervisor.wait_until(lambda: bool(told), LIMIT_S)
        assert "again" not in told[0]
        assert alive(pids(tmp_path, "other")[0])


def test_a_child_that_ends_before_it_was_ready_is_tried_again_then_refused_with_its_last_words(tmp_path: Path) -> None:
    child = program("broken", "import sys; sys.exit('no such table')", tmp_path, ready=lambda: False, retry_start_s=1.0)
    told: list[str] = []
    refused = pytest.raises(StartRefused, match=r"broken ended with exit code 1[\s\S]*no such table")
    with refused, Supervisor(told.append) as supervisor:
        supervisor.start([waiting("first", tmp_path), child])
    assert told and "starting it again" in told[0]
    assert ended(tmp_path, "first") == ["first SIGTERM"], "what ran already is stopped"


#: Ends at once while its data folder holds the file `bad`.
_READS_ITS_DATA = """
import os, sys
if os.path.exists(os.path.join(os.path.dirname(sys.argv[1]), "data", "bad")):
    sys.exit("bad data")
"""


@pytest.mark.parametrize("was_ready", [True, False])
def test_data_that_may_be_lost_is_set_aside_once_if_the_child_cannot_read_it(tmp_path: Path, was_ready: bool) -> None:
    data = tmp_path / "data"
    data.mkdir()
    told: list[str] = []

    def set_aside() -> Path:
        data.rename(tmp_path / "aside")
        return tmp_path / "aside"

    child = program("queue", _READS_ITS_DATA + WAITS, tmp_path, set_aside=set_aside)
    child = replace(child, ready=lambda: bool(pids(tmp_path, "queue")))
    if not was_ready:
        (data / "bad").touch()
    with Supervisor(told.append) as supervisor:
        supervisor.start([child])
        if was_ready:
            (data / "bad").touch()
            os.kill(pids(tmp_path, "queue")[0], signal.SIGKILL)
            assert supervisor.wait_until(lambda: len(pids(tmp_path, "queue")) == 2, LIMIT_S)
    assert (tmp_path / "aside/bad").exists()
    assert [line for line in told if "set aside" in line] == [line for line in told if str(tmp_path / "aside") in line]
    assert sum("set aside" in line for line in told) == 1


def test_data_is_set_aside_once_and_the_start_then_refused(tmp_path: Path) -> None:
    moved: list[int] = []

    def set_aside() -> Path:
        moved.append(1)
        return tmp_path / "aside"

    child = program("queue", "import sys; sys.exit('no')", tmp_path, ready=lambda: False, set_aside=set_aside)
    child = replace(child, retry_start_s=2.0)
    with pytest.raises(StartRefused, match="queue ended with exit code 1"), Supervisor(lambda _: None) as supervisor:
        supervisor.start([child])
    assert moved == [1]


def test_the_others_stay_up_and_the_start_is_tried_again_if_the_set_aside_or_a_start_is_refused(tmp_path: Path) -> None:
    """As on a full disk: the old data is away, and the folder for new data cannot be made for a while."""
    data, told, refused = tmp_path / "data", list[str](), list[str]()
    data.mkdir()

    def set_aside() -> Path:
        data.rename(tmp_path / "aside")
        raise StartRefused("data cannot be used: No space left on device")

    def before_start() -> None:
        if not data.exists():
            refused.append("refused")
            if len(refused) < 2:
                raise StartRefused("data cannot be used: No space left on device")
            data.mkdir()

    child = program("queue", _READS_ITS_DATA + WAITS, tmp_path, set_aside=set_aside, before_start=before_start)
    child = replace(child, ready=lambda: bool(pids(tmp_path, "queue")))
    with Supervisor(told.append) as supervisor:
        supervisor.start([waiting("other", tmp_path), child])
        (data / "bad").touch()
        os.kill(pids(tmp_path, "queue")[0], signal.SIGKILL)
        assert supervisor.wait_until(lambda: len(pids(tmp_path, "queue")) == 2, LIMIT_S)
        assert alive(pids(tmp_path, "other")[0])
    assert any("cannot be set aside: data cannot be used: No space" in line for line in told)
    assert any("cannot be started now, it is tried again: data cannot be used" in line for line in told)


def test_a_child_that_is_never_ready_is_refused_after_its_limit(tmp_path: Path) -> None:
    child = waiting("silent", tmp_path, ready=lambda: False, ready_limit_s=0.5)
    with pytest.raises(StartRefused, match="silent was not ready within"), Supervisor(lambda _: None) as supervisor:
        supervisor.start([child])


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    child = program("missing", "", tmp_path, ready=lambda: False, retry_start_s=0.0)
    missing = replace(child, argv=("/no/such/program",))
    with pytest.raises(StartRefused, match="/no/such/program cannot be started"), Supervisor(lambda _: None) as it:
        it.start([missing])


def test_a_child_that_ignores_its_stop_signal_is_killed_with_its_group(tmp_path: Path) -> None:
    code = """
import os, signal, sys, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
with open(sys.argv[1] + ".part", "w") as file:
    file.write(f"{os.getpid()}\\n{inner.pid}\\n")
os.rename(sys.argv[1] + ".part", sys.argv[1])
signal.pause()
"""
    told: list[str] = []
    with Supervisor(told.append) as supervisor:
        supervisor.start(
            [program("deaf", code, tmp_path, stop_timeout_s=0.3, ready=lambda: len(pids(tmp_path, "deaf")) == 2)]
        )
        running = pids(tmp_path, "deaf")
    assert told == ["deaf did not stop within 0 s: killed"]
    eventually(lambda: not any(alive(pid) for pid in running), "the group of the deaf child gone")


def test_what_an_ended_child_left_in_its_group_is_gone_before_the_next_start(tmp_path: Path) -> None:
    code = """
import os, signal, sys, subprocess
if not os.path.exists(sys.argv[1]):
    inner = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    with open(sys.argv[1] + ".part", "w") as file:
        file.write(f"{os.getpid()}\\n{inner.pid}\\n")
    os.rename(sys.argv[1] + ".part", sys.argv[1])
else:
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
signal.pause()
"""
    with Supervisor(lambda _: None) as supervisor:
        supervisor.start([program("leaves", code, tmp_path, ready=lambda: len(pids(tmp_path, "leaves")) == 2)])
        leader, left = pids(tmp_path, "leaves")
        os.kill(leader, signal.SIGKILL)
        assert supervisor.wait_until(lambda: len(pids(tmp_path, "leaves")) == 3, LIMIT_S)
        eventually(lambda: not alive(left), "the leftover gone")


@pytest.fixture
def no_signal_ignored() -> Iterator[None]:
    """What ignores hangups and interrupts before us (nohup, a shell's background job) is obeyed, and hides the rule."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("no_signal_ignored")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_ends_a_watch_and_stops_the_children(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(StopAsked), Supervisor(lambda _: None) as supervisor:
        supervisor.start([waiting("child", tmp_path)])
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        supervisor.watch()
    assert ended(tmp_path, "child") == ["child SIGTERM"]
    assert signal.getsignal(number) == before


def test_a_stop_signal_is_seen_while_other_work_goes_on(tmp_path: Path) -> None:
    release = threading.Event()
    try:
        with pytest.raises(StopAsked), Supervisor(lambda _: None) as supervisor:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
            supervisor.call(release.wait)
    finally:
        release.set()


def test_work_beside_the_children_gives_its_result_or_its_error(tmp_path: Path) -> None:
    with Supervisor(lambda _: None) as supervisor:
        assert supervisor.call(lambda: 42) == 42
        with pytest.raises(StartRefused, match="no"):
            supervisor.call(lambda: _raise(StartRefused("no")))


def _raise(error: Exception) -> None:
    raise error


def test_children_are_started_from_the_main_thread_only(tmp_path: Path) -> None:
    """A parent-death signal fires when the thread that forked ends: such a child would be dead at once."""
    failures: list[BaseException] = []

    def start() -> None:
        try:
            Process(waiting("child", tmp_path), 0.0).start(0.0)
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(LIMIT_S)
    assert failures and not pids(tmp_path, "child")


def test_a_large_log_is_cut_before_a_child_appends_to_it(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_bytes(b"a line\n" * (LOG_LIMIT_BYTES // 7 + 1))
    with Supervisor(lambda _: None) as supervisor:
        supervisor.start([waiting("child", tmp_path)])
    assert 0 < log.stat().st_size <= LOG_KEPT_BYTES
    assert set(log.read_bytes().splitlines()) == {b"a line"}


#: Writes a line at each SIGUSR1, more than the limit at the first.
_WRITES = """
import os, signal, sys
def write(number, frame):
    global count
    count += 1
    if count == 1:
        for _ in range(int(sys.argv[2])):
            os.write(1, b"x" * 1023 + b"\\n")
    os.write(1, b"line %d\\n" % count)
count = 0
signal.signal(signal.SIGUSR1, write)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    signal.pause()
"""


def test_the_log_of_a_running_child_stays_within_its_size(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    child = program("child", _WRITES, tmp_path, ready=lambda: bool(pids(tmp_path, "child")))
    child = replace(child, argv=(*child.argv, str(LOG_LIMIT_BYTES // 1024 + 1)), stop_signal=signal.SIGKILL)
    with Supervisor(lambda _: None) as supervisor:
        supervisor.start([child])
        (pid,) = pids(tmp_path, "child")
        os.kill(pid, signal.SIGUSR1)
        assert supervisor.wait_until(lambda: _last_line(log) == b"line 1", LIMIT_S)
        assert supervisor.wait_until(lambda: log.stat().st_size <= LOG_KEPT_BYTES, LIMIT_S)
        os.kill(pid, signal.SIGUSR1)
        assert supervisor.wait_until(lambda: _last_line(log) == b"line 2", LIMIT_S), "the child goes on behind the cut"
        assert log.stat().st_size <= LOG_KEPT_BYTES + 100 and b"\nline 1\nline 2\n" in log.read_bytes()
        assert list(tmp_path.glob("child.log*")) == [log]


def _last_line(log: Path) -> bytes:
    return log.read_bytes()[-100:].split(b"\n")[-2] if log.exists() and log.stat().st_size else b""


#: A supervisor in a process of its own, so that it can be killed, frozen or be process 1.
_SUPERVISOR = """
import sys
from pathlib import Path
from localai.embedded.supervisor import Supervisor
from tests.integration.embedded.stand_in import waiting
folder = Path(sys.argv[1])
with Supervisor(lambda text: print(text, file=sys.stderr)) as supervisor:
    supervisor.start([waiting(name, folder) for name in ("a", "b")])
    (folder / "started").touch()
    supervisor.watch()
"""


def supervisor_process(folder: Path, *prefix: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", _SUPERVISOR, str(folder)], env=clean_environment(), cwd=ROOT
    )


def test_kill_9_of_the_supervisor_leaves_no_child(tmp_path: Path) -> None:
    process = supervisor_process(tmp_path)
    try:
        eventually((tmp_path / "started").exists, "the supervisor started")
    finally:
        process.kill()
        process.wait(LIMIT_S)
    running = [*pids(tmp_path, "a"), *pids(tmp_path, "b")]
    assert len(running) == 2
    eventually(lambda: not any(alive(pid) for pid in running), "no child 5 s after", 5.0)
    assert ended(tmp_path, "a") == ["a SIGTERM"], "told by the parent-death signal, not killed"


@pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace needs root here")
def test_as_process_1_orphans_are_reaped(tmp_path: Path) -> None:
    code = _SUPERVISOR.replace('("a", "b")', '("a",)').replace(
        "    supervisor.watch()",
        """
    import os, subprocess
    before = {p for p in os.listdir("/proc") if p.isdigit()}
    # A child whose own child outlives it: the orphan becomes ours.
    subprocess.run([sys.executable, "-S", "-c", "import os, time\\nif os.fork() == 0: os._exit(0)\\nos._exit(0)"], check=True)
    def zombies():
        found = []
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                try:
                    found += [pid] if ") Z " in open(f"/proc/{pid}/stat").read() else []
                except OSError:
                    pass
        return found
    assert os.getpid() == 1
    if not supervisor.wait_until(lambda: not zombies(), 20):
        sys.exit(f"zombies {zombies()}")
    (folder / "reaped").touch()
""",
    )
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, timeout=120)
    if "unshare" in result.stderr and "failed" in result.stderr:
        pytest.skip(f"no process namespace here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "reaped").exists()
