"""Options that every agent has."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "agent"

COMMON = (
    cfg.StrOpt(
        "state_source",
        default="file",
        help="Source of this host's desired state, by its name: server, or a file.  Its own "
        "options are in the group of that name.",
    ),
    cfg.StrOpt(
        "transport",
        default="socket",
        help="What carries messages between agent and server, where state_source is server, by "
        "the name of the transport; its own options are in the group of that name.",
    ),
    cfg.FloatOpt(
        "report_interval",
        default=30.0,
        min=1.0,
        mutable=True,
        help="Seconds between two state reports, which are also the agent's heartbeat.",
    ),
    cfg.BoolOpt(
        "log_agent_heartbeats",
        default=False,
        mutable=True,
        help="Log each state report that the source has accepted, with its counts.",
    ),
    cfg.FloatOpt(
        "refresh_interval",
        default=30.0,
        min=0.0,
        mutable=True,
        help="Seconds after which the source is polled for changes although it sent no "
        "notification: notifications can be lost.  0: never.",
    ),
    cfg.FloatOpt(
        "audit_interval",
        default=600.0,
        min=0.0,
        mutable=True,
        help="Seconds between two audits, which read the machine in full and repair what no "
        "change feed announced.  0: never.",
    ),
    cfg.FloatOpt(
        "retry_interval",
        default=1.0,
        min=0.01,
        help="Seconds after which a failed operation is retried; each pause is twice as long as "
        "the one before.",
    ),
    cfg.FloatOpt(
        "retry_interval_max",
        default=60.0,
        min=0.01,
        help="Seconds that such a pause takes at most.  Retries go on for ever.",
    ),
    cfg.StrOpt(
        "status_file",
        sample_default="STATE_PATH/status/PROGRAM.json",
        help="File that holds readiness, lag, counts and what is degraded, as JSON, for monitors.",
    ),
    cfg.StrOpt(
        "metrics_file",
        help="File that holds the same as metrics of Prometheus, for the textfile collector of "
        "node_exporter; its name ends in .prom.  It is written with the status file.",
    ),
    cfg.StrOpt(
        "metrics_bind",
        default="",
        help="Address and port on which /metrics, /healthz and /readyz are served by HTTP, such as "
        "127.0.0.1:9697 or [::1]:9697; a port alone is one of 127.0.0.1.  Clients are not "
        "authenticated.  Empty: nowhere.",
    ),
)
