"""Values of the contracts refuse what cannot be."""

from __future__ import annotations

from ipaddress import IPv4Address
from uuid import UUID

import pytest

from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import Refused
from netfw.drivers.server.type_driver import Pool, Range
from netfw.drivers.values.agent_requests import FindPorts
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import GrantRequest, RegisterRequest, TableRequest
from netfw.drivers.values.router_contribution import RouterRule, RuleChain, RuleTable
from netfw.drivers.values.switch_values import MAX_ENDPOINTS, Endpoint, Forwarding
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref
from netfw.model.segment import NetworkType
from netfw.model.values.ids import NetworkId, PortId, RouterId

ID = UUID(int=1)


def test_a_port_and_a_network_of_one_id_are_two_keys():
    assert PortKey(PortId(ID)) != NetworkKey(NetworkId(ID))
    assert len({PortKey(PortId(ID)), NetworkKey(NetworkId(ID))}) == 2


def test_a_grant_request_names_each_thing_once():
    with pytest.raises(ValueError, match="one name twice"):
        GrantRequest(owner="qos", tables=(TableRequest(name="a"), TableRequest(name="a")))


@pytest.mark.parametrize("bits", [0, 33])
def test_bits_fit_a_register(bits):
    with pytest.raises(ValueError, match=r"not within 1\.\.32"):
        RegisterRequest("port", bits)


@pytest.mark.spec("L2-61")
@pytest.mark.parametrize("count", [0, MAX_ENDPOINTS + 1])
def test_a_mac_has_a_bounded_number_of_endpoints(count):
    ends = [Endpoint(NetworkType.VXLAN, IPv4Address("192.0.2.1") + n) for n in range(count)]
    with pytest.raises(ValueError, match=f"has 1 to {MAX_ENDPOINTS} endpoints, not {count}"):
        Forwarding(frozenset(ends))


@pytest.mark.spec("L2-61")
def test_the_endpoints_of_a_mac_have_one_tunnel_type():
    kinds = NetworkType.VXLAN, NetworkType.GRE
    with pytest.raises(ValueError, match="one tunnel type, not gre, vxlan"):
        Forwarding(frozenset(Endpoint(kind, IPv4Address("192.0.2.1")) for kind in kinds))


@pytest.mark.parametrize("word", ["", "a b", 'a"', "a\nb", "a'", "a\\"])
def test_a_word_of_a_rule_is_one_word(word):
    with pytest.raises(ValueError, match="not one word"):
        RouterRule(table=RuleTable.NAT, chain=RuleChain.OUTPUT, words=("-j", word))


def test_a_refusal_has_a_reason():
    with pytest.raises(ValueError, match="has a reason"):
        Refused(" ")


def test_a_range_is_not_empty():
    with pytest.raises(ValueError, match="empty"):
        Range(Pool(NetworkType.VXLAN), 2, 1)


def test_a_change_is_about_one_resource():
    old = Network(id=NetworkId(ID), revision=1)
    new = Network(id=NetworkId(ID), revision=2)
    assert Change(before=old, after=new).revision == 2
    assert Change(before=old, after=None).ref == Ref(Kind.NETWORK, ID)
    with pytest.raises(ValueError, match="before, an after"):
        Change(before=None, after=None)
    with pytest.raises(ValueError, match="about one resource"):
        Change(before=old, after=Network(id=NetworkId(UUID(int=2))))


def test_ports_are_looked_for_in_one_place():
    address = IPv4Address("10.0.0.1")
    for where in ({}, {"network": NetworkId(ID), "router": RouterId(ID)}):
        with pytest.raises(ValueError, match="not both or neither"):
            FindPorts(address=address, **where)


def test_attribute_that_is_not_settable_is_not_required():
    with pytest.raises(ValueError, match="required, but not settable"):
        Attribute(name="x", type=AttributeType.TEXT, required=True, settable=False)
