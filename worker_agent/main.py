"""How the agent's process begins and ends: settings, folder, port, leftovers, registration, signals, exit code."""

from __future__ import annotations

import os
import socket
import sys
import time

from localai import crash_points, logs, private_memory
from localai.clock import boottime
from localai.errors import BadSetting, NodeRemoved, StartRefused
from localai.escapes import escaped
from localai.nodes import secret_file
from localai.nodes.credentials import hash_of
from localai.nodes.names import default_name
from localai.settings import Settings
from tasks.broker import make_broker
from worker_agent import ending as ends
from worker_agent.addresses import Addresses
from worker_agent.agent import Agent, Place
from worker_agent.ending import Ending, Why
from worker_agent.files.digests import DigestCache
from worker_agent.files.fetch import sweep_partials
from worker_agent.files.staged_files import StagedFiles
from worker_agent.folders import FolderLock, Folders
from worker_agent.frontends import Frontends
from worker_agent.hooks import Hooks, crash_hooks
from worker_agent.install.backends import recover
from worker_agent.log_routes import LogRoutes
from worker_agent.probes import Answers, ProbeServer
from worker_agent.processes.confinement import Confinement
from worker_agent.processes.leftovers import kill_leftovers
from worker_agent.processes.port_range import is_free
from worker_agent.processes.process import Group
from worker_agent.registration import Progress, description, register, write_incarnation
from worker_agent.telemetry.figures import Figures
from worker_agent.telemetry.model_memory import ModelMemoryReading

log = logs.get(__name__)

#: How long what an earlier incarnation left may take to die. Only a process stuck inside the kernel needs longer.
LEFTOVERS_BOUND_S = 30.0
#: Longest one call to a frontend may take, and the share of the kill TTL that it may cost at most.
CALL_TIMEOUT_S, CALL_SHARE = 5.0, 6


def main(hooks: Hooks | None = None) -> int:
    """Run the agent of this machine; the exit code of the process."""
    ending = Ending()
    ending.on_signals()
    os.umask(0o077)  # another account may pass the data folder
    try:
        settings = Settings.load()
        private_memory.close_to_others(unless=settings.debuggable)
        logs.configure(settings.log_level, "agent")
        crash_points.arm(settings.crash_point_file)
        _check(settings)
        code = _serve(settings, ending, hooks or crash_hooks())
    except (BadSetting, StartRefused) as error:
        sys.stderr.write(f"localai worker: {escaped(error.message)}\n")
        return ends.EXIT_REFUSED
    if code == 0 and ending.why is Why.UNKNOWN:
        # A new program image: nothing of the old incarnation can survive in it.
        os.execv(sys.executable, [sys.executable, "-m", "worker_agent.main"])
    return code


def _check(settings: Settings) -> None:
    for variable, value in (("LOCALAI_REGISTER_TO", settings.register_to), ("LOCALAI_BROKER_URL", settings.broker_url)):
        if not value:
            raise StartRefused(f"{variable} is not set: a worker cannot run without it")
    if refused := settings.open_access():
        raise StartRefused(refused)
    make_broker(settings.broker_url)  # refuses a URL of another form; nothing is connected


def _check_host(addresses: Addresses) -> None:
    """Refuse a host that model processes could not listen on."""
    try:
        is_free(addresses.bind_host, addresses.base_port)
    except OSError as error:
        raise StartRefused(
            f"LOCALAI_SERVE_ADDR: model processes cannot listen on {addresses.bind_host}: {error.strerror}"
        ) from None


def _warn_of_every_address(settings: Settings, addresses: Addresses) -> None:
    if addresses.on_every_address and not settings.serve_addr:
        log.warning(
            "model processes listen on every address of this machine, because %s does not name exactly one of them; "
            "set LOCALAI_SERVE_ADDR to the address that frontends reach (0.0.0.0 for every address)",
            addresses.advertise_host,
        )


def _serve(settings: Settings, ending: Ending, hooks: Hooks) -> int:
    """Serve until something asks for the end."""
    hostname = socket.gethostname()
    addresses, folders = Addresses.of(settings, hostname), Folders.of(settings)
    _check_host(addresses)
    _warn_of_every_address(settings, addresses)
    folders.make()
    lock = FolderLock(folders.data)
    agents: list[Agent] = []
    progress = Progress()
    log_routes = LogRoutes(folders.logs, settings.registration_token)
    probes = ProbeServer(
        addresses.http_host,
        addresses.http_port,
        Answers(
            lambda: agents[0].not_ready() if agents else progress.reason,
            log_routes,
            registration_token=settings.registration_token,
            open_to_all=settings.open_probes,
        ),
    )
    frontends = Frontends(
        settings.register_to,
        registration_token=settings.registration_token,
        timeout_s=min(CALL_TIMEOUT_S, settings.worker_kill_ttl_s / CALL_SHARE),
        clock=boottime,
        ca_file=settings.ca_file,
    )
    try:
        secret = secret_file.read_or_make(folders.node_secret)
        probes.start()
        used_ports = _clean(folders, ending)
        confinement = Confinement.of(settings, folders)
        digests = DigestCache(folders.models / ".digests.json")
        staged_files, model_memory = StagedFiles(folders.models, digests), ModelMemoryReading()
        figures = Figures.of_this_machine(folders.models, staged_files, model_memory)
        name = default_name(hostname, folders.incarnation)
        described = description(settings, addresses, name, figures(), secret)
        registered = register(frontends, described, ending.asked, progress)
        if registered is None:
            return 0
        frontends.use_credential(registered.node_token)
        log_routes.accept(hash_of(registered.node_token))
        write_incarnation(folders.incarnation, registered)
        place = Place(
            settings=settings,
            folders=folders,
            addresses=addresses,
            frontends=frontends,
            figures=figures,
            digests=digests,
            staged_files=staged_files,
            model_memory=model_memory,
            ending=ending,
            hooks=hooks,
            confinement=confinement,
            used_ports=used_ports,
        )
        log.info(
            "registered",
            extra=logs.fields(node=registered.name, incarnation=registered.incarnation, status=registered.status),
        )
        agent = Agent(place, registered)
        try:
            agent.start()
            agents.append(agent)
            ending.asked.wait()
        finally:
            left = agent.end()
        return _exit_code(left, ending)
    finally:
        probes.close()
        frontends.close()
        lock.release()


def _clean(folders: Folders, ending: Ending) -> list[int]:
    """End and undo what earlier incarnations left. The ports they had. Raises StartRefused when something survives."""
    entries, survivors = kill_leftovers(folders.journal, bound_s=LEFTOVERS_BOUND_S, stop=ending.asked)
    if survivors and not ending.asked.is_set():
        raise StartRefused(f"processes of an earlier worker do not end: {', '.join(map(str, survivors))}")
    recover(folders.backends)
    sweep_partials(folders.models, time.time())
    return [entry.port for entry in entries if entry.port]


def _exit_code(left: list[Group], ending: Ending) -> int:
    if left:
        groups = ", ".join(f"{group.name} (group {group.pid})" for group in left)
        log.error("process groups did not end", extra=logs.fields(groups=groups))
        return ends.EXIT_LEFT_BEHIND
    if ending.why is Why.REMOVED:
        sys.stderr.write(f"localai worker: {NodeRemoved().message}\n")
        return ends.EXIT_REMOVED
    return ends.EXIT_REPLACED if ending.why is Why.REPLACED else 0


if __name__ == "__main__":
    sys.exit(main())
