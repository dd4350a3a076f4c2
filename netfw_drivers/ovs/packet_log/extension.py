"""PacketLogExtension: logs the decisions of a firewall that filters inside the switch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw import flows as of
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.firewall import FirewallCapability, FirewallDriver
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.events import Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.errors import ConfigError
from netfw.model.packet_log import EXTENSION, PacketLog
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.common.options import SHARED_OPTIONS, openflow_directory
from netfw_drivers.ovs.packet_log.plan.flows import TABLES, port_flows
from netfw_drivers.ovs.packet_log.writer import LogFile, PacketLogWriter


class PacketLogExtension(L2Extension):
    """Logs packets of the ports that packet logs are for.

    A flow of the port sends the packet to the agent, together with the rules of the port's groups;
    the agent writes one line with the port, the groups, and the rule that allows it or the reason
    why none does.  A meter limits the packets of each port.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        *SHARED_OPTIONS,
        cfg.IntOpt(
            "rate",
            default=10,
            min=1,
            max=1000,
            help="Packets of each port that are logged in a second.",
        ),
        cfg.IntOpt(
            "burst",
            default=25,
            min=1,
            max=1000,
            help="Packets of each port that are logged at once.",
        ),
        cfg.StrOpt(
            "path",
            default="",
            help="File with one line for each logged packet.  Empty: the agent's own log.",
        ),
        cfg.IntOpt(
            "file_size",
            default=100 * 1024 * 1024,
            min=1024,
            help="Octets after which a new file is begun.",
        ),
        cfg.IntOpt(
            "file_count",
            default=5,
            min=1,
            help="Older files that are kept; the oldest one is deleted.",
        ),
    )

    def __init__(
        self, target: str, timeout: float, file: LogFile | None, *, rate: int, burst: int
    ) -> None:
        self._target, self._timeout, self._file = target, timeout, file
        self._rate, self._burst = rate, burst
        self._writer: PacketLogWriter | None = None

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        target = f"unix:{openflow_directory(options)}/{options['integration_bridge']}.mgmt"
        if FirewallCapability.IN_SWITCH not in _firewall_capabilities(host):
            raise ConfigError(
                f"the extension {EXTENSION} reads what a firewall inside the switch decides: set "
                "firewall_driver = openflow, or leave the extension out"
            )
        path, size, count = options["path"], options["file_size"], options["file_count"]
        file = LogFile(path, size, count) if path else None
        rate, burst = options["rate"], options["burst"]
        return cls(target, options["ovsdb_timeout"], file, rate=rate, burst=burst)

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(EXTENSION)

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner=EXTENSION, tables=TABLES, meters=1)

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        ofport, related = value.device.ofport, value.related
        logs = [each for each in related if isinstance(each, PacketLog) and each.is_for(value.port)]
        if not logs or ofport is None:
            return None
        rules = (each for each in related if isinstance(each, SecurityGroupRule))
        limit = of.PacketLimit(grant.meters[0] + ofport, self._rate, self._burst)
        flows = port_flows(value.port, ofport, logs, rules, limit=limit, grant=grant)
        return SwitchContribution(owner=grant.owner, flows=tuple(flows))

    def watch(self, sink: Sink) -> None:
        """Start to write; nothing is announced, since flows follow from the views alone."""
        if self._writer is None:
            self._writer = PacketLogWriter(self._target, self._file, timeout=self._timeout)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _firewall_capabilities(host: HostResources) -> Collection[Capability]:
    try:
        return host.driver(FirewallDriver).describe().capabilities
    except ConfigError:
        return ()
