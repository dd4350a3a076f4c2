"""How a driver of Neutron binds ports through the adapter."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.server.mechanism import Binding, BindingRequest, Bound, Partial, Refused
from netfw.model.binding import VifDetails
from netfw.model.segment import NetworkType, Provider
from netfw.model.trunk import TrunkMembership
from netfw.model.values.ids import TrunkId
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.server import mechanism_samples as samples
from tests.unit.backends.neutron_adapter.conftest import Load

pytestmark = [pytest.mark.spec("ML2-12"), pytest.mark.slow]

VXLAN, VLAN = samples.SEGMENTS
BIND = """
    def bind_port(self, context):
        segment = context.segments_to_bind[-1]
"""


def bind(load: Load, body: str, **changes: Any) -> Binding:
    request = evolve(samples.request(samples.PORT, samples.AGENT, segments=(VLAN,)), **changes)
    return load(BIND + body).bind(request)


def test_a_driver_binds_a_port_to_an_offered_segment(load: Load) -> None:
    answer = bind(
        load,
        """
        assert context.current["binding:host_id"] == context.host == "host-1"
        assert context.network.current["id"] == segment["network_id"]
        assert (context.vif_type, context.bottom_bound_segment) == ("unbound", None)
        details = {"port_filter": False, "acme": segment["segmentation_id"]}
        context.set_binding(segment[api.ID], "acme", details)
""",
    )
    details = VifDetails(port_filter=False, other=JsonDocument({"acme": 101}))
    assert answer == Bound(segment=VLAN.id, vif_type="acme", vif_details=details)


def test_the_segment_is_noted_where_several_are_offered(load: Load) -> None:
    answer = bind(
        load, '        context.set_binding(segment["id"], "x", {})\n', segments=samples.SEGMENTS
    )
    noted = VifDetails(other=JsonDocument({"segment_id": str(VLAN.id)}))
    assert answer == Bound(segment=VLAN.id, vif_type="x", vif_details=noted)


@pytest.mark.parametrize(
    "how",
    [
        'context.set_binding(segment["id"], "x", {}, status="ACTIVE")',
        """context.set_binding(segment["id"], "x", {})
        from neutron.db import provisioning_blocks
        provisioning_blocks.add_provisioning_component(
            context._plugin_context, context.current["id"], "port", "ACME")""",
    ],
)
def test_a_driver_that_completes_the_port_itself_needs_no_agent(load: Load, how: str) -> None:
    assert bind(load, f"        {how}\n") == Bound(segment=VLAN.id, vif_type="x", wired=True)


def test_a_driver_sees_the_agents_of_the_host_and_the_subnets_of_the_network(load: Load) -> None:
    answer = bind(
        load,
        """
        (agent,) = context.host_agents("Open vSwitch agent")
        assert not context.host_agents("another")
        id = context.current["fixed_ips"][0]["subnet_id"]
        subnet = context._plugin.get_subnet(context.plugin_context, id)
        mappings = agent["configurations"]["bridge_mappings"]
        details = {"agent": agent["alive"], "cidr": subnet["cidr"], "mappings": dict(mappings)}
        context.set_binding(segment["id"], "x", details)
""",
        subnets=(samples.SUBNET,),
    )
    assert isinstance(answer, Bound), answer
    assert answer.vif_details.other.content() == {
        "agent": True,
        "cidr": "192.0.2.0/24",
        "mappings": {"physnet1": "br-ex"},
    }


def test_a_partial_binding_requests_a_segment_for_the_next_level(load: Load) -> None:
    answer = bind(
        load,
        """
        wanted = {"network_type": "vlan", "physical_network": "rack1"}
        dynamic = context.allocate_dynamic_segment(wanted)
        context.continue_binding(segment["id"], [dynamic])
""",
        segments=(VXLAN,),
    )
    wants = Provider(network_type=NetworkType.VLAN, physical_network="rack1")
    assert answer == Partial(segment=VXLAN.id, wants=wants)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("pass", "the driver does not bind it: it gives no reason"),
        (
            "import logging; logging.getLogger(__name__).error('no card %s', 'x1')",
            "the driver does not bind it: no card x1",
        ),
        ('context.set_binding("7", "x", {})', "binds it to segment 7, which is not offered"),
        ('context.set_binding(segment["id"], "x", {"a": object()})', "impossible vif_details"),
        ('context.set_binding(segment["id"], "x", [1])', "vif_details that are a list"),
        ('context.set_binding(segment["id"], None, {})', "with the vif type None"),
        (
            'context.continue_binding(segment["id"], [{"network_type": "a rope"}])',
            "impossible segment for the next level",
        ),
        (
            'context.continue_binding(segment["id"], [{"network_type": None}])',
            "impossible segment for the next level",
        ),
        (
            'wanted = {"network_type": "vlan", "physical_network": ["p"], "segmentation_id": 5};'
            ' context.continue_binding(segment["id"], [wanted])',
            "impossible segment for the next level",
        ),
        (
            "context._plugin_context.session.query(1)",
            "'acme' uses a session of Neutron's database, which netfw does not have",
        ),
        (
            "context._plugin.get_port(context.plugin_context, 1)",
            "'acme' uses get_port of Neutron's core plugin, which netfw does not have",
        ),
        (
            "from neutron_lib.plugins import directory; directory.get_plugin().update_port",
            "'acme' uses update_port of Neutron's core plugin, which netfw does not have",
        ),
        (
            "from neutron.objects import ports; ports.Port.get_object(1)",
            "'acme' uses neutron.objects.ports.Port.get_object, which netfw does not have",
        ),
        ("context.binding_levels", "'acme' uses binding_levels"),
    ],
)
def test_a_port_that_is_not_bound_has_the_reason(load: Load, body: str, reason: str) -> None:
    answer = bind(load, f"        {body}\n")
    assert isinstance(answer, Refused), answer
    assert reason in answer.reason


def test_a_port_of_a_trunk_is_refused_before_the_driver_is_called(load: Load) -> None:
    trunk = TrunkMembership(trunk_id=TrunkId(samples.PORT.id))
    parent = evolve(samples.PORT, trunk=trunk)
    request: BindingRequest = samples.request(parent, segments=(VLAN,))
    answer = load(BIND + "        raise AssertionError\n").bind(request)
    assert isinstance(answer, Refused)
    assert "belongs to a trunk" in answer.reason
