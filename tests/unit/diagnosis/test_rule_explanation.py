"""Why a connection of a port is allowed or denied, by the resources of an agent."""

from ipaddress import ip_address
from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.cli.commands.explain import find_port
from netfw.diagnosis.rule_explanation import NewConnection, explain_connection
from netfw.errors import NotFound
from netfw.model.resource import ref
from netfw.model.security_group import (
    AddressGroup,
    Direction,
    Ethertype,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.values.ids import AddressGroupId, SecurityGroupId, SecurityGroupRuleId
from netfw.model.values.protocol import ICMP, ICMPV6, TCP, UDP
from tests.unit.agents.l2.environment import HERE, ONE, TWO

pytestmark = pytest.mark.spec("FW-14")

WEB, MAIL = (SecurityGroup(id=SecurityGroupId(UUID(int=n))) for n in (901, 902))
OFFICE = AddressGroup(id=AddressGroupId(UUID(int=903)), addresses=["192.0.2.0/24"])
OWN = evolve(ONE, name="web", port_security=True, security_groups=(WEB.id,))
PEER = evolve(TWO, port_security=True, security_groups=(MAIL.id,))
PEER_ADDRESS = str(next(iter(PEER.fixed_ips)).address)
PORTS = {"protocol": TCP, "port_min": 80, "port_max": 90}


def rule(**attributes):
    return SecurityGroupRule(
        id=SecurityGroupRuleId(UUID(int=921)),
        security_group_id=WEB.id,
        **{"direction": Direction.INGRESS, **attributes},
    )


def ask(rules, remote="10.9.9.9", protocol=TCP, number=80, *, port=OWN, code=None):
    index = L2ResourceIndex(HERE)
    resources = (WEB, MAIL, OFFICE, port, PEER, *rules)
    index.apply({ref(each): each for each in resources})
    question = NewConnection(
        direction=Direction.INGRESS,
        remote=ip_address(remote),
        protocol=protocol,
        port=number,
        code=code,
    )
    return explain_connection(port, question, index)


@pytest.mark.parametrize(
    ("attributes", "question", "lack"),
    [
        (PORTS, {}, ""),
        (PORTS, {"number": 91}, "it is for ports 80:90"),
        (PORTS, {"protocol": UDP}, "it is for protocol tcp"),
        (PORTS, {"remote": "fd00::1"}, "it is for IPv4"),
        (PORTS | {"direction": Direction.EGRESS}, {}, "it is for egress"),
        ({"remote_prefix": "10.0.0.0/8"}, {}, ""),
        ({"remote_prefix": "10.0.0.0/16"}, {}, "10.9.9.9 is not in 10.0.0.0/16"),
        ({"remote_group_id": MAIL.id}, {"remote": PEER_ADDRESS}, ""),
        ({"remote_group_id": MAIL.id}, {}, "10.9.9.9 is not in "),
        ({"remote_address_group_id": OFFICE.id}, {"remote": "192.0.2.7"}, ""),
        ({"remote_address_group_id": OFFICE.id}, {}, "10.9.9.9 is not in "),
        ({"protocol": ICMP, "port_min": 8}, {"protocol": ICMP, "number": 8, "code": 0}, ""),
        (
            {"protocol": ICMP, "port_min": 8},
            {"protocol": ICMP, "number": 0},
            "it is for type and code 8",
        ),
        (
            {"protocol": ICMP, "ethertype": Ethertype.IPV6},
            {"protocol": ICMPV6, "remote": "fd00::1"},
            "",
        ),
    ],
)
def test_each_rule_says_what_it_lacks(attributes, question, lack):
    found = ask([rule(**attributes)], **question)
    name = f"rule {rule(**attributes).id} of group {WEB.id}"
    assert found.allowed is not bool(lack)
    if lack:
        assert found.lines[0].startswith("no rule allows ingress ")
        assert str(OWN.id) in found.lines[0]
        assert found.lines[1].startswith(f"{name}: {lack}")
    else:
        assert found.lines == (f"allowed by {name}",)


def test_ports_without_groups_or_filters_are_named():
    assert "in no security group" in ask([], port=evolve(OWN, security_groups=())).lines[0]
    free = ask([], port=evolve(OWN, security_groups=(), port_security=False))
    assert free.allowed
    assert "is not filtered" in free.lines[0]


def test_a_port_is_found_by_its_id_or_name():
    index = L2ResourceIndex(HERE)
    twin = evolve(OWN, id=UUID(int=77))
    index.apply({ref(OWN): OWN})
    assert find_port(index, "web") == find_port(index, str(OWN.id)) == OWN
    with pytest.raises(NotFound, match=f"no port of host {HERE} is called"):
        find_port(index, "mail")
    index.apply({ref(twin): twin})
    assert find_port(index, str(OWN.id)) == OWN
    with pytest.raises(NotFound, match="several"):
        find_port(index, "web")
