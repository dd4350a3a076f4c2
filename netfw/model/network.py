"""Networks: broadcast domains of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import field, frozen

from netfw.model.segment import Provider
from netfw.model.values.common_fields import Named, Status
from netfw.model.values.dhcp_option import DhcpOption, repeated_options
from netfw.model.values.ids import AddressScopeId, NetworkId, QosPolicyId, SubnetId
from netfw.model.values.text_validation import check_dns_name, check_host
from netfw.model.values.validation import Problem, checked_by, each, outside

MTUS = range(68, 65536)
"""From the least an IPv4 host must accept to the largest IP packet; 0 is not decided yet."""


def _set_of_subnets(values: Iterable[SubnetId]) -> frozenset[SubnetId]:
    return frozenset(values)


@frozen(kw_only=True)
class Network(Named):
    """A broadcast domain; its segments define how it reaches the hosts."""

    id: NetworkId
    segments: tuple[Provider, ...] = field(default=(), converter=tuple[Provider, ...])
    subnet_ids: frozenset[SubnetId] = field(default=frozenset(), converter=_set_of_subnets)
    mtu: int = 1500
    admin_up: bool = True
    status: Status = Status.ACTIVE
    shared: bool = False
    external: bool = False
    is_default: bool = False
    port_security: bool = True
    """The value that new ports of the network inherit."""
    vlan_transparent: bool | None = None
    dns_domain: str = field(default="", validator=checked_by(check_dns_name))
    qos_policy_id: QosPolicyId | None = None
    dhcp_options: tuple[DhcpOption, ...] = field(default=(), converter=tuple[DhcpOption, ...])
    """For every port of the network; a port's own option of the same name wins."""
    availability_zone_hints: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_host)
    )
    availability_zones: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_host)
    )
    ipv4_address_scope: AddressScopeId | None = None
    ipv6_address_scope: AddressScopeId | None = None

    def _problems(self) -> Iterator[Problem]:
        if self.mtu and self.mtu not in MTUS:
            yield "mtu", outside(self.mtu, MTUS)
        yield from repeated_options(self.dhcp_options)
