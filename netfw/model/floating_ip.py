"""Floating IPs, and the ports that are forwarded through them."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import field, frozen
from attrs.validators import optional

from netfw.model.values.address import IpAddress, as_address, maybe_address
from netfw.model.values.common_fields import Owned, Status
from netfw.model.values.ids import (
    FloatingIpId,
    NetworkId,
    PortForwardingId,
    PortId,
    QosPolicyId,
    RouterId,
)
from netfw.model.values.port_range import PortRange
from netfw.model.values.text_validation import check_dns_name, check_host
from netfw.model.values.validation import Problem, checked_by


@frozen(kw_only=True)
class FloatingIp(Owned):
    """An outside address that stands for a port's address, or for forwarded ports."""

    id: FloatingIpId
    network_id: NetworkId
    """The external network the address is on."""
    address: IpAddress = field(converter=as_address)
    port_id: PortId | None = None
    fixed_address: IpAddress | None = field(default=None, converter=maybe_address)
    router_id: RouterId | None = None
    host: str | None = field(default=None, validator=optional(checked_by(check_host)))
    """The host that translates it, for a distributed router; ``None``: a host that the router is
    scheduled to."""
    status: Status = Status.DOWN
    qos_policy_id: QosPolicyId | None = None
    dns_name: str = field(default="", validator=checked_by(check_dns_name))
    dns_domain: str = field(default="", validator=checked_by(check_dns_name))

    def _problems(self) -> Iterator[Problem]:
        fixed = self.fixed_address
        if fixed is not None and self.port_id is None:
            yield "fixed_address", "belongs to no port; name the port too"
        if fixed is not None and fixed.version != self.address.version:
            yield "fixed_address", f"{fixed} is of another family than {self.address}"


class ForwardedProtocol(enum.StrEnum):
    """The protocols that can be forwarded by port."""

    TCP = "tcp"
    UDP = "udp"
    SCTP = "sctp"


@frozen(kw_only=True)
class PortForwarding(Owned):
    """Ports of a floating IP that lead to ports of an inside address."""

    id: PortForwardingId
    floating_ip_id: FloatingIpId
    protocol: ForwardedProtocol
    external_ports: PortRange
    internal_ports: PortRange
    """As many as the external ones, or one for all of them."""
    internal_port_id: PortId
    internal_address: IpAddress = field(converter=as_address)

    def _problems(self) -> Iterator[Problem]:
        if self.internal_address.version != 4:
            yield "internal_address", f"{self.internal_address} is not an IPv4 address"
        if len(self.internal_ports) not in (1, len(self.external_ports)):
            yield (
                "internal_ports",
                f"{self.internal_ports} is neither one port nor as many as {self.external_ports}",
            )
