"""PortForwardingExtension: forwards ports of floating IPs to ports of inside addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_interface
from typing import ClassVar

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.model import l3_extensions
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.resource import Resource
from netfw.model.values.ids import FloatingIpId, RouterId
from netfw.model.values.port_range import PortRange
from netfw_drivers.l3_extensions.optionless import OptionlessExtension


class PortForwardingExtension(OptionlessExtension):
    """Translates ports of floating IPs that stand for no port of their own.

    The address of such a floating IP is on the device of the gateway while ports of it are
    forwarded.  Replies, and connections from inside to the floating IP (hairpin), are translated by
    the router.
    """

    NAME: ClassVar[str] = l3_extensions.PORT_FORWARDING

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        full = value.state.full
        has_gateway = full is not None and full.gateway is not None
        if not has_gateway and value.state.central is None:
            return None  # another host has the part with the gateway
        forwarded = tuple(_forwarded_ports(value.related))
        if not forwarded:
            return None
        addresses = dict.fromkeys(floating.address for floating, _ in forwarded)
        return RouterContribution(
            owner=grant.owner,
            rules=tuple(make_rule(*each) for each in forwarded),
            addresses=tuple(map(ip_interface, addresses)),
        )


def make_rule(floating: FloatingIp, forwarding: PortForwarding) -> RouterRule:
    """Return the rule of one port forwarding, as ``iptables-save`` prints it."""
    protocol, external = forwarding.protocol.value, forwarding.external_ports
    ports = str(external) if len(external) > 1 else str(external.first)
    match = ("-d", f"{floating.address}/32", "-p", protocol, "-m", protocol, "--dport", ports)
    comment = ("-m", "comment", "--comment", f"pf-{forwarding.id}")
    target = ("-j", "DNAT", "--to-destination", _destination(forwarding))
    return RouterRule(
        table=RuleTable.NAT,
        chain=RuleChain.PREROUTING,
        words=(*match, *comment, *target),
        floating_ip=floating.id,
    )


def _forwarded_ports(
    related: Iterable[Resource],
) -> Iterator[tuple[FloatingIp, PortForwarding]]:
    """Yield the port forwardings with their floating IPs.

    A floating IP that stands for a port as a whole forwards no single ports, and port forwardings
    are of IPv4.
    """
    resources = tuple(related)
    floating_ips: dict[FloatingIpId, FloatingIp] = {
        each.id: each
        for each in resources
        if isinstance(each, FloatingIp) and each.port_id is None and each.address.version == 4
    }
    for each in resources:
        if isinstance(each, PortForwarding) and each.floating_ip_id in floating_ips:
            yield floating_ips[each.floating_ip_id], each


def _destination(forwarding: PortForwarding) -> str:
    """Return the inside address, with its ports unless they are the same as outside.

    A range is mapped by the offset of a port to the first external one.
    """
    address, external = forwarding.internal_address, forwarding.external_ports
    internal: PortRange = forwarding.internal_ports
    if internal == external:
        return str(address)
    if len(internal) == 1:
        return f"{address}:{internal.first}"
    return f"{address}:{internal.first}-{internal.last}/{external.first}"
