"""A guarded port, its group and its firewall, for tests of the L2 agent."""

from ipaddress import ip_network

from netfw.drivers.firewall import FirewallCapability, Member
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.security_group import AddressGroup, Direction, SecurityGroup, SecurityGroupRule
from netfw.model.values.ids import AddressGroupId, SecurityGroupId, SecurityGroupRuleId
from netfw.testing.fakes.switch import FakeFirewall
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import NET, SEGMENT, port, uuid

OFFICE = AddressGroup(
    id=AddressGroupId(uuid(45)), addresses=frozenset({ip_network("192.0.2.0/24")}), revision=1
)
GROUP = SecurityGroup(id=SecurityGroupId(uuid(40)), revision=1)
KEY, OFFICE_MEMBER = (
    GroupKey(GROUP.id),
    Member(AddressGroupKey(OFFICE.id), ip_network("192.0.2.0/24")),
)


def rule(number, **kwargs):
    return SecurityGroupRule(
        id=SecurityGroupRuleId(uuid(number)),
        security_group_id=GROUP.id,
        direction=Direction.INGRESS,
        revision=1,
        **kwargs,
    )


PLAIN, BY_OFFICE = rule(41), rule(42, remote_address_group_id=OFFICE.id)
GUARDED = port(1, NET, port_security=True, security_groups=frozenset({GROUP.id}))
PORT = PortKey(GUARDED.id)


def firewall(*capabilities, filtering=True):
    made = FakeFirewall()
    known = (
        (HostCapability.PLAN, FirewallCapability.FILTERING) if filtering else (HostCapability.PLAN,)
    )
    made.CAPABILITIES = (*known, *capabilities)
    return made


def make_environment(driver, *items, **kwargs):
    env = L2AgentEnvironment(NET, SEGMENT, GUARDED, GROUP, PLAIN, *items, firewall=driver, **kwargs)
    env.switch.plug(GUARDED.id, quiet=True)
    return env


class AdmissionRecorder:
    """Records in one order what the switch and the firewall are given for the guarded port."""

    def __init__(self, switch, firewall):
        self.seen = []
        for name, driver in (("switch", switch), ("firewall", firewall)):
            driver.converge = self._record(name, driver.converge)

    def _record(self, name, converge):
        def recorded(update):
            value = update.put.get(PORT)
            if update:  # an update of nothing acquires the lock
                self.seen.append((name, getattr(value, "admission", value is not None)))
            return converge(update)

        return recorded
