"""Strategies for networks, segments, subnets, ports and trunks."""

from __future__ import annotations

import ipaddress
import string

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import (
    AddressPair,
    AllocationPool,
    Binding,
    DhcpOption,
    DnsAssignment,
    Document,
    FixedIp,
    IpAddress,
    IpAllocation,
    IpNetwork,
    Ipv6Mode,
    Network,
    NetworkType,
    Port,
    Provider,
    Segment,
    Status,
    Subnet,
    SubPort,
    Trunk,
    VhostUserMode,
    VifDetails,
    VifType,
    VnicType,
)
from netfw.model.segment import SEGMENTATION_IDS, VLAN_IDS
from netfw.testing.strategies.basic import (
    addresses,
    booleans,
    dns_names,
    documents,
    hosts,
    ids,
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


@st.composite
def providers(draw: st.DrawFn) -> Provider:
    """How a segment is carried, its id allocated or not."""
    kind = draw(st.sampled_from(NetworkType))
    numbers = SEGMENTATION_IDS.get(kind)
    number = None if numbers is None else draw(maybe(st.integers(numbers[0], numbers[-1])))
    physical = None
    if kind is NetworkType.FLAT or (kind is NetworkType.VLAN and number is not None):
        physical = draw(hosts())
    return Provider(network_type=kind, physical_network=physical, segmentation_id=number)


def dhcp_options() -> SearchStrategy[DhcpOption]:
    """Options by name or number, with a tag or without."""
    name = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)
    tagged = name.map(lambda text: f"tag:!ipxe,{text}")
    return st.builds(
        DhcpOption, name=name | tagged, value=texts(), ip_version=st.sampled_from([4, 6])
    )


def segments() -> SearchStrategy[Segment]:
    """Segments of every type."""
    return st.builds(
        Segment, id=ids, network_id=ids, name=texts(), provider=providers(), **standard()
    )


def networks() -> SearchStrategy[Network]:
    """Networks of no, one or several segments."""
    return st.builds(
        Network,
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
        dhcp_options=several(dhcp_options()),
        availability_zone_hints=several(hosts()),
        availability_zones=several(hosts()),
        ipv4_address_scope=maybe(ids),
        ipv6_address_scope=maybe(ids),
        **named(),
    )


@st.composite
def subnets(draw: st.DrawFn) -> Subnet:
    """Subnets of either family, with a gateway inside, outside or none, and pools around it."""
    version = draw(st.sampled_from([4, 6]))
    mode = draw(maybe(st.sampled_from(Ipv6Mode))) if version == 6 else None
    base = draw(addresses(version))
    length = 64 if mode else draw(st.integers(0, base.max_prefixlen))
    cidr = ipaddress.ip_network((base, length), False)
    pools = draw(_pools(cidr))
    gateway = draw(maybe(addresses(version) | _within(cidr)))
    if gateway is not None and any(gateway in pool for pool in pools):
        gateway = None
    modes = draw(st.sampled_from([(mode, mode), (mode, None), (None, mode)]))
    common = {name: draw(values) for name, values in named().items()}
    return Subnet(
        id=draw(ids),
        network_id=draw(ids),
        cidr=cidr,
        gateway=gateway,
        allocation_pools=pools,
        dns_nameservers=draw(several(addresses(version))),
        host_routes=draw(several(routes(version))),
        enable_dhcp=draw(booleans),
        ipv6_ra_mode=modes[0],
        ipv6_address_mode=modes[1],
        segment_id=draw(maybe(ids)),
        subnet_pool_id=draw(maybe(ids)),
        service_types=draw(several(tokens())),
        dns_publish_fixed_ip=draw(booleans),
        **common,
    )


def _within(cidr: IpNetwork) -> SearchStrategy[IpAddress]:
    first, last = int(cidr.network_address), int(cidr.broadcast_address)
    kind = type(cidr.network_address)
    return st.integers(first, last).map(kind)


@st.composite
def _pools(draw: st.DrawFn, cidr: IpNetwork) -> tuple[AllocationPool, ...]:
    ends = sorted(draw(st.lists(_within(cidr), max_size=6, unique=True)), key=int)
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return tuple(AllocationPool(start=start, end=end) for start, end in pairs)


def vif_details() -> SearchStrategy[VifDetails]:
    """Typed details, and some that only a vendor knows."""
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
            lambda document: Document({f"x-{k}": v for k, v in document.content().items()})
        ),
    )


def bindings() -> SearchStrategy[Binding]:
    """Bound or unbound."""
    return st.builds(
        Binding,
        host=st.just("") | hosts(),
        vnic_type=st.sampled_from(VnicType),
        vif_type=st.sampled_from([member.value for member in VifType]),
        vif_details=vif_details(),
        profile=documents(),
    )


def fixed_ips() -> SearchStrategy[FixedIp]:
    """An address of either family and some subnet's id."""
    return st.builds(FixedIp, subnet_id=ids, address=addresses())


def address_pairs() -> SearchStrategy[AddressPair]:
    """Addresses and prefixes, with a MAC or without."""
    return st.builds(AddressPair, prefix=prefixes(), mac=maybe(macs()))


@st.composite
def ports(draw: st.DrawFn) -> Port:
    """Ports of every sort; without port security they have neither groups nor pairs."""
    secure = draw(booleans)
    options = draw(several(dhcp_options()))
    assignment = st.builds(
        DnsAssignment, address=addresses(), hostname=dns_names(), fqdn=dns_names()
    )
    common = {name: draw(values) for name, values in named().items()}
    return Port(
        id=draw(ids),
        network_id=draw(ids),
        mac=draw(macs()),
        fixed_ips=draw(several(fixed_ips())),
        allowed_address_pairs=draw(several(address_pairs())) if secure else (),
        dhcp_options={(o.name, o.ip_version): o for o in options}.values(),
        security_groups=draw(st.frozensets(ids, max_size=3)) if secure else (),
        port_security=secure,
        binding=draw(bindings()),
        device_id=draw(tokens()),
        device_owner=draw(tokens()),
        admin_up=draw(booleans),
        status=draw(st.sampled_from(Status)),
        dns_name=draw(dns_names()),
        dns_domain=draw(dns_names()),
        dns_assignment=draw(several(assignment)),
        qos_policy_id=draw(maybe(ids)),
        qos_network_policy_id=draw(maybe(ids)),
        ip_allocation=draw(st.sampled_from(IpAllocation)),
        propagate_uplink_status=draw(booleans),
        **common,
    )


@st.composite
def trunks(draw: st.DrawFn) -> Trunk:
    """Trunks whose sub-ports differ in port and VLAN."""
    numbers = draw(several(st.integers(VLAN_IDS[0], VLAN_IDS[-1])))
    parent, *children = draw(
        st.lists(ids, unique=True, min_size=len(numbers) + 1, max_size=len(numbers) + 1)
    )
    common = {name: draw(values) for name, values in named().items()}
    return Trunk(
        id=draw(ids),
        port_id=parent,
        sub_ports=(
            SubPort(port_id=child, segmentation_id=number)
            for child, number in zip(children, numbers, strict=True)
        ),
        admin_up=draw(booleans),
        status=draw(st.sampled_from(Status)),
        **common,
    )
