"""Which settings exist, what they mean, and which combinations are refused.

One table: the command line, the environment variables and ``docs/reference/settings.md`` are made from it. Nothing
else in the project reads the environment.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from localai.errors import BadSetting
from localai.generated_pages import page_command
from localai.secret_files import read_secret
from localai.window_rules import INEQUALITIES, Inequality

#: What a key may consist of: clients send it in a header, which carries nothing else for sure.
KEY_ACCEPTED = "letters, digits and signs of ASCII on one line"
#: Shortest admin key: a drawn one of 20 URL-safe characters has 120 bits, which cannot be guessed over a network.
KEY_LEAST_LENGTH = 20
KEY_RECIPE = "`openssl rand -hex 24` makes one"

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_TRUE = {"1", "true", "yes", "on", "t"}
_FALSE = {"0", "false", "no", "off", "f", ""}


def parse_duration(text: str) -> float:
    """Seconds of a Go-style duration such as ``1m30s`` or ``250ms``; a bare ``0`` is zero. Raises ValueError."""
    text = text.strip()
    if text == "0":
        return 0.0
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("a duration such as 30s, 1m30s or 250ms")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """The shortest Go-style text of a number of seconds."""
    if seconds == 0:
        return "0"
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    if seconds >= 1:
        return f"{seconds:g}s"
    return f"{seconds * 1000:g}ms"


def usable_as_key(text: str) -> bool:
    """Whether every client can send this text as a key."""
    return text.isascii() and text.isprintable()


def check_key_lengths(keys: Iterable[str], named: str) -> None:
    """Refuse a server's key that could be guessed. ``named`` says where the keys are from. Raises BadSetting."""
    if any(len(key) < KEY_LEAST_LENGTH for key in keys):
        raise BadSetting(named, "(hidden)", f"keys of at least {KEY_LEAST_LENGTH} characters each; {KEY_RECIPE}")


def default_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The state folder where none is named.

    Root's home is closed to the account that the embedded servers run as, so root gets the system's place for data.
    """
    data_home = (os.environ if environ is None else environ).get("XDG_DATA_HOME", "")
    if os.path.isabs(data_home):
        return Path(data_home) / "localai"
    if os.geteuid() == 0:
        return Path("/var/lib/localai")
    return Path.home() / ".local" / "share" / "localai"


def _without_credentials(urls: str) -> bool:
    """Whether one of the URLs names no user and no token."""
    found = [url.strip() for url in urls.split(",") if url.strip()]
    return any(not url.rpartition("://")[2].partition("/")[0].rpartition("@")[0].strip(":") for url in found)


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of one setting beside its name and its value."""

    variable: str
    kind: str  # duration, integer, number, text, switch, path, list, choice
    default: str
    meaning: str
    commands: tuple[str, ...]  # which of up, run, worker, client take it as a flag
    choices: tuple[str, ...] = ()
    #: Is hidden in texts, and may come from a file.
    secret: bool = False
    #: Variables of other programs with a like name: never read, and never handed to a child.
    foreign: tuple[str, ...] = ()
    #: The flag, where the variable does not say it.
    named_flag: str = ""
    #: Other flags that mean the same.
    other_flags: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return self.named_flag or "--" + self.variable.removeprefix("LOCALAI_").lower().replace("_", "-")

    @property
    def file_variable(self) -> str:
        """The variable with the path of a file that holds the secret."""
        return f"{self.variable}_FILE"

    @property
    def file_flag(self) -> str:
        return f"{self.flag}-file"

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable of this setting and every one that looks like it: none is left to a child by chance."""
        return (self.variable, *((self.file_variable,) if self.secret else ()), *self.foreign)

    def parse(self, text: str) -> Any:
        """The typed value of a text. Raises BadSetting with the variable, the text and what would be accepted."""
        try:
            return self._parse(text)
        except ValueError as error:
            shown = "(hidden)" if self.secret else text
            raise BadSetting(self.variable, shown, str(error)) from None

    def _parse(self, text: str) -> Any:
        match self.kind:
            case "duration":
                return parse_duration(text)
            case "integer":
                if not re.fullmatch(r"-?\d+", text.strip()):
                    raise ValueError("a whole number")
                return int(text)
            case "switch":
                if text.strip().lower() not in _TRUE | _FALSE:
                    raise ValueError("true or false")
                return text.strip().lower() in _TRUE
            case "path":
                return Path(text).expanduser() if text else None
            case "list":
                return tuple(part.strip() for part in text.split(",") if part.strip())
            case "choice":
                if text not in self.choices:
                    raise ValueError("one of " + ", ".join(self.choices))
                return text
            case _:
                return text

    def format(self, value: Any) -> str:
        """The text that `parse` turns into this value."""
        match self.kind:
            case "duration":
                return format_duration(value)
            case "switch":
                return "true" if value else "false"
            case "list":
                return ",".join(value)
            case "path":
                return "" if value is None else str(value)
            case _:
                return str(value)


def _setting(
    variable: str,
    kind: str,
    default: str,
    meaning: str,
    commands: str = "up run worker",
    *,
    choices: tuple[str, ...] = (),
    secret: bool = False,
    foreign: tuple[str, ...] = (),
    flags: str = "",
) -> Any:
    """``flags``: those of the setting, the first one first, where its variable does not say them."""
    named, *others = flags.split() or [""]
    spec = Spec(
        variable, kind, default, meaning, tuple(commands.split()), choices, secret, foreign, named, tuple(others)
    )
    return field(default=spec.parse(default), metadata={"spec": spec})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting with its value. Durations are in seconds and end in ``_s``."""

    # Where things are
    state_dir: Path | None = _setting(
        "LOCALAI_STATE_DIR",
        "path",
        "",
        "Folder that holds everything of this machine; empty means ~/.local/share/localai, for root /var/lib/localai.",
        "up run worker client",
    )
    address: str = _setting("LOCALAI_BIND_ADDRESS", "text", "127.0.0.1", "Address the frontend listens on.", "up run")
    port: int = _setting("LOCALAI_PORT", "integer", "8080", "Port the frontend listens on.", "up run")
    tls_cert: Path | None = _setting(
        "LOCALAI_TLS_CERT",
        "path",
        "",
        "PEM file with the frontend's certificate chain: its port then speaks https, and no http.",
        "up run",
    )
    tls_key: Path | None = _setting(
        "LOCALAI_TLS_KEY", "path", "", "PEM file with the unencrypted key of LOCALAI_TLS_CERT.", "up run"
    )
    ca_file: Path | None = _setting(
        "LOCALAI_CA_FILE",
        "path",
        "",
        "PEM file with the authorities that are trusted for frontends and NATS; empty means those of the system.",
        "up run worker client",
    )
    web_workers: int = _setting(
        "LOCALAI_WEB_WORKERS",
        "integer",
        "1",
        "Web processes of this frontend; one per core is a good number.",
        "up run",
    )
    models_path: Path | None = _setting(
        "LOCALAI_MODELS_PATH",
        "path",
        "",
        "Folder of model configs and files; empty means <state-dir>/models, on a worker <data folder>/models.",
    )
    database_url: str = _setting(
        "LOCALAI_AUTH_DATABASE_URL",
        "text",
        "",
        "PostgreSQL connection URL; `localai up` fills it in.",
        "run",
        secret=True,
    )
    nats_url: str = _setting(
        "LOCALAI_NATS_URL", "text", "", "NATS URL; `localai up` fills it in.", "run worker", secret=True
    )
    broker_url: str = _setting(
        "LOCALAI_BROKER_URL",
        "text",
        "",
        "Redis or Valkey URL of the task queue; `localai up` fills it in.",
        "run worker",
        secret=True,
    )
    worker_nats_url: str = _setting(
        "LOCALAI_WORKER_NATS_URL",
        "text",
        "",
        "NATS URL with the rights of a worker, used by `worker` in place of LOCALAI_NATS_URL; `up` fills it in.",
        "worker",
        secret=True,
    )
    worker_broker_url: str = _setting(
        "LOCALAI_WORKER_BROKER_URL",
        "text",
        "",
        "Queue URL with the rights of a worker, used by `worker` in place of LOCALAI_BROKER_URL; `up` fills it in.",
        "worker",
        secret=True,
    )
    server_user: str = _setting(
        "LOCALAI_SERVER_USER",
        "text",
        "localai",
        "Account the embedded servers run as when root starts `localai up`; `localai` is created if it is missing.",
        "up",
    )
    instance_id: str = _setting(
        "LOCALAI_INSTANCE_ID",
        "text",
        "",
        "Name of this frontend in rows and log lines; empty means a UUID drawn at each start.",
        "up run",
    )

    # Access
    api_key: tuple[str, ...] = _setting(
        "LOCALAI_API_KEY",
        "list",
        "",
        "Admin keys of at least 20 ASCII characters each, separated by commas; empty means the one in "
        "<state-dir>/api-key.",
        "up run client",
        secret=True,
        foreign=("API_KEY",),
    )
    url: str = _setting(
        "LOCALAI_URL",
        "text",
        "",
        "Frontend that client commands talk to; empty means the one of the local state folder.",
        "client",
    )
    registration_token: str = _setting(
        "LOCALAI_REGISTRATION_TOKEN", "text", "", "Token a worker shows to register.", "run worker", secret=True
    )
    insecure: bool = _setting(
        "LOCALAI_INSECURE",
        "switch",
        "false",
        "Start without a registration token also on an address that other machines reach: any of them may then "
        "register a worker.",
        "run",
    )
    registration_require_auth: bool = _setting(
        "LOCALAI_REGISTRATION_REQUIRE_AUTH",
        "switch",
        "false",
        "Refuse to start without a registration token.",
        "run worker",
    )
    nats_require_auth: bool = _setting(
        "LOCALAI_NATS_REQUIRE_AUTH",
        "switch",
        "false",
        "Refuse to start with a NATS URL without credentials.",
        "run worker",
    )
    distributed_require_auth: bool = _setting(
        "LOCALAI_DISTRIBUTED_REQUIRE_AUTH", "switch", "false", "Implies every other require-auth switch.", "run worker"
    )
    auto_approve_nodes: bool = _setting(
        "LOCALAI_AUTO_APPROVE_NODES", "switch", "false", "Approve new nodes without an administrator.", "up run"
    )
    approve_node: str = _setting(
        "LOCALAI_APPROVE_NODE",
        "text",
        "",
        "Name of the one node approved without an administrator; `localai up` sets it to its own.",
        "run",
    )
    approve_node_hash: str = _setting(
        "LOCALAI_APPROVE_NODE_HASH",
        "text",
        "",
        "SHA-256 of the node secret that LOCALAI_APPROVE_NODE must show; `localai up` sets it to its own worker's.",
        "run",
    )
    disk_margin_mib: int = _setting(
        "LOCALAI_DISK_MARGIN",
        "integer",
        "1024",
        "MiB that stay free on a node's disk at least beside the files of a load; 0 means no margin.",
        "up run",
    )
    trusted_proxies: tuple[str, ...] = _setting(
        "LOCALAI_TRUSTED_PROXIES",
        "list",
        "127.0.0.1,::1",
        "Addresses and networks of reverse proxies, comma between: their X-Forwarded-Proto names the outer scheme, "
        "and their X-Forwarded-For the client.",
        "up run",
    )
    connections_per_address: int = _setting(
        "LOCALAI_CONNECTIONS_PER_ADDRESS",
        "integer",
        "512",
        "Connections that one client address may have with a web process without showing a key or credential; above it "
        "the oldest is closed; 0 means no such bound. Does not count for trusted proxies.",
        "up run",
    )
    upload_limit_mb: int = _setting(
        "LOCALAI_UPLOAD_LIMIT", "integer", "15", "Largest request body, in megabytes.", "up run"
    )
    expose_node_header: bool = _setting(
        "LOCALAI_EXPOSE_NODE_HEADER",
        "switch",
        "false",
        "Add X-LocalAI-Node with the id of the serving node to inference answers.",
        "up run",
    )

    # Worker
    register_to: tuple[str, ...] = _setting(
        "LOCALAI_REGISTER_TO", "list", "", "Frontend URLs, separated by commas, tried in turn.", "worker"
    )
    node_name: str = _setting(
        "LOCALAI_NODE_NAME",
        "text",
        "",
        "Name of this node, unique in the cluster: 1 to 63 letters, digits and . _ -; empty means the host name.",
        "worker up",
    )
    serve_addr: str = _setting(
        "LOCALAI_SERVE_ADDR",
        "text",
        "",
        "Listen address and base port of model processes; the agent's HTTP server takes the port below. "
        "Empty means the advertised address if it is one of this machine, else 0.0.0.0, and the port of LOCALAI_ADDR, "
        "or 50051.",
        "worker",
        flags="--addr --serve-addr",
    )
    grpc_max_port: int = _setting(
        "LOCALAI_GRPC_MAX_PORT",
        "integer",
        "65535",
        "Highest port of model processes; above 65535 is clamped, below the base port is ignored.",
        "worker up",
    )
    addr: str = _setting(
        "LOCALAI_ADDR",
        "text",
        "",
        "Reachable host:port of this worker; sets the advertised addresses, and the base port where no other is given.",
        "worker",
        flags="--reachable-addr",
    )
    advertise_addr: str = _setting(
        "LOCALAI_ADVERTISE_ADDR", "text", "", "host:port frontends dial for gRPC; empty means derived.", "worker"
    )
    http_addr: str = _setting(
        "LOCALAI_HTTP_ADDR",
        "text",
        "",
        "Bind address of the worker's HTTP server; empty means base port - 1.",
        "worker",
    )
    advertise_http_addr: str = _setting(
        "LOCALAI_ADVERTISE_HTTP_ADDR", "text", "", "host:port frontends dial for HTTP; empty means derived.", "worker"
    )
    open_probes: bool = _setting(
        "LOCALAI_OPEN_PROBES",
        "switch",
        "false",
        "Answer /readyz and /metrics of the worker to every client of its HTTP port, not only to this machine.",
        "worker",
    )
    data_path: Path | None = _setting(
        "LOCALAI_DATA_PATH",
        "path",
        "",
        "Folder of the agent: journal, backends, staged models; empty means <state-dir>/worker.",
        "worker",
    )
    backends_path: Path | None = _setting(
        "LOCALAI_BACKENDS_PATH",
        "path",
        "",
        "Folder of installed backends; empty means <data folder>/backends.",
        "worker",
    )
    disable_backend_install: bool = _setting(
        "LOCALAI_DISABLE_BACKEND_INSTALL",
        "switch",
        "false",
        "Refuse to install a backend this node does not have.",
        "worker up",
    )
    backend_user: str = _setting(
        "LOCALAI_BACKEND_USER",
        "text",
        "",
        "Account of model processes and installs, for a worker that runs as root; empty means the worker's own.",
        "worker up",
    )
    backend_env: tuple[str, ...] = _setting(
        "LOCALAI_BACKEND_ENV",
        "list",
        "",
        "Further variables of the worker that model processes and installs get; a * at the end stands for any ending.",
        "worker up",
    )
    backend_landlock: bool = _setting(
        "LOCALAI_BACKEND_LANDLOCK",
        "switch",
        "true",
        "Let model processes and installs reach only the files they need, where the kernel has Landlock.",
        "worker up",
    )
    backend_reads: tuple[str, ...] = _setting(
        "LOCALAI_BACKEND_READS",
        "list",
        "",
        "Further files and folders that model processes and installs may read and run.",
        "worker up",
    )
    backend_writes: tuple[str, ...] = _setting(
        "LOCALAI_BACKEND_WRITES",
        "list",
        "",
        "Further folders that model processes and installs may change.",
        "worker up",
    )
    threads: int = _setting(
        "LOCALAI_THREADS",
        "integer",
        "0",
        "Threads of a model process whose config names none; 0 means half its processors, at most the CPU quota.",
        "worker up",
    )
    enable_fault_backend: bool = _setting(
        "LOCALAI_ENABLE_FAULT_BACKEND",
        "switch",
        "false",
        "List the backends that fail on purpose, for tests.",
        "up run worker",
    )
    fault_install_delay_s: float = _setting(
        "LOCALAI_FAULT_INSTALL_DELAY", "duration", "0", "Delay of the install of backend fault-slow.", "worker up"
    )
    crash_point_file: Path | None = _setting(
        "LOCALAI_CRASH_POINT_FILE",
        "path",
        "",
        "For tests: a process that reaches the point named in this file removes it and kills itself.",
    )

    # Job engine
    job_lease_ttl_s: float = _setting(
        "LOCALAI_JOB_LEASE_TTL", "duration", "30s", "How long an owner's lease lasts; renewed after a quarter of it."
    )
    worker_kill_ttl_s: float = _setting(
        "LOCALAI_WORKER_KILL_TTL",
        "duration",
        "90s",
        "An operation that nobody renewed for this long is killed by its worker.",
    )
    stop_window_s: float = _setting(
        "LOCALAI_STOP_WINDOW",
        "duration",
        "150s",
        "How long a failed attempt holds the model when the worker never confirms its end.",
    )
    legacy_window_s: float = _setting(
        "LOCALAI_LEGACY_WINDOW",
        "duration",
        "45m",
        "The stop window of a node whose agent is too old to confirm anything.",
        "up run",
    )
    report_window_s: float = _setting(
        "LOCALAI_REPORT_WINDOW",
        "duration",
        "15s",
        "How long a failure whose work has ended is kept, so that every waiter reads it.",
    )
    dispatch_window_s: float = _setting(
        "LOCALAI_DISPATCH_WINDOW",
        "duration",
        "10s",
        "An unclaimed order is sent again after this long; doubles up to 16 times it.",
    )
    job_sweep_interval_s: float = _setting(
        "LOCALAI_JOB_SWEEP_INTERVAL", "duration", "1s", "How often lapsed windows and leases are looked for."
    )
    operation_report_interval_s: float = _setting(
        "LOCALAI_OPERATION_REPORT_INTERVAL", "duration", "5s", "How often an agent reports running operations."
    )
    adopt_window_s: float = _setting(
        "LOCALAI_ADOPT_WINDOW",
        "duration",
        "15s",
        "How late after a lapse a load may be taken over and still be alive; the windows are checked against it.",
    )
    job_adoption: bool = _setting(
        "LOCALAI_JOB_ADOPTION",
        "switch",
        "true",
        "A load whose owner is lost goes on under another one where its agent was heard of; false fails and holds it.",
        "up run",
    )
    staging_stall_window_s: float = _setting(
        "LOCALAI_STAGING_STALL_WINDOW", "duration", "5m", "A transfer that moves nothing for this long has failed."
    )
    staging_max_duration_s: float = _setting(
        "LOCALAI_STAGING_MAX_DURATION", "duration", "24h", "Longest a load may last, even when it makes progress."
    )
    model_load_least_budget_s: float = _setting(
        "LOCALAI_MODEL_LOAD_LEAST_BUDGET",
        "duration",
        "25m",
        "Least time that the steps of a load without progress (install, LoadModel) get together.",
    )
    model_load_slack_s: float = _setting(
        "LOCALAI_MODEL_LOAD_SLACK",
        "duration",
        "5m",
        "How far the bound of a load stands behind the limits of its parts, which say better what took too long.",
    )
    backend_install_timeout_s: float = _setting(
        "LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT",
        "duration",
        "15m",
        "Longest a backend install may last.",
        flags="--backend-install-timeout --nats-backend-install-timeout",
    )
    model_load_timeout_s: float = _setting(
        "LOCALAI_NATS_MODEL_LOAD_TIMEOUT",
        "duration",
        "0",
        "Pins the time LoadModel may take; 0 means 5m + 20s per GiB of model, at most 6h.",
        flags="--model-load-timeout --nats-model-load-timeout",
    )
    backend_start_timeout_s: float = _setting(
        "LOCALAI_BACKEND_START_TIMEOUT", "duration", "30s", "How long a model process may take until it answers Health."
    )
    port_quarantine_s: float = _setting(
        "LOCALAI_PORT_QUARANTINE", "duration", "120s", "How long a released port rests."
    )
    stop_grace_s: float = _setting(
        "LOCALAI_STOP_GRACE", "duration", "10s", "Time between TERM and KILL of a process group."
    )

    unload_timeout_s: float = _setting(
        "LOCALAI_UNLOAD_TIMEOUT",
        "duration",
        "5m",
        "How long an unload, a drain or an edited config waits for running requests of a replica; then they are cut "
        "and its process is stopped. 0 waits as long as they run.",
        "up run",
    )

    # Calls to model processes
    connect_timeout_s: float = _setting(
        "LOCALAI_CONNECT_TIMEOUT",
        "duration",
        "5s",
        "How long a model process may take to accept a connection; 0 is no limit. A model's config may set "
        "`timeouts.connect`.",
        "up run",
    )
    first_byte_timeout_s: float = _setting(
        "LOCALAI_FIRST_BYTE_TIMEOUT",
        "duration",
        "30m",
        "How long a call may wait for the first byte of a streamed answer, or for an answer that comes whole; 0 is no "
        "limit. A model's config may set `timeouts.first_byte`.",
        "up run",
    )
    idle_timeout_s: float = _setting(
        "LOCALAI_IDLE_TIMEOUT",
        "duration",
        "15m",
        "How long a streamed answer may pause after its first byte; 0 is no limit. A model's config may set "
        "`timeouts.idle`.",
        "up run",
    )

    quarantine_after: int = _setting(
        "LOCALAI_QUARANTINE_AFTER",
        "integer",
        "3",
        "So many failures in a row of one revision of a model on one node, with one cause, keep further attempts away "
        "from there; 0 never does.",
        "up run",
    )

    # Cluster
    model_load_wait_s: float = _setting(
        "LOCALAI_MODEL_LOAD_WAIT",
        "duration",
        "60s",
        "How long a request waits for a cold model; 0 waits as long as the load takes.",
    )
    waiter_poll_interval_s: float = _setting(
        "LOCALAI_WAITER_POLL_INTERVAL", "duration", "5s", "How often a waiter reads the job row when no event came."
    )
    heartbeat_interval_s: float = _setting(
        "LOCALAI_HEARTBEAT_INTERVAL", "duration", "10s", "How often an agent sends a heartbeat."
    )
    heartbeat_checkpoint_s: float = _setting(
        "LOCALAI_NODE_HEARTBEAT_CHECKPOINT",
        "duration",
        "60s",
        "Least time between two durable heartbeats that carry no news.",
    )
    stale_node_threshold_s: float = _setting(
        "LOCALAI_STALE_NODE_THRESHOLD", "duration", "5m", "A node without a durable heartbeat for this long is offline."
    )
    reconcile_interval_s: float = _setting(
        "LOCALAI_RECONCILE_INTERVAL",
        "duration",
        "30s",
        "How often the slow passes run: rows of web processes that are gone, of jobs and processes long over.",
    )
    health_interval_s: float = _setting(
        "LOCALAI_HEALTH_INTERVAL",
        "duration",
        "15s",
        "How often an agent checks that its model processes accept connections and answer.",
    )
    process_stall_window_s: float = _setting(
        "LOCALAI_PROCESS_STALL_WINDOW",
        "duration",
        "60s",
        "A loaded model process that answers nothing and uses no processor time for this long is killed.",
    )
    grpc_keepalive_time_s: float = _setting(
        "LOCALAI_GRPC_KEEPALIVE_TIME",
        "duration",
        "330s",
        "How long a running call to a model process may be silent until its connection is tested with a ping; 0 sends "
        "no pings. Below 5m, servers with default settings of gRPC cut silent calls.",
        "up run",
    )
    grpc_keepalive_timeout_s: float = _setting(
        "LOCALAI_GRPC_KEEPALIVE_TIMEOUT",
        "duration",
        "2m",
        "A connection to a model process is lost if a ping or sent bytes are not acknowledged for this long.",
    )
    frontend_lease_ttl_s: float = _setting(
        "LOCALAI_FRONTEND_LEASE_TTL", "duration", "90s", "How long the row of a web process holds."
    )
    config_resync_interval_s: float = _setting(
        "LOCALAI_MODEL_CONFIG_RESYNC_INTERVAL", "duration", "30s", "How often the models folder is read again."
    )
    stale_routing: str = _setting(
        "LOCALAI_STALE_ROUTING",
        "choice",
        "serve",
        "What a web process cut off from the database does with loaded models.",
        choices=("serve", "refuse"),
    )
    log_level: str = _setting(
        "LOCALAI_LOG_LEVEL",
        "choice",
        "info",
        "Least severe line that is logged.",
        choices=("debug", "info", "warning", "error"),
    )
    debuggable: bool = _setting(
        "LOCALAI_DEBUGGABLE",
        "switch",
        "false",
        "Let processes of the same account read the memory and the open files of the web, control and worker "
        "processes, as debuggers, `py-spy` and `lsof` do.",
    )

    no_color: str = _setting(
        "NO_COLOR", "text", "", "Set to anything: the commands that talk to a server print no colours.", ""
    )

    # Accepted for compatibility
    distributed: bool = _setting(
        "LOCALAI_DISTRIBUTED", "switch", "true", "Accepted; this server is always distributed.", "run up"
    )
    auth: bool = _setting("LOCALAI_AUTH", "switch", "true", "Accepted; the API always needs a key.", "run up")

    # Intervals that follow from the windows, so that scaled windows keep their order.
    @property
    def job_renew_interval_s(self) -> float:
        return self.job_lease_ttl_s / 4

    @property
    def watchdog_interval_s(self) -> float:
        return min(1.0, self.worker_kill_ttl_s / 30)

    @property
    def dispatch_window_max_s(self) -> float:
        return self.dispatch_window_s * 16

    @property
    def frontend_renew_interval_s(self) -> float:
        return min(5.0, self.frontend_lease_ttl_s / 6)

    @property
    def routing_poll_interval_s(self) -> float:
        return min(2.0, self.frontend_lease_ttl_s / 6)

    @property
    def cut_grace_s(self) -> float:
        """How long a cut waits for the frontends: two polls and a second."""
        return self.routing_poll_interval_s * 2 + 1.0

    @property
    def silent_worker_s(self) -> float:
        """A claimed operation without a report for this long fails."""
        return self.worker_kill_ttl_s + self.worker_kill_ttl_s / 6

    @property
    def fresh_report_s(self) -> float:
        """A report younger than this proves that an agent works on what it lists."""
        return self.operation_report_interval_s * 3

    @property
    def observation_gap_s(self) -> float:
        """Sweeps that are further apart than this have not observed the rows without a gap."""
        return self.job_lease_ttl_s / 2

    @property
    def stale_grace_s(self) -> float:
        """Silent nodes are judged this long after a gap: every node that lives has written a heartbeat by then."""
        return self.heartbeat_checkpoint_s + self.heartbeat_interval_s

    @property
    def doubt_window_s(self) -> float:
        """A node that is not reached is unhealthy after this long without a heartbeat."""
        return self.heartbeat_interval_s * 2

    @property
    def frontend_grace_s(self) -> float:
        """Web processes whose lease is over are passed over this long after a gap: those that live have a new row."""
        return self.frontend_renew_interval_s * 2

    @property
    def require_registration_token(self) -> bool:
        return self.registration_require_auth or self.distributed_require_auth

    def open_access(self) -> str | None:
        """The credential that a require-auth switch demands and that is missing, as a text; None where all are set."""
        if self.require_registration_token and not self.registration_token:
            return (
                "LOCALAI_REGISTRATION_TOKEN is empty, and LOCALAI_REGISTRATION_REQUIRE_AUTH (or "
                "LOCALAI_DISTRIBUTED_REQUIRE_AUTH) forbids that: set the same token on frontends and workers"
            )
        if (self.nats_require_auth or self.distributed_require_auth) and _without_credentials(self.nats_url):
            return (
                "LOCALAI_NATS_URL has no credentials, and LOCALAI_NATS_REQUIRE_AUTH (or "
                "LOCALAI_DISTRIBUTED_REQUIRE_AUTH) forbids that: use nats://TOKEN@host:4222 or "
                "nats://USER:PASSWORD@host:4222"
            )
        return None

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
        """Settings from flags, then variables, then defaults. Raises BadSetting.

        A secret may come from a file, which ``flags`` names as ``<name>_file``.
        """
        environ, flags = os.environ if environ is None else environ, flags or {}
        values: dict[str, Any] = {}
        for name, spec in cls.specs():
            flag, text = flags.get(name), environ.get(spec.variable) or None
            if spec.secret:
                flag = _secret_of(spec, spec.flag, flag, spec.file_flag, flags.get(f"{name}_file"))
                if flag is None:
                    text = _secret_of(spec, spec.variable, text, spec.file_variable, environ.get(spec.file_variable))
            if flag is not None:
                values[name] = spec.parse(spec.format(flag) if not isinstance(flag, str) else flag)
            elif text is not None:
                values[name] = spec.parse(text)
        settings = cls(**values)
        settings.check()
        return settings

    @classmethod
    def specs(cls) -> Iterable[tuple[str, Spec]]:
        """Name and spec of every setting, in the order of the table."""
        return [(f.name, f.metadata["spec"]) for f in fields(cls)]

    @classmethod
    def left_out(cls, environ: Mapping[str, str]) -> dict[str, str]:
        """``environ`` without the variables of settings: keys, tokens and URLs with passwords are among them."""
        own = {name for _, spec in cls.specs() for name in spec.variables}
        return {name: value for name, value in environ.items() if name not in own}

    @classmethod
    def unused(cls) -> list[str]:
        """Variables of the environment that are not read, because other programs use them for their own settings."""
        return [name for _, spec in cls.specs() for name in spec.foreign if os.environ.get(name)]

    def environ(self) -> dict[str, str]:
        """The variables that make `load` return these settings; defaults are left out."""
        found = {}
        for name, spec in self.specs():
            value = getattr(self, name)
            if value != spec.parse(spec.default):
                found[spec.variable] = spec.format(value)
        return found

    def check(self) -> None:
        """Refuse values out of range and windows that break an inequality of the job protocol. Raises BadSetting."""
        for name, spec in self.specs():
            value = getattr(self, name)
            if spec.kind in ("duration", "integer") and value < 0:
                raise BadSetting(spec.variable, spec.format(value), "zero or more")
        for name in (
            "job_lease_ttl_s",
            "job_sweep_interval_s",
            "heartbeat_interval_s",
            "operation_report_interval_s",
            "waiter_poll_interval_s",
            "dispatch_window_s",
            "frontend_lease_ttl_s",
            "config_resync_interval_s",
            "reconcile_interval_s",
            "health_interval_s",
            "process_stall_window_s",
            "grpc_keepalive_timeout_s",
            "backend_install_timeout_s",
            "backend_start_timeout_s",
        ):
            if getattr(self, name) <= 0:
                raise BadSetting(self._variable(name), "0", "a duration above zero")
        if not re.fullmatch(r"[\w.:-]{0,255}", self.instance_id, re.ASCII):
            raise BadSetting(
                "LOCALAI_INSTANCE_ID", self.instance_id, "at most 255 letters, digits and signs of . _ : - in ASCII"
            )
        if not 0 <= self.port <= 65535:
            raise BadSetting("LOCALAI_PORT", str(self.port), "a port from 0 to 65535")
        if self.web_workers < 1:
            raise BadSetting("LOCALAI_WEB_WORKERS", str(self.web_workers), "at least 1")
        if self.upload_limit_mb < 1:  # no worker could register
            raise BadSetting("LOCALAI_UPLOAD_LIMIT", str(self.upload_limit_mb), "at least 1 megabyte")
        self._check_certificate()
        if self.crash_point_file is not None and not self.enable_fault_backend:
            given = str(self.crash_point_file)
            raise BadSetting("LOCALAI_CRASH_POINT_FILE", given, "nothing without LOCALAI_ENABLE_FAULT_BACKEND=true")
        for name in ("api_key", "registration_token"):
            if not usable_as_key("".join(getattr(self, name))):
                raise BadSetting(self._variable(name), "(hidden)", KEY_ACCEPTED)
        for rule in INEQUALITIES:
            self._check_inequality(rule)
        self._check_proxies()

    def _check_certificate(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            given, other = ("cert", "key") if self.tls_key is None else ("key", "cert")
            path = getattr(self, f"tls_{given}")
            raise BadSetting(
                self._variable(f"tls_{given}"), str(path), f"both or none: {self._variable(f'tls_{other}')}"
            )

    def _check_proxies(self) -> None:
        for text in self.trusted_proxies:
            try:
                ipaddress.ip_network(text, strict=False)
            except ValueError:
                accepted = "addresses or networks such as 10.0.0.5 or 10.0.0.0/8"
                raise BadSetting("LOCALAI_TRUSTED_PROXIES", text, accepted) from None

    def _check_inequality(self, rule: Inequality) -> None:
        total = sum(times * getattr(self, name) for name, times in rule.parts.items())
        bound = getattr(self, rule.below)
        if total < bound or (rule.or_equal and total == bound):
            return
        named = [name for name in rule.parts if name in dict(self.specs())]
        others = [f"{self._variable(name)}={self._text(name)}" for name in named[1:]]
        raise BadSetting(
            self._variable(named[0]),
            self._text(named[0]),
            f"{rule.why}: {', '.join([self._variable(named[0]), *others])} and "
            f"{self._variable(rule.below)}={self._text(rule.below)} do not fit together",
        )

    def _variable(self, name: str) -> str:
        return dict(self.specs())[name].variable

    def _text(self, name: str) -> str:
        return dict(self.specs())[name].format(getattr(self, name))


def _secret_of(spec: Spec, named: str, given: Any, file_named: str, path: str | None) -> Any:
    """A secret as it was given, or the text of its file; both at once are refused. Raises BadSetting."""
    if not path:
        return given
    if given is not None:
        raise BadSetting(file_named, path, f"nothing beside {named}: give the secret once")
    return read_secret(file_named, path, many=spec.kind == "list")


def settings_page() -> str:
    """The text of ``docs/reference/settings.md``."""
    lines = [
        "# Settings",
        "",
        "Made from `localai/settings.py` by `make fmt`; do not edit. A flag wins over a variable, a variable over the",
        "default. Durations are written as in Go: `250ms`, `30s`, `1m30s`, `24h`. A value that cannot be used stops",
        "the process at start with the name of the variable, the value and what would be accepted.",
        "",
        "A setting marked *secret* may come from a file: its variable with `_FILE` behind it, or its flag with",
        "`-file`, names the file, such as `LOCALAI_API_KEY_FILE` or `--api-key-file`. The file holds the secret on",
        "one line; keys may stand on a line each. Both forms at once, as variables or as flags, are refused.",
        "",
        "| variable | flag | commands | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for _, spec in Settings.specs():
        default = f"`{spec.default}`" if spec.default else "(empty)"
        meaning = spec.meaning + (f" One of: {', '.join(spec.choices)}." if spec.choices else "")
        meaning += " *Secret.*" if spec.secret else ""
        flag = f"`{spec.flag}`" if spec.commands else "(none)"
        lines.append(f"| `{spec.variable}` | {flag} | {', '.join(spec.commands) or 'all'} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(page_command("localai.settings", settings_page))
