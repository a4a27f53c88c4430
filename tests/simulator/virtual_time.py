"""Who runs when: tasks as greenlets on one virtual clock, in processes that freeze and die between any two steps.

The code under test is synchronous. Wherever it would wait or leave its process, it calls `Hub.pass_time` or `Hub.point`, and
the hub runs somebody else: so a crash or a pause falls between a check and its statement, or a commit and its answer.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from greenlet import getcurrent, greenlet


class Crashed(BaseException):
    """The process of this task was killed: no line of it runs any more."""


class Process:
    """One operating system process: its own clock, its tasks, and whether it runs."""

    def __init__(self, hub: Hub, name: str, *, rate: float = 1.0, offset: float = 0.0) -> None:
        self.hub, self.name = hub, name
        self._rate, self._offset = rate, offset
        self.alive, self.frozen_until = True, 0.0
        self.tasks: set[Task] = set()
        #: Called once when the process has died.
        self.on_death: Callable[[], None] = lambda: None

    def clock(self) -> float:
        """Seconds of this machine's own clock."""
        return self._offset + self._rate * self.hub.now

    def pass_time(self, seconds: float) -> None:
        """Wait by this machine's clock."""
        self.hub.pass_time(seconds / self._rate)

    def spawn(self, work: Callable[..., object], *arguments: Any, delay_s: float = 0.0) -> None:
        """Run something in this process; nothing happens if it is dead by then."""
        if self.alive:
            self.hub.start(self, work, arguments, delay_s)

    def freeze(self, seconds: float) -> None:
        """Nothing of this process runs for so long; what it waits for is not lost."""
        self.frozen_until = max(self.frozen_until, self.hub.now + seconds)
        self.hub.log(f"{self.name} freezes for {seconds:.1f} s")
        self.hub.on_freeze(self, seconds)

    def kill(self, why: str = "killed") -> None:
        """No line of it runs any more, no ``finally`` takes effect."""
        if self.alive:
            self.alive, self.frozen_until = False, 0.0
            self.hub.log(f"{self.name} is {why}")
            self.hub.call(self._bury)

    def _bury(self) -> None:
        for task in list(self.tasks):
            if task and not task.dead:
                task.throw(Crashed)
        self.tasks.clear()
        self.on_death()


class Task(greenlet):
    """One thread of a process. When its work is done it waits for other work: a new greenlet costs several steps."""

    process: Any

    def __init__(self, root: greenlet, idle: list[Task]) -> None:
        super().__init__(self._run, root)
        self._root, self._idle = root, idle
        #: Counts its sleeps: a wake-up of an earlier one is late.
        self.nap = 0

    def give(self, process: Process, work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.process, self._work, self._arguments = process, work, arguments
        process.tasks.add(self)

    def _run(self) -> None:
        with suppress(Crashed):  # before it began
            while True:
                self._do()
                self.process = self._work = self._arguments = None
                self.nap += 1
                self._idle.append(self)
                self._root.switch()

    def _do(self) -> None:
        process = self.process
        try:
            self._work(*self._arguments)
        except Crashed:
            pass
        except Exception as error:  # noqa: BLE001  told at the end of the schedule
            process.hub.broken(process, error)
        finally:
            process.tasks.discard(self)


class Signal:
    """Something that tasks wait for. `set` wakes those that wait at that moment, and whoever comes before `clear`."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._waiting, self.is_set = hub, [], False  # type: tuple[Hub, list[tuple[Task, int]], bool]

    def set(self) -> None:
        self.is_set = True
        for task, nap in self._waiting:
            self._hub.wake(task, nap)
        self._waiting = []

    def clear(self) -> None:
        self.is_set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        if not self.is_set:
            task = getcurrent()
            sleep = (task, task.nap + 1)
            self._waiting.append(sleep)
            self._hub.pass_time(1e9 if timeout_s is None else timeout_s)
            if sleep in self._waiting:
                self._waiting.remove(sleep)
        return self.is_set

    def nudge(self) -> None:
        """Wake those that wait, and nobody later."""
        self.set()
        self.clear()


class Faults:
    """What goes wrong at a step boundary, as chances. All zero: nothing."""

    crash = freeze = delay = 0.0
    freezes_s: tuple[float, ...] = (2.0, 20.0, 40.0, 100.0)
    #: Freeze at the boundaries with this in their name only.
    freeze_at: str = ""


class Hub:
    """The virtual clock and everything that is due."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.draw = random.Random(seed)
        self.root = getcurrent()
        self.faults = Faults()
        self._due: list[tuple[float, int, Any, int]] = []
        self._count, self._until = 0, 0.0
        #: Tasks without work.
        self._idle: list[Task] = []
        self.trace: list[str] | None = None
        #: How often each step boundary was passed, and how often a process died or froze there.
        self.passed, self.crashed = Counter[str](), Counter[str]()
        self.on_freeze: Callable[[Process, float], None] = lambda process, seconds: None
        self.errors: list[str] = []

    # What tasks call

    def pass_time(self, seconds: float) -> None:
        """Run others until then."""
        task = getcurrent()
        if not task.process.alive:
            raise Crashed
        task.nap += 1
        self._count += 1
        at = self.now + seconds if seconds > 0.0 else self.now
        heapq.heappush(self._due, (at, self._count, task, task.nap))
        following = self._next_task()
        if following is not task:
            (self.root if following is None else following).switch()
            if not task.process.alive:
                raise Crashed

    def point(self, name: str) -> None:
        """A step boundary: the process may die here, freeze, or be overtaken."""
        process = getcurrent().process
        if not process.alive:
            raise Crashed
        self.passed[name] += 1
        faults = self.faults
        drawn = self.draw.random()
        if drawn < faults.crash:
            self.crashed[name] += 1
            process.kill(f"killed at {name}")
            raise Crashed
        drawn -= faults.crash
        if drawn < faults.freeze and faults.freeze_at in name:
            self.crashed[name] += 1
            process.freeze(self.draw.choice(faults.freezes_s) * self.draw.uniform(0.7, 1.3))
            self.pass_time(0.0)
        elif drawn - faults.freeze < faults.delay:
            self.pass_time(self.draw.random() * self.draw.random() * 0.8)

    # What runs them

    def start(self, process: Process, work: Callable[..., object], arguments: tuple[Any, ...], delay_s: float) -> None:
        task = self._idle.pop() if self._idle else Task(self.root, self._idle)
        task.give(process, work, arguments)
        self._push(self.now + delay_s, task, task.nap)

    def call(self, work: Callable[[], object], delay_s: float = 0.0) -> None:
        """Run something that belongs to no process."""
        self._push(self.now + delay_s, work, -1)

    def wake(self, task: Task, nap: int) -> None:
        """End one sleep of a task."""
        self._push(self.now, task, nap)

    def run(self, until: float) -> None:
        """Everything that is due up to a moment."""
        self._until = until
        while True:
            task = self._next_task()
            if task is not None:
                task.switch()
            elif self._due and self._due[0][0] <= until:
                at, _, work, _ = heapq.heappop(self._due)
                self.now = max(self.now, at)
                work()
            else:
                break
        self.now = max(self.now, until)

    def _next_task(self) -> Task | None:
        """The task to run now. None where it is not for a task to go on: what belongs to no process, or the end."""
        waiting, until = self._due, self._until
        while waiting and waiting[0][0] <= until:
            at, _, due, nap = waiting[0]
            if nap < 0:
                return None
            heapq.heappop(waiting)
            if due.nap != nap or due.dead or not due.process.alive:
                continue
            if due.process.frozen_until > at:
                self._push(due.process.frozen_until, due, nap)
                continue
            self.now = max(self.now, at)
            found: Task = due
            return found
        return None

    def end(self) -> None:
        """Drop every task."""
        processes = {due.process for _, _, due, nap in self._due if nap >= 0 and due.nap == nap}
        self._due.clear()
        for process in processes:
            process.alive = False
            for task in list(process.tasks):
                if task and not task.dead:
                    task.throw(Crashed)
        for task in self._idle:
            task.throw(Crashed)
        self._idle.clear()

    def log(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:8.2f} {text}")

    def broken(self, process: Process, error: Exception) -> None:
        """A task ended with an error that nobody expects: a fault of the simulator or of the engine."""
        import traceback

        self.errors.append(f"{process.name}: {error!r}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}")

    def _push(self, at: float, due: Any, nap: int) -> None:
        self._count += 1
        heapq.heappush(self._due, (at, self._count, due, nap))
