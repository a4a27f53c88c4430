"""What people do: ask for models, wait, cancel, edit; and what they are told."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from localai.errors import JobEnded, NotCancellable, NotFound, StorageUnavailable
from localai.jobs.ports import JobFilter
from tests.simulator.history import Answered, CancelTold, CauseRead
from tests.simulator.network import NoAnswer
from tests.simulator.virtual_time import Process

TERMINAL = ("succeeded", "failed", "cancelled")


class Client(Process):
    """Everybody who asks for one model."""

    #: What a waiter reads; the rule is: the attempt it remembers, never "the latest one of the model".
    def read_cause(self, services: Any, job_id: str) -> Any:
        return services.loads.read(job_id)

    def __init__(self, world: Any, model: str) -> None:
        super().__init__(world.hub, f"client of {model}")
        self.world, self.model = world, model

    def begin(self) -> None:
        self.spawn(self._ask)
        self.spawn(self._call)

    def _ask(self) -> None:
        world = self.world
        while world.asking():
            for _ in range(world.hub.draw.choice((1, 1, 2))):
                self.spawn(self._request)
            self.pass_time(world.hub.draw.choice((3.0, 10.0, 25.0, 60.0)))

    def _request(self) -> None:
        world = self.world
        try:
            ticket = self._web(lambda services: services.loads.request(self.model, world.revision(self.model)))
        except (NoAnswer, StorageUnavailable):
            return
        if ticket.state not in ("created", "live"):
            return
        if world.hub.draw.random() < world.cancels:
            self.spawn(self._cancel, ticket.job_id, delay_s=world.hub.draw.choice((0.1, 1.0, 3.0, 8.0, 20.0, 40.0)))
        if world.hub.draw.random() < 0.5:
            self._wait(ticket.job_id)

    def _wait(self, job_id: str) -> None:
        while True:
            self.pass_time(5.0)
            try:
                status = self._web(lambda services: self.read_cause(services, job_id))
            except (NoAnswer, StorageUnavailable):
                continue
            except NotFound:
                return
            if status.job_state in TERMINAL:
                read = CauseRead(job_id, status.error_cause, self.world.now())
                self.world.facts.causes.append(read)
                return

    def _cancel(self, job_id: str) -> None:
        """Somebody wants an attempt to end, and says so once or several times."""
        draw = self.world.hub.draw
        for pause_s in draw.choice(((0.0,), (0.0,), (0.0, 0.5), (0.0, 3.0, 20.0))):
            self.pass_time(pause_s)
            with suppress(NoAnswer, StorageUnavailable):
                self._cancel_once(job_id)

    def _cancel_once(self, job_id: str) -> None:
        """By model and id, by id, or whatever live job the list shows."""
        drawn = self.world.hub.draw.random()
        if drawn < 0.5:
            answer = self._web(lambda services: services.load_cancels.cancel(self.model, job_id, configured=True))
        else:
            wanted = job_id if drawn < 0.85 else self._any_live_job() or job_id
            try:
                answer = self._web(lambda services: services.cancels.cancel(wanted))
            except (JobEnded, NotCancellable):
                return
        self.world.facts.cancels.append(CancelTold(answer.job_id, answer.state.value, self.world.now()))

    def _any_live_job(self) -> str | None:
        listed = self._web(lambda services: services.jobs.list(JobFilter(limit=20)))
        live = [job.id for job in listed if job.state in ("queued", "running")]
        return self.world.hub.draw.choice(live) if live else None

    def _call(self) -> None:
        """Calls to the model by a web process that routes: a connection belongs to a process instance."""
        world, connections = self.world, {}
        while world.asking():
            self.pass_time(world.hub.draw.choice((4.0, 9.0, 30.0)))
            routed = [row for row in world.replica_rows.routing_snapshot().replicas if row.model == self.model]
            if not routed:
                continue
            replica = world.hub.draw.choice(routed)
            self.pass_time(world.hub.draw.choice((0.0, 0.0, 1.0, 15.0)))
            answered = self.call(replica, connections)
            if answered is not None:
                world.facts.answers.append(Answered(self.model, answered, world.now()))

    def call(self, replica: Any, connections: dict[str, Any]) -> str | None:
        """One request to a replica; the model that answered, None where nobody did, and "a refusal" if the route does
        not have the secret of the process.

        A connection belongs to a process instance. When it breaks it is dropped, and never made again to the same
        address for the same row.
        """
        connection = connections.get(replica.process_instance)
        if connection is None:
            connection = self.world.listener(replica.address)
            if connection is None or connection.instance != replica.process_instance:
                return None
            connections[replica.process_instance] = connection
        if connection.has_exited():
            return None
        return str(connection.facts.model) if replica.process_secret == connection.facts.secret else "a refusal"

    def _web(self, ask: Any) -> Any:
        web = self.world.hub.draw.choice(self.world.webs)
        return self.world.http(self, web, ask, 10.0)
