"""What lies between processes: calls, messages and statements that get lost, doubled, late, or lose their answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localai.errors import StorageUnavailable
from tests.simulator.virtual_time import Hub, Process, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Chances of one schedule; by default nothing goes wrong."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    #: Longest a late message takes; queue messages may take this long, calls an eighth of it.
    late_s: float = 240.0
    answer_lost: float = 0.0
    statement_refused: float = 0.0
    #: Commit answers lost.
    commit_lost: float = 0.0


class NoAnswer(Exception):
    """The network gave no answer in time."""


class Network:
    """Deliveries of one world."""

    def __init__(self, hub: Hub, weather: Weather) -> None:
        self._hub, self.weather = hub, weather
        self.database_down_until = 0.0
        #: Node link and HTTP of these process names are cut until then.
        self.cut: dict[str, float] = {}

    def is_cut(self, name: str) -> bool:
        return self.cut.get(name, 0.0) > self._hub.now

    def delays(self, longest_s: float) -> list[float]:
        """When the copies of one message arrive: none, one or two."""
        draw, weather = self._hub.draw, self.weather
        drawn = draw.random()
        if drawn < weather.lost:
            return []
        first = self.delay_s(longest_s)
        return [first, self.delay_s(longest_s)] if drawn > 1 - weather.doubled else [first]

    def delay_s(self, longest_s: float) -> float:
        draw = self._hub.draw
        return draw.random() * (longest_s if draw.random() < self.weather.late else 0.05)

    def call(self, caller: Process, server: Process, work: Callable[[], Any], timeout_s: float) -> Any:
        """A request to another process; what it returned or raised. Raises NoAnswer after the limit.

        The work may be done although nobody hears of it, later than the caller waits, or twice.
        """
        hub, answer = self._hub, Signal(self._hub)
        box: list[tuple[bool, Any]] = []

        def arrive(outcome: tuple[bool, Any]) -> None:
            box.append(outcome)
            answer.set()

        def serve() -> None:
            try:
                outcome = (True, work())
            except Exception as error:  # noqa: BLE001  handed to who asked
                outcome = (False, error)
            if not self.is_cut(caller.name) and hub.draw.random() >= self.weather.answer_lost:
                hub.call(lambda: arrive(outcome), self.delay_s(self.weather.late_s / 8))

        if not self.is_cut(caller.name) and not self.is_cut(server.name):
            for delay_s in self.delays(self.weather.late_s / 8):
                server.spawn(serve, delay_s=delay_s)
        answer.wait(timeout_s)
        if not box:
            raise NoAnswer
        good, value = box[0]
        if good:
            return value
        raise value


class Rows:
    """A store as one process reaches it: each method is a transaction with a before and an after."""

    def __init__(self, store: object, process: Process, network: Network) -> None:
        self._store, self._process, self._network = store, process, network

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)
        hub, network = self._process.hub, self._network
        before, committed = f"{name}: before", f"{name}: committed"

        def transaction(*arguments: Any, **named: Any) -> Any:
            hub.point(before)
            weather, drawn = network.weather, hub.draw.random()
            if network.database_down_until > hub.now or drawn < weather.statement_refused:
                raise StorageUnavailable
            result = method(*arguments, **named)
            hub.point(committed)
            if drawn > 1 - weather.commit_lost:
                raise StorageUnavailable
            return result

        self.__dict__[name] = transaction
        return transaction
