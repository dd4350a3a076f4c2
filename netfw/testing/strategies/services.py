"""Strategies for routers, floating IPs, filters, policies and agents."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import (
    AddressGroup,
    Agent,
    AnyDirection,
    BandwidthLimit,
    DefaultSecurityGroupRule,
    Direction,
    DscpMarking,
    Ethertype,
    ExternalGateway,
    FloatingIp,
    ForwardedProtocol,
    LogEvent,
    MinimumBandwidth,
    MinimumPacketRate,
    PacketLog,
    PacketRateLimit,
    PortForwarding,
    PortRange,
    QosPolicy,
    QosRule,
    RbacAction,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Status,
)
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.qos import DSCP_MARKS
from netfw.model.router import VRIDS, ConntrackHelper, HelperProtocol
from netfw.model.security_group import PARENT
from netfw.model.values.protocol import ICMP, ICMPV6, NAMES, PORTED
from netfw.testing.strategies.basic import (
    addresses,
    booleans,
    dns_names,
    documents,
    hosts,
    ids,
    instances,
    maybe,
    moments,
    named,
    owned,
    prefixes,
    routes,
    several,
    texts,
    tokens,
)
from netfw.testing.strategies.firewalls import firewall_groups
from netfw.testing.strategies.networks import fixed_ips

_RATES = st.integers(0, 2**31 - 1)
_DIRECTIONS = st.sampled_from(Direction)


@cache
def external_gateways() -> SearchStrategy[ExternalGateway]:
    """Draw external gateways, with or without SNAT."""
    return st.builds(
        ExternalGateway,
        network_id=ids,
        enable_snat=booleans,
        fixed_ips=several(fixed_ips()),
        qos_policy_id=maybe(ids),
    )


@cache
def routers() -> SearchStrategy[Router]:
    """Draw plain, HA and distributed routers, with or without a gateway."""
    return instances(
        Router,
        named(),
        id=ids,
        gateway=maybe(external_gateways()),
        routes=several(routes()),
        admin_up=booleans,
        status=st.sampled_from(Status),
        ha=booleans,
        vrid=maybe(st.integers(VRIDS[0], VRIDS[-1])),
        distributed=booleans,
        availability_zone_hints=several(hosts()),
        availability_zones=several(hosts()),
        flavor_id=maybe(ids),
        firewall_groups=firewall_groups(),
        enable_ndp_proxy=booleans,
        conntrack_helpers=st.lists(
            conntrack_helpers(), max_size=3, unique_by=lambda helper: helper.values
        ),
    )


@cache
def conntrack_helpers() -> SearchStrategy[ConntrackHelper]:
    """Draw conntrack helpers."""
    return instances(
        ConntrackHelper,
        id=ids,
        protocol=st.sampled_from(HelperProtocol),
        port=st.integers(1, 65535),
        helper=st.sampled_from(["ftp", "netbios-ns", "sip", "tftp"]),
    )


@cache
def floating_ips() -> SearchStrategy[FloatingIp]:
    """Draw floating IPs that stand for a port's address, and free ones."""
    free = st.fixed_dictionaries({"address": addresses()})
    used = [
        st.fixed_dictionaries(
            {
                "address": addresses(version),
                "fixed_address": addresses(version),
                "port_id": ids,
            }
        )
        for version in (4, 6)
    ]
    return instances(
        FloatingIp,
        st.one_of(free, *used),
        owned(),
        id=ids,
        network_id=ids,
        router_id=maybe(ids),
        host=maybe(hosts()),
        status=st.sampled_from(Status),
        qos_policy_id=maybe(ids),
        dns_name=dns_names(),
        dns_domain=dns_names(),
    )


@cache
def ndp_proxies() -> SearchStrategy[NdpProxy]:
    """Draw NDP proxies."""
    return instances(NdpProxy, named(), id=ids, router_id=ids, port_id=ids, address=addresses(6))


@cache
def port_forwardings() -> SearchStrategy[PortForwarding]:
    """Draw port forwardings: one port to one, many to as many, many to one."""
    return instances(
        PortForwarding,
        _forwarded_ports(),
        owned(),
        id=ids,
        floating_ip_id=ids,
        protocol=st.sampled_from(ForwardedProtocol),
        internal_port_id=ids,
        internal_address=addresses(4),
    )


@cache
@st.composite
def _forwarded_ports(draw: st.DrawFn) -> dict[str, PortRange]:
    count = draw(st.just(1) | st.integers(1, 1000))
    inside = draw(st.sampled_from([1, count]))
    outer = draw(st.integers(1, 65536 - count))
    inner = draw(st.integers(1, 65536 - inside))
    return {
        "external_ports": PortRange(outer, outer + count - 1),
        "internal_ports": PortRange(inner, inner + inside - 1),
    }


@cache
def security_groups() -> SearchStrategy[SecurityGroup]:
    """Draw stateful and stateless groups."""
    return instances(SecurityGroup, named(), id=ids, stateful=booleans, shared=booleans)


@cache
def security_group_rules() -> SearchStrategy[SecurityGroupRule]:
    """Draw rules of any protocol, with ports or ICMP types, and one kind of remote or none."""
    return instances(
        SecurityGroupRule,
        _matches(),
        owned(),
        id=ids,
        security_group_id=ids,
        direction=_DIRECTIONS,
    )


@cache
def default_security_group_rules() -> SearchStrategy[DefaultSecurityGroupRule]:
    """Draw rules of new groups, also those that name the new group itself."""
    named_remotes = _matches()
    parents = named_remotes.map(_with_parent)
    return instances(
        DefaultSecurityGroupRule,
        st.one_of(named_remotes, parents),
        owned(),
        id=ids,
        direction=_DIRECTIONS,
        used_in_default_sg=booleans,
        used_in_non_default_sg=booleans,
    )


def _with_parent(match: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in match.items() if not name.startswith("remote_")}
    return {**kept, "remote_group_id": PARENT}


@cache
@st.composite
def _matches(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the fields of a rule that depend on its family and protocol."""
    ethertype = draw(st.sampled_from(Ethertype))
    protocol = draw(_PROTOCOLS)
    if protocol == ICMPV6 and ethertype is Ethertype.IPV4:
        protocol = ICMP
    low, high = draw(_port_ends(protocol))
    remotes = {
        "remote_prefix": prefixes(ethertype.ip_version),
        "remote_group_id": ids,
        "remote_address_group_id": ids,
    }
    remote = draw(st.sampled_from([None, *remotes]))
    return {
        "ethertype": ethertype,
        "protocol": protocol,
        "port_min": low,
        "port_max": high,
        **({} if remote is None else {remote: draw(remotes[remote])}),
    }


_PROTOCOLS = maybe(st.sampled_from(sorted(NAMES)) | st.integers(1, 255))


@cache
def _port_ends(protocol: int | None) -> SearchStrategy[tuple[int | None, int | None]]:
    none: SearchStrategy[tuple[int | None, int | None]] = st.just((None, None))
    if protocol in PORTED:
        ends = st.lists(st.integers(1, 65535), min_size=2, max_size=2).map(sorted)
        return none | ends.map(lambda pair: (pair[0], pair[1]))
    if protocol in (ICMP, ICMPV6):
        return none | st.tuples(st.integers(0, 255), maybe(st.integers(0, 255)))
    return none


@cache
def address_groups() -> SearchStrategy[AddressGroup]:
    """Draw sets of prefixes of both families."""
    members = st.frozensets(prefixes(), max_size=4)
    return instances(AddressGroup, named(), id=ids, addresses=members, shared=booleans)


@cache
def packet_logs() -> SearchStrategy[PacketLog]:
    """Draw packet logs of a group, of a port, of both and of a project."""
    return instances(
        PacketLog,
        named(),
        id=ids,
        resource_id=maybe(ids),
        target_id=maybe(ids),
        event=st.sampled_from(LogEvent),
        enabled=booleans,
    )


@cache
def qos_rules() -> SearchStrategy[QosRule]:
    """Draw one rule of any type."""
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


@cache
def qos_policies() -> SearchStrategy[QosPolicy]:
    """Draw policies with at most one rule of each type, so that no two conflict."""
    rules = st.lists(qos_rules(), max_size=5, unique_by=(type, lambda rule: rule.id))
    return instances(
        QosPolicy,
        named(),
        id=ids,
        rules=rules.map(_without_contradiction),
        shared=booleans,
        is_default=booleans,
    )


def _without_contradiction(rules: list[QosRule]) -> tuple[QosRule, ...]:
    limited = any(isinstance(rule, BandwidthLimit) for rule in rules)
    return tuple(r for r in rules if not (limited and isinstance(r, MinimumBandwidth)))


@cache
def rbac_policies() -> SearchStrategy[RbacPolicy]:
    """Draw policies for one project and for all."""
    return st.builds(
        RbacPolicy,
        id=ids,
        project_id=texts(64),
        object_type=tokens(),
        object_id=ids,
        action=st.sampled_from(RbacAction),
        target_project=st.just("*") | texts(64).filter(bool),
        revision=st.integers(0, 2**63 - 1),
    )


@cache
def agents() -> SearchStrategy[Agent]:
    """Draw agents, alive and dead."""
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
