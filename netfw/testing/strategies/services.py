"""Strategies for routers, floating IPs, filters, QoS policies and agents."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import (
    AddressGroup,
    Agent,
    AnyDirection,
    BandwidthLimit,
    Direction,
    DscpMarking,
    Ethertype,
    ExternalGateway,
    FloatingIp,
    ForwardedProtocol,
    MinimumBandwidth,
    MinimumPacketRate,
    PacketRateLimit,
    PortForwarding,
    PortRange,
    QosPolicy,
    QosRule,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Status,
)
from netfw.model.protocol import ICMP, ICMPV6, NAMES, PORTED
from netfw.model.qos import DSCP_MARKS
from netfw.testing.strategies.basic import (
    addresses,
    booleans,
    dns_names,
    documents,
    hosts,
    ids,
    maybe,
    moments,
    named,
    owned,
    prefixes,
    routes,
    several,
    standard,
    texts,
    tokens,
)
from netfw.testing.strategies.networks import fixed_ips

_RATES = st.integers(0, 2**31 - 1)
_DIRECTIONS = st.sampled_from(Direction)


def external_gateways() -> SearchStrategy[ExternalGateway]:
    """Ways out, with SNAT or without."""
    return st.builds(
        ExternalGateway,
        network_id=ids,
        enable_snat=booleans,
        fixed_ips=several(fixed_ips()),
        qos_policy_id=maybe(ids),
    )


def routers() -> SearchStrategy[Router]:
    """Plain, HA and distributed routers, with a gateway or without."""
    return st.builds(
        Router,
        id=ids,
        gateway=maybe(external_gateways()),
        routes=several(routes()),
        admin_up=booleans,
        status=st.sampled_from(Status),
        ha=booleans,
        distributed=booleans,
        availability_zone_hints=several(hosts()),
        availability_zones=several(hosts()),
        flavor_id=maybe(ids),
        **named(),
    )


@st.composite
def floating_ips(draw: st.DrawFn) -> FloatingIp:
    """Floating IPs that stand for a port's address, and free ones."""
    address = draw(addresses())
    port_id = draw(maybe(ids))
    common = {name: draw(values) for name, values in owned().items()}
    return FloatingIp(
        id=draw(ids),
        network_id=draw(ids),
        address=address,
        port_id=port_id,
        fixed_address=None if port_id is None else draw(maybe(addresses(address.version))),
        router_id=draw(maybe(ids)),
        status=draw(st.sampled_from(Status)),
        qos_policy_id=draw(maybe(ids)),
        dns_name=draw(dns_names()),
        dns_domain=draw(dns_names()),
        **common,
    )


@st.composite
def port_forwardings(draw: st.DrawFn) -> PortForwarding:
    """One port to one, many to as many, many to one."""
    count = draw(st.just(1) | st.integers(1, 1000))
    inside = draw(st.sampled_from([1, count]))
    first_out = draw(st.integers(1, 65536 - count))
    first_in = draw(st.integers(1, 65536 - inside))
    common = {name: draw(values) for name, values in standard().items()}
    return PortForwarding(
        id=draw(ids),
        floating_ip_id=draw(ids),
        protocol=draw(st.sampled_from(ForwardedProtocol)),
        external_ports=PortRange(first_out, first_out + count - 1),
        internal_ports=PortRange(first_in, first_in + inside - 1),
        internal_port_id=draw(ids),
        internal_address=draw(addresses(4)),
        **common,
    )


def security_groups() -> SearchStrategy[SecurityGroup]:
    """Groups with state or without."""
    return st.builds(SecurityGroup, id=ids, stateful=booleans, shared=booleans, **named())


@st.composite
def security_group_rules(draw: st.DrawFn) -> SecurityGroupRule:
    """Rules for any protocol, with ports or ICMP types, and one kind of remote or none."""
    ethertype = draw(st.sampled_from(Ethertype))
    protocol = draw(maybe(st.sampled_from(sorted(NAMES)) | st.integers(1, 255)))
    if protocol == ICMPV6 and ethertype is Ethertype.IPV4:
        protocol = ICMP
    low, high = draw(_port_ends(protocol))
    remotes = {
        "remote_prefix": prefixes(ethertype.ip_version),
        "remote_group_id": ids,
        "remote_address_group_id": ids,
    }
    remote = draw(maybe(st.sampled_from(sorted(remotes))))
    common = {name: draw(values) for name, values in owned().items()}
    if remote is not None:
        common[remote] = draw(remotes[remote])
    return SecurityGroupRule(
        id=draw(ids),
        security_group_id=draw(ids),
        direction=draw(_DIRECTIONS),
        ethertype=ethertype,
        protocol=protocol,
        port_min=low,
        port_max=high,
        **common,
    )


def _port_ends(protocol: int | None) -> SearchStrategy[tuple[int | None, int | None]]:
    none: SearchStrategy[tuple[int | None, int | None]] = st.just((None, None))
    if protocol in PORTED:
        ends = st.lists(st.integers(1, 65535), min_size=2, max_size=2).map(sorted)
        return none | ends.map(lambda pair: (pair[0], pair[1]))
    if protocol in (ICMP, ICMPV6):
        return none | st.tuples(st.integers(0, 255), maybe(st.integers(0, 255)))
    return none


def address_groups() -> SearchStrategy[AddressGroup]:
    """Sets of prefixes of both families."""
    members = st.frozensets(prefixes(), max_size=4)
    return st.builds(AddressGroup, id=ids, addresses=members, shared=booleans, **named())


def qos_rules() -> SearchStrategy[QosRule]:
    """One rule of any type."""
    return st.one_of(
        st.builds(
            BandwidthLimit, id=ids, max_kbps=_RATES, max_burst_kbps=_RATES, direction=_DIRECTIONS
        ),
        st.builds(MinimumBandwidth, id=ids, min_kbps=_RATES, direction=_DIRECTIONS),
        st.builds(
            PacketRateLimit, id=ids, max_kpps=_RATES, max_burst_kpps=_RATES, direction=_DIRECTIONS
        ),
        st.builds(
            MinimumPacketRate, id=ids, min_kpps=_RATES, direction=st.sampled_from(AnyDirection)
        ),
        st.builds(DscpMarking, id=ids, dscp_mark=st.sampled_from(sorted(DSCP_MARKS))),
    )


@st.composite
def qos_policies(draw: st.DrawFn) -> QosPolicy:
    """Policies with at most one rule of each type, so that no two are about the same thing."""
    rules = {type(rule): rule for rule in draw(several(qos_rules(), 5))}
    if BandwidthLimit in rules:
        rules.pop(MinimumBandwidth, None)
    common = {name: draw(values) for name, values in named().items()}
    return QosPolicy(
        id=draw(ids),
        rules={rule.id: rule for rule in rules.values()}.values(),
        shared=draw(booleans),
        is_default=draw(booleans),
        **common,
    )


def agents() -> SearchStrategy[Agent]:
    """Agents alive and dead."""
    return st.builds(
        Agent,
        id=ids,
        agent_type=texts(),
        binary=tokens(),
        host=hosts(),
        topic=tokens(),
        description=texts(),
        revision=st.integers(0, 2**63 - 1),
        admin_up=booleans,
        alive=booleans,
        availability_zone=maybe(hosts()),
        configurations=documents(),
        resources_synced=maybe(booleans),
        created_at=maybe(moments()),
        started_at=maybe(moments()),
        heartbeat_at=maybe(moments()),
    )
