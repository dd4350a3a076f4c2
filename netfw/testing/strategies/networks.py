"""Strategies for networks, segments, subnets, ports and trunks."""

from __future__ import annotations

import ipaddress
import re
import string
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import (
    AddressPair,
    AllocationPool,
    Binding,
    DhcpOption,
    DnsAssignment,
    FixedIp,
    IpAddress,
    IpAllocation,
    IpNetwork,
    Ipv6Mode,
    JsonDocument,
    Network,
    NetworkType,
    Port,
    PortId,
    Provider,
    Route,
    Segment,
    Status,
    Subnet,
    SubPort,
    Trunk,
    TrunkMembership,
    VhostUserMode,
    VifDetails,
    VifType,
    VnicType,
)
from netfw.model.local_ip import LocalIpAssociation, LocalIpMode
from netfw.model.segment import VLAN_IDS, WELL_KNOWN_TYPES, segmentation_ids
from netfw.testing.strategies.basic import (
    addresses,
    booleans,
    dns_names,
    documents,
    hosts,
    ids,
    instances,
    macs,
    maybe,
    named,
    prefixes,
    routes,
    several,
    standard,
    texts,
    tokens,
)


@cache
@st.composite
def providers(draw: st.DrawFn) -> Provider:
    """Draw the encapsulation of a segment, its id allocated or not."""
    kind = draw(st.sampled_from((*WELL_KNOWN_TYPES, NetworkType("acme-fabric"))))
    numbers = segmentation_ids(kind)
    number = None if numbers is None else draw(maybe(st.integers(numbers[0], numbers[-1])))
    physical = None
    if kind is NetworkType.FLAT or (kind is NetworkType.VLAN and number is not None):
        physical = draw(hosts())
    return Provider(network_type=kind, physical_network=physical, segmentation_id=number)


@cache
def dhcp_options() -> SearchStrategy[DhcpOption]:
    """Draw options by name or number, with or without a tag."""
    name = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)
    tagged = name.map(lambda text: f"tag:!ipxe,{text}")
    value = texts().map(lambda text: re.sub(r'["\\#]', ",", text).strip())
    return st.builds(
        DhcpOption, name=name | tagged, value=value, ip_version=st.sampled_from([4, 6])
    )


def _option_lists() -> SearchStrategy[tuple[DhcpOption, ...]]:
    named = st.lists(dhcp_options(), max_size=3, unique_by=lambda o: (o.name, o.ip_version))
    return named.map(tuple)


@cache
def segments() -> SearchStrategy[Segment]:
    """Draw segments of every type."""
    return instances(
        Segment, standard(), id=ids, network_id=ids, name=texts(), provider=providers()
    )


@cache
def networks() -> SearchStrategy[Network]:
    """Draw networks of no, one or several segments."""
    return instances(
        Network,
        named(),
        id=ids,
        segments=several(providers()),
        subnet_ids=st.frozensets(ids, max_size=3),
        mtu=st.just(0) | st.integers(68, 65535),
        admin_up=booleans,
        status=st.sampled_from(Status),
        shared=booleans,
        external=booleans,
        is_default=booleans,
        port_security=booleans,
        vlan_transparent=maybe(booleans),
        dns_domain=dns_names(),
        qos_policy_id=maybe(ids),
        dhcp_options=_option_lists(),
        availability_zone_hints=several(hosts()),
        availability_zones=several(hosts()),
        ipv4_address_scope=maybe(ids),
        ipv6_address_scope=maybe(ids),
    )


@cache
def subnets() -> SearchStrategy[Subnet]:
    """Draw subnets of either family, with a gateway inside, outside or none, and pools."""
    return instances(
        Subnet,
        _blocks(4) | _blocks(6),
        named(),
        id=ids,
        network_id=ids,
        enable_dhcp=booleans,
        segment_id=maybe(ids),
        subnet_pool_id=maybe(ids),
        service_types=several(tokens()),
        dns_publish_fixed_ip=booleans,
    )


@cache
@st.composite
def _blocks(draw: st.DrawFn, version: int) -> dict[str, Any]:
    """Draw the fields of a subnet that depend on its block of addresses."""
    mode = draw(_MODES) if version == 6 else None
    base = draw(addresses(version))
    cidr = ipaddress.ip_network((base, 64 if mode else draw(_lengths(version))), False)
    pools = draw(_pools(cidr))
    gateway = draw(st.none() | addresses(version) | _within(cidr))
    taken = gateway is not None and any(gateway in pool for pool in pools)
    return {
        "cidr": cidr,
        "gateway": None if taken else gateway,
        "allocation_pools": pools,
        "dns_nameservers": draw(_servers(version)),
        "host_routes": draw(_host_routes(version)),
        "ipv6_ra_mode": mode if draw(booleans) else None,
        "ipv6_address_mode": mode,
    }


_MODES = maybe(st.sampled_from(Ipv6Mode))


@cache
def _lengths(version: int) -> SearchStrategy[int]:
    return st.integers(0, 32 if version == 4 else 128)


@cache
def _servers(version: int) -> SearchStrategy[tuple[IpAddress, ...]]:
    return several(addresses(version))


@cache
def _host_routes(version: int) -> SearchStrategy[tuple[Route, ...]]:
    return several(routes(version))


def _within(cidr: IpNetwork) -> SearchStrategy[IpAddress]:
    first, last = int(cidr.network_address), int(cidr.broadcast_address)
    kind = type(cidr.network_address)
    return st.integers(first, last).map(kind)


@st.composite
def _pools(draw: st.DrawFn, cidr: IpNetwork) -> tuple[AllocationPool, ...]:
    ends = sorted(draw(st.lists(_within(cidr), max_size=6, unique=True)), key=int)
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return tuple(AllocationPool(start=start, end=end) for start, end in pairs)


@cache
def vif_details() -> SearchStrategy[VifDetails]:
    """Draw typed details, and some that are specific to a vendor."""
    return st.builds(
        VifDetails,
        port_filter=maybe(booleans),
        ovs_hybrid_plug=maybe(booleans),
        connectivity=maybe(tokens()),
        bridge_name=maybe(st.just("br-int")),
        datapath_type=maybe(st.sampled_from(["system", "netdev"])),
        vhostuser_socket=maybe(ids.map(lambda name: f"/run/vhu/{name}")),
        vhostuser_mode=maybe(st.sampled_from(VhostUserMode)),
        vhostuser_ovs_plug=maybe(booleans),
        vlan=maybe(st.integers(0, 4094)),
        physical_network=maybe(hosts()),
        other=documents().map(
            lambda document: JsonDocument({f"x-{k}": v for k, v in document.content().items()})
        ),
    )


@cache
def bindings() -> SearchStrategy[Binding]:
    """Draw bindings: unbound, to one host, to several."""
    return st.builds(
        Binding,
        host=st.just("") | hosts(),
        hosts=st.frozensets(hosts(), max_size=3),
        prepared_hosts=st.frozensets(hosts(), max_size=2),
        vnic_type=st.sampled_from(VnicType),
        vif_type=st.sampled_from([member.value for member in VifType]),
        vif_details=vif_details(),
        profile=documents(),
    )


@cache
def fixed_ips() -> SearchStrategy[FixedIp]:
    """Draw an address of either family and a subnet's id."""
    return st.builds(FixedIp, subnet_id=ids, address=addresses())


@cache
def address_pairs() -> SearchStrategy[AddressPair]:
    """Draw addresses and prefixes, with or without a MAC."""
    return st.builds(AddressPair, prefix=prefixes(), mac=maybe(macs()))


@cache
def ports() -> SearchStrategy[Port]:
    """Draw ports of every sort; without port security they have neither groups nor pairs."""
    unsecured = st.just({"port_security": False})
    secured = st.fixed_dictionaries(
        {
            "port_security": st.just(True),
            "security_groups": st.frozensets(ids, max_size=3),
            "allowed_address_pairs": several(address_pairs()),
        }
    )
    assignment = st.builds(
        DnsAssignment, address=addresses(), hostname=dns_names(), fqdn=dns_names()
    )
    return instances(
        Port,
        unsecured | secured,
        named(),
        id=ids,
        network_id=ids,
        mac=macs(),
        fixed_ips=several(fixed_ips()),
        dhcp_options=_option_lists(),
        binding=bindings(),
        device_id=tokens(),
        device_owner=tokens(),
        admin_up=booleans,
        status=st.sampled_from(Status),
        dns_name=dns_names(),
        dns_domain=dns_names(),
        dns_assignment=several(assignment),
        qos_policy_id=maybe(ids),
        qos_network_policy_id=maybe(ids),
        ip_allocation=st.sampled_from(IpAllocation),
        propagate_uplink_status=booleans,
        trunk=maybe(trunk_memberships()),
        local_ips=st.lists(local_ips(), max_size=2, unique_by=lambda each: each.local_ip_id),
    )


@cache
def local_ips() -> SearchStrategy[LocalIpAssociation]:
    """Draw associations of local IPs."""
    return st.builds(
        LocalIpAssociation,
        local_ip_id=ids,
        address=st.ip_addresses(v=4),
        mac=macs(),
        fixed_ip=st.ip_addresses(v=4),
        mode=st.sampled_from(LocalIpMode),
    )


@cache
def trunk_memberships() -> SearchStrategy[TrunkMembership]:
    """Draw the memberships of parents and of sub-ports."""
    tags = st.integers(VLAN_IDS[0], VLAN_IDS[-1])
    sub_port = st.builds(TrunkMembership, trunk_id=ids, parent_id=ids, segmentation_id=tags)
    return st.builds(TrunkMembership, trunk_id=ids) | sub_port


@cache
def trunks() -> SearchStrategy[Trunk]:
    """Draw trunks whose sub-ports differ in port and VLAN."""
    sub_port = st.builds(
        SubPort, port_id=ids, segmentation_id=st.integers(VLAN_IDS[0], VLAN_IDS[-1])
    )
    sub_ports = st.lists(
        sub_port, max_size=3, unique_by=(lambda s: s.port_id, lambda s: s.segmentation_id)
    )
    return instances(
        _trunk,
        named(),
        id=ids,
        port_id=ids,
        sub_ports=sub_ports,
        admin_up=booleans,
        status=st.sampled_from(Status),
    )


def _trunk(port_id: PortId, sub_ports: list[SubPort], **fields: Any) -> Trunk:
    children = (child for child in sub_ports if child.port_id != port_id)
    return Trunk(port_id=port_id, sub_ports=children, **fields)
