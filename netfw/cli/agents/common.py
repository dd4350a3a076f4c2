"""Components that all agents share: the state source and the intervals of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from attrs import frozen

from netfw.agents.common.loop import Intervals
from netfw.agents.common.loop_observer import LoopObserver
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.agents.common.status import Publish
from netfw.cli.runtime.driver_options import Kinds, make
from netfw.conf.agent import GROUP
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.state_source import StateSource
from netfw.drivers.transport import Transport
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

SOURCE_KINDS: Final[Kinds] = {
    (GROUP, "state_source"): StateSource,
    (GROUP, "transport"): Transport,
}


def source_of(conf: ConfigOpts, host: LocalHostResources, stack: ExitStack) -> StateSource:
    """Make the state source that the configuration names; *stack* closes it and its transport.

    :raises ConfigError: the configuration is not possible, or the host lacks something for the
        transport, such as a file of tokens.
    """
    transport = make(conf, Transport, conf.agent.transport, host)
    stack.callback(transport.close)
    if problems := transport.problems():
        raise ConfigError(f"transport {conf.agent.transport}: {'; '.join(problems)}")
    host.add(transport)
    source = make(conf, StateSource, conf.agent.state_source, host)
    stack.callback(source.close)
    return source


def timing_of(conf: ConfigOpts, poll: float = 0.0, *, longest: float | None = None) -> Intervals:
    """Return the intervals that the options state now; the host is scanned every *poll* seconds.

    The back-off of retries ends at *longest* seconds; ``None``: at the value of an option.
    """
    options = conf.agent
    return Intervals(
        report=options.report_interval,
        log_reports=options.log_agent_heartbeats,
        audit=options.audit_interval,
        pull=options.refresh_interval,
        poll=poll,
        pauses=RetryBackoff(
            options.retry_interval, options.retry_interval_max if longest is None else longest
        ),
    )


def status_path_of(conf: ConfigOpts, program: str) -> Path:
    """Return the path of the status file."""
    default = Path(conf.state_path) / "status" / f"{program}.json"
    return Path(conf.agent.status_file or default)


@frozen(kw_only=True)
class MetricsTargets:
    """Where an agent publishes its metrics."""

    file: Path | None = None
    bind: str = ""
    """Address of a port; empty: there is none."""


def metrics_targets_of(conf: ConfigOpts) -> MetricsTargets:
    """Return where the options want metrics."""
    file = Path(conf.agent.metrics_file) if conf.agent.metrics_file else None
    return MetricsTargets(file=file, bind=conf.agent.metrics_bind.strip())


class MetricsExporters:
    """What publishes the metrics of an agent; this one publishes nothing."""

    observer: LoopObserver = LoopObserver()
    targets: Sequence[Publish] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to publish."""
