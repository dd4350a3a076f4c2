"""Which methods of a neutron-lib driver one change calls, and which segments it sees.  Values."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.errors import NotSupported
from netfw.model.binding import Binding, VifDetails
from netfw.model.port import Port
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.common_fields import Status
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw_drivers.neutron_adapter.calls import (
    SEGMENT_KEY,
    Phase,
    bound_segment,
    plan_calls,
    top_segment,
)

pytestmark = pytest.mark.spec("ML2-12")

VXLAN, VLAN = samples.SEGMENTS
DYNAMIC = samples.segment(
    Provider(network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=7)
)


def port(host: str = "", vif_type: str = "unbound", segment: object = None) -> Port:
    noted = {} if segment is None else {SEGMENT_KEY: str(segment)}
    details = VifDetails(other=JsonDocument(noted))
    binding = Binding(host=host, vif_type=vif_type, vif_details=details)
    return evolve(samples.PORT, binding=binding)


def calls(before: Any, after: Any) -> list[tuple[str, str, str]]:
    """Return the methods, with the vif types of the original and of the current port."""
    return [
        (
            each.method(Phase.POSTCOMMIT),
            each.original.binding.vif_type if isinstance(each.original, Port) else "",
            each.current.binding.vif_type if isinstance(each.current, Port) else "",
        )
        for each in plan_calls(samples.change(before, after))
    ]


@pytest.mark.parametrize("resource", [samples.NETWORK, samples.SUBNET])
def test_a_network_and_a_subnet_are_one_call_for_each_change(resource: Any) -> None:
    kind = type(resource).__name__.lower()
    changed = evolve(resource, name="other")
    assert [each for each, *_ in calls(None, resource)] == [f"create_{kind}_postcommit"]
    assert [each for each, *_ in calls(resource, changed)] == [f"update_{kind}_postcommit"]
    assert [each for each, *_ in calls(changed, None)] == [f"delete_{kind}_postcommit"]


def test_a_port_that_is_created_bound_is_created_unbound_and_then_bound() -> None:
    assert calls(None, port("h1", "other")) == [
        ("create_port_postcommit", "", "unbound"),
        ("update_port_postcommit", "unbound", "other"),
    ]


def test_a_port_that_is_not_bound_or_gets_bound_is_one_call() -> None:
    assert calls(None, port()) == [("create_port_postcommit", "", "unbound")]
    failed = port("h1", "binding_failed")
    assert calls(failed, port("h1", "other")) == [
        ("update_port_postcommit", "binding_failed", "other")
    ]
    assert calls(port("h1", "other"), port()) == [("update_port_postcommit", "other", "unbound")]


def test_a_bound_port_that_moves_is_unbound_in_between() -> None:
    assert calls(port("h1", "other"), port("h2", "other")) == [
        ("update_port_postcommit", "other", "unbound"),
        ("update_port_postcommit", "unbound", "other"),
    ]
    moved = samples.change(port("h1", "other"), port("h2", "other"))
    between = plan_calls(moved)[0].current
    assert isinstance(between, Port)
    assert (between.binding.host, between.status) == ("h2", Status.DOWN)


def test_a_bound_port_with_another_name_is_one_call_and_stays_bound() -> None:
    bound = port("h1", "other")
    assert calls(bound, evolve(bound, name="x")) == [("update_port_postcommit", "other", "other")]
    assert calls(bound, None) == [("delete_port_postcommit", "", "other")]


def test_the_segment_of_a_port_is_noted_or_the_only_one_of_its_network() -> None:
    assert bound_segment("x", port(), samples.SEGMENTS) is None
    assert bound_segment("x", port("h1", "other"), (VLAN,)) == VLAN
    assert bound_segment("x", port("h1", "other", VXLAN.id), samples.SEGMENTS) == VXLAN


@pytest.mark.parametrize("segment", [None, DYNAMIC.id])
def test_an_unknown_segment_of_a_port_is_refused_by_name(segment: object) -> None:
    with pytest.raises(NotSupported, match="'acme' needs the segment of port"):
        bound_segment("acme", port("h1", "ovs", segment), samples.SEGMENTS)


def test_the_first_level_above_a_dynamic_segment_is_the_only_static_one() -> None:
    network = evolve(samples.NETWORK, segments=(samples.VXLAN,))
    below = port("h1", "other", DYNAMIC.id)
    assert top_segment("x", below, network, (VXLAN, DYNAMIC)) == VXLAN
    assert top_segment("x", port(), network, (VXLAN, DYNAMIC)) is None
    with pytest.raises(NotSupported, match="'x' needs the first level"):
        top_segment("x", below, samples.NETWORK, (*samples.SEGMENTS, DYNAMIC))
