"""Whatever happened in whatever order, the wanted state is that of learning it all at once."""

from ipaddress import ip_network

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.agents.l2.desired_firewall import DesiredFirewall
from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.port import AddressPair, FixedIp
from netfw.model.qos import QosPolicy
from netfw.model.resource import ref
from netfw.model.security_group import AddressGroup, Direction, SecurityGroup, SecurityGroupRule
from netfw.model.segment import NetworkType
from netfw.model.values.address import Mac
from netfw.model.values.ids import (
    AddressGroupId,
    QosPolicyId,
    SecurityGroupId,
    SecurityGroupRuleId,
)
from tests.unit.agents.l2.environment import (  # fmt: skip
    ELSEWHERE,
    FACTS,
    HERE,
    NET,
    OTHER,
    OTHER_SEGMENT,
    SEGMENT,
    THERE,
    agent,
    port,
    segment,
    subnet,
    uuid,
)

HOSTS = (HERE, THERE, ELSEWHERE, "")
SUBNETS = [subnet(NET, 70, "10.0.0.0/24"), subnet(OTHER, 71, "10.1.0.0/24")]
GROUPS = [SecurityGroup(id=SecurityGroupId(uuid(number))) for number in (40, 41)]
OFFICE = AddressGroup(id=AddressGroupId(uuid(42)))


def ports():
    return st.builds(
        lambda number, of, host, hosts, prepared, mac, up, owner, groups, pairs: port(
            number, of, host, hosts, prepared, mac=f"fa:16:3e:00:00:{mac:02x}", admin_up=up,
            device_owner=owner, port_security=True, fixed_ips=(fixed_ip(number, of),),
            security_groups=frozenset(group.id for group in groups),
            allowed_address_pairs=tuple(AddressPair(prefix=prefix) for prefix in pairs),
        ),
        st.integers(1, 4), st.sampled_from((NET, OTHER)), st.sampled_from(HOSTS),
        st.just(()) | st.sets(st.sampled_from(HOSTS[:3])),
        st.just(()) | st.sets(st.sampled_from(HOSTS[:3])), st.integers(1, 3), st.booleans(),
        st.sampled_from(("", "network:dhcp", "network:ha_router_replicated_interface")),
        st.sets(st.sampled_from(GROUPS)),
        st.just(()) | st.sets(st.sampled_from(("10.0.0.1", "10.0.0.0/30", "0.0.0.0/0"))),
    )  # fmt: skip


def fixed_ip(number, of):
    subnet = SUBNETS[of is OTHER]
    return FixedIp(subnet_id=subnet.id, address=subnet.cidr[number])


def interfaces():
    """Draw interfaces of two distributed routers, in place of ports with the same number."""
    return st.builds(
        lambda number, of, router: port(
            number, of, "", device_owner="network:router_interface_distributed",
            device_id=router, fixed_ips=(fixed_ip(number, of),),
        ),
        st.integers(3, 6), st.sampled_from((NET, OTHER)), st.sampled_from(("", "one", "two")),
    )  # fmt: skip


def agents():
    return st.builds(
        lambda host, address, number, types, revision, mac: agent(
            host, f"192.0.2.{address}", types, number, revision, routing_mac=mac
        ),
        st.sampled_from(HOSTS[:3]), st.integers(1, 3), st.integers(80, 82),
        st.lists(st.sampled_from(("vxlan", "gre", "geneve")), unique=True), st.integers(1, 3),
        st.sampled_from((None, "fa:16:3f:00:00:01", "fa:16:3f:00:00:02")),
    )  # fmt: skip


def rules():
    return st.builds(
        lambda number, of, to: SecurityGroupRule(
            id=SecurityGroupRuleId(uuid(60 + number)), security_group_id=of.id,
            direction=Direction.INGRESS, **to,
        ),
        st.integers(0, 2), st.sampled_from(GROUPS),
        st.sampled_from([{}, *({"remote_group_id": g.id} for g in GROUPS),
                         {"remote_address_group_id": OFFICE.id}]),
    )  # fmt: skip


def others():
    vlan = segment(NET, NetworkType.VLAN, 7, "physnet1")
    far = segment(NET, NetworkType.VLAN, 7, "physnet2")
    policy = QosPolicy(id=QosPolicyId(uuid(90)), name="slow")
    return st.sampled_from([
        NET, OTHER, evolve(NET, mtu=9000), evolve(NET, admin_up=False), SEGMENT, OTHER_SEGMENT,
        vlan, far, policy, evolve(NET, qos_policy_id=policy.id), *GROUPS,
        evolve(GROUPS[0], stateful=False), *SUBNETS,
        OFFICE, evolve(OFFICE, addresses=frozenset({ip_network("10.9.0.0/24")})),
    ])  # fmt: skip


resources = ports() | interfaces() | agents() | rules() | others()
devices = st.none() | st.builds(
    lambda name, ancillary: SwitchDevice(name=name, ofport=1, ancillary=ancillary),
    st.sampled_from(("tap1", "tap2")), st.booleans(),
)  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("put"), st.lists(resources, max_size=4)),
    st.tuples(st.just("put"), st.lists(resources, max_size=4)),
    st.tuples(st.just("drop"), st.lists(resources.map(ref), max_size=2)),
    st.tuples(st.just("plug"), st.tuples(st.integers(1, 6), devices)),
    st.tuples(st.just("plug"), st.tuples(st.integers(1, 6), devices)),
    st.tuples(st.just("answer"), st.sampled_from(("fa:16:3f:00:00:03", "fa:16:3f:00:00:04"))),
)
views = st.builds(
    lambda population, forwarding, responder, distributed, guard, filtered: L2HostContext(
        host=HERE, facts=FACTS, population=population, forwarding=population or forwarding,
        arp_responder=responder, distributed=distributed, guard=guard, filtered=filtered,
    ),
    st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


class DesiredStateEnvironment:
    """Both parts of the wanted state, joined as the agent joins them, and what it was told."""

    def __init__(self, view):
        self.index = L2ResourceIndex(HERE)
        self.desired = DesiredSwitch(view, self.index)
        self.filters = DesiredFirewall(self.index)
        self.resources, self.devices, self.host_mac = {}, {}, None
        self.applied, self.told_filters, self.shown = {}, {}, {}

    def play(self, step):
        kind, what = step
        if kind == "put":
            what = list({ref(each): each for each in what}.values())
            self.resources |= {ref(each): each for each in what}
            self.learn({ref(each): each for each in what})
        elif kind == "drop":
            for key in what:
                self.resources.pop(key, None)
            self.learn(dict.fromkeys(what))
        elif kind == "answer":
            self.host_mac = Mac(what)
            self.desired.set_host_mac(self.host_mac)
        else:
            number, device = what
            self.devices[port(number, NET).id] = device
            self.desired.plug(port(number, NET).id, device)
        self.follow()

    def learn(self, staged):
        changes = self.index.apply(staged)
        self.desired.apply(changes)
        self.filters.apply(changes)

    def follow(self):
        for id in self.desired.take_touched():
            self.shown[id] = self.desired.extended(id)
            port = self.shown[id].port if self.shown[id] else None
            self.filters.filter(id, port, self.desired.device(id))
        _apply(self.applied, self.desired.take_changed(), self.desired.values)
        _apply(self.told_filters, self.filters.take_changed(), self.filters.values)


def _apply(applied, changed, values):
    for key in changed:
        if key in values:
            applied[key] = values[key]
        else:
            applied.pop(key, None)  # it came and went within one step


RULE = SecurityGroupRule(
    id=SecurityGroupRuleId(uuid(60)),
    security_group_id=GROUPS[0].id,
    direction=Direction.INGRESS,
    remote_group_id=GROUPS[1].id,
)
IN_GROUPS = {"port_security": True, "security_groups": frozenset(group.id for group in GROUPS)}
CROWD = [
    NET, SEGMENT, OTHER, OTHER_SEGMENT, *GROUPS, RULE, OFFICE,
    port(1, NET, HERE, **IN_GROUPS), port(2, NET, THERE, **IN_GROUPS), port(3, OTHER, ELSEWHERE),
    agent(THERE, "192.0.2.2"), agent(ELSEWHERE, "192.0.2.3", number=81),
    *SUBNETS, *(
        port(number, of, "", device_owner="network:router_interface_distributed",
             device_id="one", fixed_ips=(fixed_ip(number, of),))
        for number, of in ((5, NET), (6, OTHER))
    ),
]  # fmt: skip
PLUGGED = ("plug", (1, SwitchDevice(name="tap1", ofport=1)))
beginnings = st.sampled_from([[], [("put", CROWD), PLUGGED], [PLUGGED, ("put", CROWD)]])


@given(views, beginnings, st.lists(steps, max_size=15))
def test_a_history_ends_where_its_end_begins(view, beginning, history):
    lived = DesiredStateEnvironment(view)
    for step in [*beginning, *history]:
        lived.play(step)
    fresh = DesiredStateEnvironment(view)
    fresh.play(("put", list(lived.resources.values())))
    for id, device in lived.devices.items():
        fresh.desired.plug(id, device)
    if lived.host_mac:
        fresh.desired.set_host_mac(lived.host_mac)
    fresh.follow()
    assert lived.desired.values == fresh.desired.values
    assert lived.filters.values == fresh.filters.values
    assert lived.applied == fresh.desired.values
    assert lived.told_filters == fresh.filters.values
    shown = {id: value for id, value in lived.shown.items() if value}
    assert shown == {id: value for id, value in fresh.shown.items() if value}


def remaining(part):
    """Yield the names of collections within *part* that are not empty; counts of 0 do not count."""
    for name, value in vars(part).items():
        if isinstance(value, dict | set):
            found = [each for each in value if isinstance(value, set) or value[each] != 0]
            yield from [f"{type(part).__name__}.{name}"] * bool(found)
        elif type(value).__module__.startswith("netfw.agents.") and hasattr(value, "__dict__"):
            yield from remaining(value)


@given(views, beginnings, st.lists(steps, max_size=15))
def test_nothing_remains_of_resources_that_are_gone(view, beginning, history):
    lived = DesiredStateEnvironment(view)
    for step in [*beginning, *history]:
        lived.play(step)
    lived.play(("drop", list(lived.resources)))
    for number in range(1, 7):
        lived.play(("plug", (number, None)))
    fresh = DesiredStateEnvironment(view)
    if lived.host_mac:
        fresh.play(("answer", lived.host_mac))
    for name in ("desired", "filters"):
        left = {*remaining(getattr(lived, name))} - {*remaining(getattr(fresh, name))}
        assert not left
