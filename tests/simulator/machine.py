"""What a node's operating system knows: processes, the journal on its disk, ports. It outlives every agent on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from localai.errors import OperationFailed
from localai.ids import NodeId
from localai.jobs.operation_rules import Cause
from tests.simulator.history import ProcessFacts
from tests.simulator.virtual_time import Hub, Process, Signal

#: The lowest free one is given out at once: whoever calls an address must not rely on its rest.
PORTS = 5


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """One model process, with the face that the agent's table and operation see."""

    machine: Machine
    life: Process
    facts: ProcessFacts
    port: int
    pid: int
    #: A held launcher runs nothing yet, and ends with the pipe that its agent holds.
    held: bool = True
    gone: Any
    returncode: int = -9
    ending: bool = False

    @property
    def instance(self) -> str:
        return self.facts.instance

    @property
    def output(self) -> Group:
        return self

    def tail(self) -> str:
        return ""

    def has_exited(self) -> bool:
        return bool(self.gone.is_set)

    def end_soon(self, grace_s: float | None = None) -> None:
        """As `Group.end_soon`: returns at once, may be called again."""
        self.machine.decide_end(self)
        if not self.ending and self.life.alive:
            self.ending = True
            self.life.spawn(self._end)

    def end(self) -> bool:
        self.machine.decide_end(self)
        self._end()
        return self.has_exited()

    def _end(self) -> None:
        hub = self.machine.hub
        hub.point("agent: between the decision to end a group and its signal")
        self.machine.terminate(self)
        if not self.gone.wait(self.machine.grace_s):
            self.machine.kill(self)


@dataclass(slots=True, kw_only=True)
class Machine:
    """One node's machine."""

    hub: Hub
    name: str
    node_id: NodeId = NodeId("")
    now: Any
    grace_s: float = 10.0
    groups: dict[str, Group] = field(default_factory=dict)
    #: Instances that some agent wrote down before it forked.
    journal: set[str] = field(default_factory=set)
    past: list[ProcessFacts] = field(default_factory=list)
    pids: int = 0

    def fork(self, life: Process, facts: ProcessFacts) -> Group:
        """A launcher that waits on its pipe."""
        self.pids += 1
        taken = {group.port for group in self.groups.values()}
        port = next((port for port in range(PORTS) if port not in taken), None)
        if port is None:
            raise OperationFailed(Cause.NO_PORT, "every port is taken")
        gone = Signal(self.hub)
        group = Group(machine=self, life=life, facts=facts, port=port, pid=self.pids, gone=gone)
        self.groups[facts.instance] = group
        return group

    def release(self, group: Group) -> None:
        """The launcher becomes the model process."""
        if group.has_exited():
            return
        group.held = False
        group.facts.started = self.now()
        self.past.append(group.facts)

    def decide_end(self, group: Group) -> None:
        if group.facts.decided is None and group.life.alive:
            group.facts.decided = self.now()

    def terminate(self, group: Group) -> None:
        """TERM: most end soon, some only by KILL."""
        draw = self.hub.draw.random()
        if draw < 0.8:
            self.hub.call(lambda: self.kill(group), draw * 4)

    def kill(self, group: Group) -> None:
        """The process is no more."""
        if self.groups.pop(group.instance, None) is None:
            return
        if not group.held:
            group.facts.ended = self.now()
            self.hub.log(f"{self.name}: process {group.instance[-6:]} of {group.facts.model} is gone")
        group.gone.set()

    def agent_died(self) -> None:
        """Held launchers read the end of their pipe. What runs, runs on."""
        for group in list(self.groups.values()):
            if group.held:
                self.kill(group)

    def kill_leftovers(self) -> None:
        """What an agent does before it registers: end everything that is written down or carries an instance."""
        for group in list(self.groups.values()):
            if group.instance in self.journal:
                self.kill(group)

    def listener(self, port: int) -> Group | None:
        """Who answers on a port."""
        return next((group for group in self.groups.values() if group.port == port and not group.held), None)
