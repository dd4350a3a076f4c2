"""How `sriovnicswitch` binds ports: by binding profile, segments and agents."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.server.mechanism import Binding, Bound, Refused
from netfw.model.agent import Agent
from netfw.model.binding import VifDetails, VnicType
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw_drivers.mechanism_drivers.sriov import SriovMechanismDriver

pytestmark = pytest.mark.spec("ML2-14")

FLAT = Provider(network_type=NetworkType.FLAT, physical_network="physnet2")
DEVICE = {"pci_slot": "0000:03:10.1", "pci_vendor_info": "8086:154c"}


def nic_agent(mappings: Any = None, *, alive: bool = True) -> Agent:
    message = {"device_mappings": {"physnet1": ["eth1", "eth2"]} if mappings is None else mappings}
    return evolve(
        samples.AGENT,
        agent_type="NIC Switch agent",
        alive=alive,
        configurations=JsonDocument(message),
    )


def bind(
    *agents: Agent,
    segments: tuple[Provider, ...] = (samples.VXLAN, samples.VLAN),
    vnic: VnicType = VnicType.DIRECT,
    profile: dict[str, Any] | None = None,
    agent_required: bool = True,
) -> Binding:
    content = JsonDocument(DEVICE if profile is None else profile)
    binding = evolve(samples.PORT.binding, vnic_type=vnic, profile=content)
    port = evolve(samples.PORT, binding=binding)
    offered = tuple(samples.segment(each) for each in segments)
    driver = SriovMechanismDriver(agent_required=agent_required)
    return driver.bind(samples.request(port, *agents, segments=offered))


def reason(*agents: Agent, **how: Any) -> str:
    answer = bind(*agents, **how)
    assert isinstance(answer, Refused), answer
    return answer.reason


@pytest.mark.parametrize("vnic", [VnicType.DIRECT, VnicType.MACVTAP])
def test_a_virtual_function_gets_the_vlan_and_its_device(vnic: VnicType) -> None:
    assert bind(nic_agent(), vnic=vnic) == Bound(
        segment=samples.segment(samples.VLAN).id,
        vif_type="hw_veb",
        vif_details=VifDetails(
            port_filter=False,
            connectivity="l2",
            vlan=101,
            physical_network="physnet1",
            other=JsonDocument(DEVICE),
        ),
    )


def test_a_flat_network_has_no_tag() -> None:
    answer = bind(nic_agent({"physnet2": ["eth3"]}), segments=(samples.VLAN, FLAT))
    assert isinstance(answer, Bound)
    assert answer.vif_details.vlan == 0
    assert answer.vif_details.physical_network == "physnet2"


@pytest.mark.parametrize("required", [True, False])
def test_a_whole_card_needs_no_agent(required: bool) -> None:
    answer = bind(vnic=VnicType.DIRECT_PHYSICAL, agent_required=required)
    assert isinstance(answer, Bound)
    assert (answer.vif_type, answer.wired) == ("hostdev_physical", True)


def test_without_an_agent_a_function_counts_as_wired_where_that_is_configured() -> None:
    answer = bind(agent_required=False)
    assert isinstance(answer, Bound)
    assert (answer.vif_type, answer.wired) == ("hw_veb", True)
    assert reason() == "host host-1 has no NIC Switch agent, and agent_required is true"


def test_the_profile_chooses_the_physical_network() -> None:
    two = (samples.VLAN, FLAT)
    answer = bind(segments=two, profile={"physical_network": "physnet2"}, agent_required=False)
    assert isinstance(answer, Bound)
    assert answer.segment == samples.segment(FLAT).id
    assert answer.vif_details.other == JsonDocument()
    message = reason(segments=two, profile={"physical_network": "physnet3"}, agent_required=False)
    assert "vlan on physnet1: the device is on physnet3" in message


@pytest.mark.parametrize(
    ("agent", "segments", "message"),
    [
        (nic_agent(alive=False), (samples.VLAN,), "the NIC Switch agent on host-1 is dead"),
        (samples.AGENT, (samples.VLAN,), "has no NIC Switch agent"),
        (nic_agent({}), (samples.VLAN,), "the device_mappings of its NIC Switch agent have none"),
        (nic_agent(["eth1"]), (samples.VLAN,), "device_mappings is ['eth1']"),
        (nic_agent(), (samples.VXLAN,), "vxlan: cards are on flat and vlan networks only"),
        (nic_agent(), (), "no segment of network"),
    ],
)
def test_a_refusal_says_what_is_missing(
    agent: Agent, segments: tuple[Provider, ...], message: str
) -> None:
    assert message in reason(agent, segments=segments)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"pci_slot": "03:10.1"}, "the binding profile is wrong: pci_slot is '03:10.1'"),
        ({"pci_slot": 3}, "pci_slot is not text"),
        ({"pci_vendor_info": "Intel"}, "pci_vendor_info is 'Intel'"),
        ({"physical_network": ""}, "the binding profile is wrong"),
        ({"capabilities": "switchdev"}, "capabilities is not a list of words"),
        ({"capabilities": ["switchdev"]}, "a port of the host's switch"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(profile: dict[str, Any], message: str) -> None:
    assert message in reason(nic_agent(), profile=profile)


def test_other_cards_are_left_to_other_drivers() -> None:
    assert reason(nic_agent(), vnic=VnicType.NORMAL) == (
        "sriovnicswitch plugs direct, macvtap, direct-physical cards, and normal is wanted"
    )
