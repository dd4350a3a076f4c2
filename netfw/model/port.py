"""Ports: attachment points of a network."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from attrs import field, frozen

from netfw.model.binding import Binding
from netfw.model.local_ip import MAX_PER_PORT, LocalIpAssociation
from netfw.model.trunk import TrunkMembership
from netfw.model.values.address import (
    NO_MAC,
    IpAddress,
    IpNetwork,
    Mac,
    as_address,
    as_network,
    maybe_mac,
)
from netfw.model.values.common_fields import Named, Status
from netfw.model.values.dhcp_option import DhcpOption, repeated_options
from netfw.model.values.ids import NetworkId, PortId, QosPolicyId, SecurityGroupId, SubnetId
from netfw.model.values.text_validation import check_dns_name, check_token
from netfw.model.values.validation import Problem, checked_by, repeated


class IpAllocation(enum.StrEnum):
    """The time at which a port gets its addresses."""

    IMMEDIATE = "immediate"
    DEFERRED = "deferred"
    NONE = "none"


@frozen(kw_only=True)
class FixedIp:
    """One address of a port, and the subnet it came from."""

    subnet_id: SubnetId
    address: IpAddress = field(converter=as_address)


@frozen(kw_only=True)
class AddressPair:
    """A source that the port may use beside its own addresses; no MAC: the port's."""

    prefix: IpNetwork = field(converter=as_network)
    mac: Mac | None = field(default=None, converter=maybe_mac)


@frozen(kw_only=True)
class DnsAssignment:
    """The DNS name of one address of a port."""

    address: IpAddress = field(converter=as_address)
    hostname: str = field(validator=checked_by(check_dns_name))
    fqdn: str = field(validator=checked_by(check_dns_name))


def _set_of_groups(values: Iterable[SecurityGroupId]) -> frozenset[SecurityGroupId]:
    return frozenset(values)


@frozen(kw_only=True)
class Port(Named):
    """An attachment point of a network, as the server stores it and every agent reads it."""

    id: PortId
    network_id: NetworkId
    mac: Mac = field(converter=Mac)
    fixed_ips: tuple[FixedIp, ...] = field(default=(), converter=tuple[FixedIp, ...])
    allowed_address_pairs: tuple[AddressPair, ...] = field(
        default=(), converter=tuple[AddressPair, ...]
    )
    dhcp_options: tuple[DhcpOption, ...] = field(default=(), converter=tuple[DhcpOption, ...])
    security_groups: frozenset[SecurityGroupId] = field(
        default=frozenset(), converter=_set_of_groups
    )
    port_security: bool = True
    binding: Binding = field(factory=Binding)
    device_id: str = field(default="", validator=checked_by(check_token))
    device_owner: str = field(default="", validator=checked_by(check_token))
    admin_up: bool = True
    status: Status = Status.DOWN
    dns_name: str = field(default="", validator=checked_by(check_dns_name))
    dns_domain: str = field(default="", validator=checked_by(check_dns_name))
    dns_assignment: tuple[DnsAssignment, ...] = field(
        default=(), converter=tuple[DnsAssignment, ...]
    )
    qos_policy_id: QosPolicyId | None = None
    qos_network_policy_id: QosPolicyId | None = None
    """The network's policy, which applies if the port has none of its own."""
    ip_allocation: IpAllocation = IpAllocation.IMMEDIATE
    propagate_uplink_status: bool = False
    trunk: TrunkMembership | None = None
    """The trunk that it is the parent or a sub-port of; only servers and agents exchange it."""
    local_ips: tuple[LocalIpAssociation, ...] = field(
        default=(), converter=tuple[LocalIpAssociation, ...]
    )
    """The local IPs that lead to it; only servers and agents exchange them."""

    def _problems(self) -> Iterator[Problem]:
        if self.mac == NO_MAC:
            yield "mac", "is the all-zero address"
        for at in repeated(self.fixed_ips):
            yield f"fixed_ips[{at}]", "is there twice"
        for at in repeated(self.allowed_address_pairs):
            yield f"allowed_address_pairs[{at}]", "is there twice"
        for at in repeated(tuple(each.local_ip_id for each in self.local_ips)):
            yield f"local_ips[{at}]", "is there twice"
        if len(self.local_ips) > MAX_PER_PORT:
            yield "local_ips", f"are {len(self.local_ips)}, more than {MAX_PER_PORT}"
        yield from repeated_options(self.dhcp_options)
        if not self.port_security and self.allowed_address_pairs:
            yield "allowed_address_pairs", "mean nothing while port security is off"
        if not self.port_security and self.security_groups:
            yield "security_groups", "mean nothing while port security is off"
