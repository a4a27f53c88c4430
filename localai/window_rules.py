"""Which windows must stay below which: a set of settings that breaks one of these is refused at start.

Names are those of the fields of `Settings`. ``docs/reference/windows.md`` says what each window is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Clocks of two machines drift apart by less than this share of a duration.
CLOCK_RATE_ERROR = 0.05


@dataclass(frozen=True, slots=True)
class Inequality:
    """A sum of windows that must stay below another window: the fields of the sum, each with its factor."""

    parts: Mapping[str, float]
    below: str
    why: str
    or_equal: bool = False


#: What the job protocol asks of its windows (section 9). Fields of the sum that are no setting follow from one that is.
INEQUALITIES = (
    Inequality(
        {"operation_report_interval_s": 6},
        "worker_kill_ttl_s",
        "six reports must fit into the kill TTL",
        or_equal=True,
    ),
    Inequality(
        {"adopt_window_s": 1, "operation_report_interval_s": 1, "job_sweep_interval_s": 1},
        "worker_kill_ttl_s",
        "report + adopt window + one sweep must be below the kill TTL",
    ),
    Inequality(
        {"job_lease_ttl_s": 1, "adopt_window_s": 1, "operation_report_interval_s": 1},
        "worker_kill_ttl_s",
        "lease + adopt window + report must be below the kill TTL",
    ),
    Inequality(
        {
            "worker_kill_ttl_s": 1 + CLOCK_RATE_ERROR,
            "watchdog_interval_s": 1 + CLOCK_RATE_ERROR,
            "stop_grace_s": 1 + CLOCK_RATE_ERROR,
        },
        "stop_window_s",
        "kill TTL + watchdog + stop grace + 5 % must be below the stop window",
    ),
    Inequality(
        {"stop_window_s": 1},
        "legacy_window_s",
        "a node that confirms nothing is waited for as long as one that is silent, or longer",
        or_equal=True,
    ),
    Inequality(
        {"waiter_poll_interval_s": 2},
        "report_window_s",
        "two polls of a waiter must fit into the report window",
    ),
    Inequality(
        {"frontend_lease_ttl_s": 1},
        "port_quarantine_s",
        "a port must rest for longer than a frontend's lease",
    ),
    Inequality(
        {"heartbeat_checkpoint_s": 1},
        "stale_node_threshold_s",
        "a node must be able to write a heartbeat before it counts as stale",
    ),
    Inequality(
        {"operation_report_interval_s": 2},
        "staging_stall_window_s",
        "two reports must fit into the stall window",
        or_equal=True,
    ),
    Inequality(
        {"process_stall_window_s": 1},
        "grpc_keepalive_timeout_s",
        "a pause that a worker takes for busy must not cost a connection",
    ),
    Inequality(
        {"staging_stall_window_s": 1},
        "staging_max_duration_s",
        "the cap of a load must leave room for one stall window",
    ),
)
