"""Which figures does this project give about itself, and under which names?

One table: the instruments below, `/metrics` of frontends and agents, and ``docs/reference/metrics.md`` come from it.
Counting changes memory and nothing else. A label takes its values from a set that no client can make longer: models
with a config, nodes with a row, routes, and the words of this code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from localai import __version__
from localai.generated_pages import page_command

# A second series for each counter that tells when it began: nothing here needs it.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # The library has no type here.

FRONTEND, AGENT = "frontend", "agent"
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST

#: Fractions of a millisecond to seconds: what the frontend itself takes.
_FINE_S = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
#: Milliseconds to minutes: what an answer takes.
_ANSWER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
#: A tenth of a second to hours: what a load takes.
_LOAD_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 21600.0)

Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table."""

    name: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    meaning: str
    shown_by: tuple[str, ...]


_TABLE: list[Metric] = []
_INSTRUMENTS: dict[str, list[Collector]] = {FRONTEND: [], AGENT: []}


def _register(instrument: Instrument, kind: str, labels: Sequence[str], unit: str, by: Iterable[str]) -> Instrument:
    (described,) = instrument.describe()
    name = described.name + ("_total" if kind == "counter" else "")
    _TABLE.append(Metric(name, kind, tuple(labels), unit, described.documentation, tuple(by)))
    for shown_by in by:
        _INSTRUMENTS[shown_by].append(instrument)
    return instrument


def _counter(name: str, labels: Sequence[str], unit: str, meaning: str, *by: str) -> Counter:
    return _register(Counter(name, meaning, labels, registry=None), "counter", labels, unit, by)


def _gauge(name: str, labels: Sequence[str], unit: str, meaning: str, *by: str) -> Gauge:
    return _register(Gauge(name, meaning, labels, registry=None), "gauge", labels, unit, by)


def _seconds(name: str, labels: Sequence[str], buckets: Sequence[float], meaning: str, *by: str) -> Histogram:
    histogram = Histogram(name, meaning, labels, registry=None, buckets=buckets)
    return _register(histogram, "histogram", labels, "seconds", by)


class AtScrape:
    """A gauge that no process keeps: it is read where it is true, when somebody asks."""

    def __init__(self, name: str, labels: Sequence[str], unit: str, meaning: str, *by: str) -> None:
        _TABLE.append(Metric(name, "gauge, at scrape", tuple(labels), unit, meaning, by))
        self._name, self._labels, self._meaning = name, tuple(labels), meaning

    def family(self, values: Mapping[tuple[str, ...], float]) -> Family:
        """The gauge with a value for each combination of labels."""
        family = GaugeMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family


# Requests

API_CALL = _seconds(
    "api_call",
    ("method", "path", "outcome"),
    _ANSWER_S,
    "From the arrival of a request to the end of its answer, by route. Outcome: ok, client_error, server_error.",
    FRONTEND,
)
REQUESTS = _counter(
    "localai_requests_total",
    ("model", "node", "outcome"),
    "requests",
    "Inference requests that reached the routing, by the node that answered. Outcome: ok, loading (503 with progress, "
    "or a stream that ended with it), refused (4xx), failed, cancelled (the client left).",
    FRONTEND,
)
TIME_TO_FIRST_TOKEN = _seconds(
    "localai_time_to_first_token_seconds",
    ("model",),
    _ANSWER_S,
    "Streamed answers: from the arrival of the request to the first reply of the model, a wait for its load included.",
    FRONTEND,
)
ROUTER_OVERHEAD = _seconds(
    "localai_router_overhead_seconds",
    (),
    _FINE_S,
    "Answered inference requests: time in the frontend until the answer begins, without the call to the model process "
    "and without the wait for a load.",
    FRONTEND,
)
CALLS_CUT = _counter(
    "localai_calls_cut_total",
    ("model", "cause"),
    "calls",
    "Calls to model processes that were ended early. Cause: unloaded (a forced unload, or one over its bound), "
    "connect, first_byte, idle (over that limit of the model), crashed (the process ended or its connection broke).",
    FRONTEND,
)
CONNECTIONS_CLOSED = _counter(
    "localai_connections_closed_total",
    ("cause",),
    "connections",
    "Connections of clients that were closed for new ones. Cause: address (too many of one client address without a "
    "credential), total (too many without one), idle (the web process is nearly full, and the "
    "connection had no request).",
    FRONTEND,
)
CREDENTIALS_REFUSED = _counter(
    "localai_credentials_refused_total",
    ("kind",),
    "requests",
    "Requests with a wrong credential. Kind: login (a wrong key, or too many before), key (in a header), session (a "
    "cookie), node (the credential of a node, or a registration token). Requests that show none do not count.",
    FRONTEND,
)
WAITERS = _gauge("localai_waiters", ("model",), "requests", "Requests that wait for a load at this moment.", FRONTEND)

# Jobs

LOAD_JOBS = AtScrape(
    "localai_load_jobs", ("state", "phase"), "jobs", "Live load jobs, as the rows say at the scrape.", FRONTEND
)
JOBS_ENDED = _counter(
    "localai_jobs_ended_total",
    ("kind", "phase", "outcome"),
    "jobs",
    "Jobs that ended, by the phase they ended in. Outcome: succeeded, failed, cancelled.",
    FRONTEND,
)
LOAD_SECONDS = _seconds(
    "localai_load_seconds",
    ("model", "outcome"),
    _LOAD_S,
    "Load jobs that ended: from the request to the end, by the database clock. Outcome as above.",
    FRONTEND,
)
LOAD_PHASE_SECONDS = _seconds(
    "localai_load_phase_seconds",
    ("model", "phase", "outcome"),
    _LOAD_S,
    "One phase of a load. Frontends: `pending`, until a node is chosen. Agents: `installing`, `staging`, `loading`. "
    "Outcome: ok, failed, cancelled.",
    FRONTEND,
    AGENT,
)
LEASE_LOSSES = _counter(
    "localai_lease_losses_total",
    ("kind", "outcome"),
    "leases",
    "Leases of owners that ran out, seen by whoever moved the job on. Outcome: adopted, failed, requeued.",
    FRONTEND,
)
FENCED_WRITES = _counter(
    "localai_fenced_writes_total",
    ("move",),
    "writes",
    "Writes about a job that touched no row, because somebody else was faster or the job had ended.",
    FRONTEND,
)
UNCONFIRMED_STOPS = AtScrape(
    "localai_unconfirmed_stops",
    ("node",),
    "jobs",
    "Ended jobs whose work may still run on a node: their stop is sent and not confirmed.",
    FRONTEND,
)

QUARANTINES = AtScrape(
    "localai_quarantines",
    ("model", "node", "cause"),
    "failures",
    "Models that are kept off a node after failures in a row with one cause, and how many those are; no series for any "
    "other model.",
    FRONTEND,
)

UNHEALTHY_PROCESSES = _counter(
    "localai_unhealthy_processes_total",
    ("model", "cause"),
    "processes",
    "Loaded model processes that the agent ended because they served no more. Cause: `stalled` (it answered nothing "
    "and used no processor time for the stall window), `refuses` (it refused connections).",
    AGENT,
)

# Bytes and queues

STAGING_BYTES = _counter(
    "localai_staging_bytes_total",
    ("outcome",),
    "bytes",
    "Bytes of model files. Outcome: received over the network, or kept because they were there and right.",
    AGENT,
)
QUEUE_DEPTH = AtScrape(
    "localai_queue_depth",
    ("queue",),
    "messages",
    "Messages that nobody has taken yet: the queue `control`, and one queue a node under the node's name.",
    FRONTEND,
)

# The database, and what could not be read

OLDEST_XMIN_AGE = AtScrape(
    "localai_control_plane_oldest_xmin_age",
    (),
    "transactions",
    "Transactions since the oldest snapshot that is held open in the control plane's database. A line that climbs "
    "means that something keeps vacuum from its work.",
    FRONTEND,
)
SOURCE_UP = AtScrape(
    "localai_source_up",
    ("source",),
    "0 or 1",
    "Whether `database` and `queue` could be read at the scrape; the figures of one that could not are left out.",
    FRONTEND,
)
BUILD_INFO = AtScrape("localai_build_info", ("version",), "1", "The version that answers; always 1.", FRONTEND, AGENT)


def table() -> Sequence[Metric]:
    """Every metric there is."""
    return _TABLE


def collected(by: str) -> Iterator[Family]:
    """What this process has counted so far."""
    for instrument in _INSTRUMENTS[by]:
        yield from instrument.collect()


class _These(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families

    def describe(self) -> Iterable[Family]:
        """Nothing: a registry would otherwise collect once more to learn the names."""
        return ()


def exposition(families: Iterable[Family]) -> bytes:
    """The text a scrape gets; the version is added."""
    registry = CollectorRegistry()
    registry.register(_These([*families, BUILD_INFO.family({(__version__,): 1.0})]))
    return prometheus_client.generate_latest(registry)


def metrics_page() -> str:
    """The text of ``docs/reference/metrics.md``."""
    lines = [
        "# Metrics",
        "",
        "Made from `localai/metrics.py` by `make fmt`; do not edit.",
        "",
        "`GET /metrics` answers in the text format of Prometheus. On a frontend it needs an admin key and speaks for",
        "all its web processes and its control process; several frontends are several targets. An agent answers on",
        "its HTTP server (`LOCALAI_HTTP_ADDR`), like its probes without a key: whoever reaches that port can read",
        "the names of models.",
        "",
        "Counters begin at zero when a frontend or an agent starts. A process that is killed loses what it counted in",
        "its last five seconds; a total that was shown never falls while the frontend runs. Gauges *at scrape* are",
        "read from the database and the queue, at most every five seconds by each web process. Histograms are given",
        "as `_bucket`, `_sum` and `_count`. Names of models come from configs and names of nodes from rows, never",
        "from requests.",
        "",
        "| metric | type | labels | unit | shown by | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for metric in _TABLE:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        by = ", ".join(metric.shown_by)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {by} | {metric.meaning} |")
    return "\n".join([*lines, "", *_SCRAPING]) + "\n"


_SCRAPING = (
    "## Scraping",
    "",
    "```yaml",
    "scrape_configs:",
    "  - job_name: localai-frontend",
    "    authorization: {credentials_file: /etc/prometheus/localai-api-key}",
    "    static_configs: [{targets: ['frontend-1:8080', 'frontend-2:8080']}]",
    "  - job_name: localai-agent",
    "    static_configs: [{targets: ['worker-1:50050', 'worker-2:50050']}]",
    "```",
    "",
    "Worth an alert:",
    "",
    "- `localai_control_plane_oldest_xmin_age` that climbs for an hour: find the session with",
    "  `SELECT pid, state, age(backend_xmin), query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL",
    "  ORDER BY 3 DESC`. The usual reason is a database shared with something that holds long transactions.",
    "- `localai_unconfirmed_stops` above zero for longer than `LOCALAI_STOP_WINDOW`: a node does not say that a",
    "  process ended.",
    "- `increase(localai_lease_losses_total[10m])` above zero: a control process was killed, paused, or cut off from",
    "  the database.",
    "- `localai_quarantines`, when there is any: a model does not load on a node, and nothing tries it there again;",
    "  [what to do](../guides/failing-models.md).",
    "- `localai_queue_depth` of a node that does not fall: its agent does not take orders.",
    "- `localai_source_up` of zero.",
)


if __name__ == "__main__":
    sys.exit(page_command("localai.metrics", metrics_page))
