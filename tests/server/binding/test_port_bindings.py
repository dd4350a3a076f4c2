"""Bindings: by the first driver that binds, level by level, or with every reason why not."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    Partial,
    Refused,
)
from netfw.drivers.server.query import Query
from netfw.errors import NotFound, NotSupported
from netfw.model import NetworkId, SegmentId
from netfw.model.resource import Kind
from netfw.model.segment import NetworkType
from netfw.server.binding.port_bindings import PortBindingHandler
from netfw.server.core.server_context import ServerContext
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.binding.answering_drivers import Answering, binding, reasons, refusing
from tests.server.l2.environment import ADMIN, PortsEnvironment, provider


@pytest.mark.spec("ML2-04")
@pytest.mark.spec("ML2-05")
def test_a_port_with_a_host_is_bound_in_the_answer(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.host("h1")
    port = env.create(network, ADMIN, binding__host_id="h1")
    assert port["binding:vif_type"] == "ovs"
    assert port["binding:vif_details"]["bridge_name"] == "br-int"
    assert port["revision_number"] == 1
    assert env.show(port, ADMIN) == port
    assert env.value(port).binding.vif_type == "ovs"


@pytest.mark.spec("ML2-04")
def test_where_no_driver_binds_all_their_reasons_can_be_read(
    context: ServerContext,
) -> None:
    env = PortsEnvironment(context, (refusing("first"), OvsMechanismDriver(), refusing("last")))
    port = env.create(env.network(), ADMIN, binding__host_id="h9")
    assert reasons(port) == [
        "first: not mine",
        "openvswitch: host h9 has no Open vSwitch agent: it has no agent",
        "last: not mine",
    ]
    assert reasons(env.show(port, ADMIN)) == reasons(port)
    assert port["status"] == "DOWN"


def test_a_dead_agent_binds_nothing(env: PortsEnvironment, network: NetworkId) -> None:
    env.host("h1", alive=False)
    (reason,) = reasons(env.create(network, ADMIN, binding__host_id="h1"))
    assert "is dead: it sent no heartbeat" in reason


@pytest.mark.spec("ML2-04")
def test_a_port_is_bound_anew_when_its_host_or_card_changes(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.host("h1")
    env.host("h2", bridge_mappings={}, integration_bridge="br-two")
    port = env.create(network)
    moved = env.update(port, ADMIN, binding__host_id="h1")
    assert moved["binding:vif_type"] == "ovs"
    moved = env.update(port, ADMIN, binding__host_id="h2")
    assert moved["binding:host_id"] == "h2"
    direct = env.update(port, ADMIN, binding__vnic_type="direct")
    assert "direct is wanted" in reasons(direct)[0]
    normal = env.update(port, ADMIN, binding__vnic_type="normal")
    assert normal["binding:vif_type"] == "ovs"
    same = env.update(port, ADMIN, binding__host_id="h2")
    assert same["revision_number"] == normal["revision_number"]
    gone = env.update(port, ADMIN, binding__host_id="")
    assert (gone["binding:vif_type"], gone["binding:vif_details"]) == ("unbound", {})


def test_a_driver_sees_the_subnets_of_the_network(context: ServerContext) -> None:
    seen: list[str] = []

    def look(request: BindingRequest) -> Binding:
        seen.extend(str(subnet.cidr) for subnet in request.subnets)
        return Refused("not mine")

    env = PortsEnvironment(context, (Answering("looking", look),))
    network = env.network()
    env.subnet(network, "10.0.0.0/24")
    env.create(network, ADMIN, binding__host_id="h1")
    assert seen == ["10.0.0.0/24"]


def test_a_profile_that_changes_is_looked_at_again(context: ServerContext) -> None:
    seen: list[dict[str, Any]] = []

    def look(request: BindingRequest) -> Binding:
        seen.append(request.port.binding.profile.content())
        return Bound(segment=request.segments[0].id, vif_type="x")

    env = PortsEnvironment(context, (Answering("looking", look),))
    port = env.create(env.network(), ADMIN, binding__host_id="h1")
    env.update(port, ADMIN, binding__profile={"slot": "1"})
    env.update(port, ADMIN, name="other")
    assert seen == [{}, {"slot": "1"}]


@pytest.mark.spec("ML2-04")
def test_ports_that_failed_are_bound_when_their_agent_arrives(
    env: PortsEnvironment, network: NetworkId
) -> None:
    ports = [env.create(network, ADMIN, binding__host_id="h1") for _ in range(3)]
    other = env.create(network, ADMIN, binding__host_id="h2")
    env.host("h1")
    assert env.context.run(ADMIN, lambda unit: env.binder.rebind_failed(unit, "h1")) == 3
    assert {env.show(port, ADMIN)["binding:vif_type"] for port in ports} == {"ovs"}
    assert {env.show(port, ADMIN)["revision_number"] for port in ports} == {2}
    assert env.context.run(ADMIN, lambda unit: env.binder.rebind_failed(unit, "h1")) == 0
    assert env.context.run(ADMIN, lambda unit: env.binder.rebind_failed(unit, "h2")) == 0
    assert env.show(other, ADMIN)["revision_number"] == 1


def test_naming_the_host_again_retries_a_failed_binding(
    env: PortsEnvironment, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, binding__host_id="h1")
    env.host("h1")
    assert env.update(port, ADMIN, name="x")["binding:vif_type"] == "binding_failed"
    assert env.update(port, ADMIN, binding__host_id="h1")["binding:vif_type"] == "ovs"


@pytest.mark.spec("ML2-05")
def test_the_first_segment_that_the_host_reaches_is_taken(env: PortsEnvironment) -> None:
    many = env.network(
        provider(NetworkType.VLAN, 100, "far"), provider(NetworkType.VLAN, 101, "near")
    )
    env.host("h1", bridge_mappings={"near": "br-near"})
    port = env.create(many, ADMIN, binding__host_id="h1")
    assert port["binding:vif_type"] == "ovs"
    levels = env.levels(port)
    used = env.segment(SegmentId(UUID(levels[0]["segment_id"])))
    assert used.provider.physical_network == "near"


@pytest.mark.spec("ML2-15")
def test_on_a_userspace_datapath_a_port_is_bound_by_a_socket(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.host(
        "h1",
        datapath_type="netdev",
        ovs_capabilities=["dpdkvhostuserclient"],
        vhostuser_socket_dir="/run/vhost",
    )
    port = env.create(network, ADMIN, binding__host_id="h1")
    assert port["binding:vif_type"] == "vhostuser"
    assert port["binding:vif_details"]["vhostuser_mode"] == "server"
    assert port["binding:vif_details"]["vhostuser_socket"] == f"/run/vhost/vhu{port['id']}"[:25]


def test_an_interface_of_a_distributed_router_is_on_all_hosts(
    env: PortsEnvironment, network: NetworkId
) -> None:
    interface = {"device_owner": "network:router_interface_distributed", "device_id": str(uuid4())}
    port = env.create(network, ADMIN, **interface)
    assert (port["binding:vif_type"], port["binding:host_id"]) == ("distributed", "")
    plain = env.update(env.create(network), ADMIN, **interface)
    assert plain["binding:vif_type"] == "distributed"


# Several levels.


def handing_down(name: str = "fabric", physical: str = "phys") -> Answering:
    """Return a driver that binds its segment and requests a VLAN below it."""

    def answer(request: BindingRequest) -> Binding:
        if request.level:
            return Refused("only above")
        wants = provider(NetworkType.VLAN, None, physical)
        return Partial(segment=request.segments[0].id, wants=wants)

    return Answering(name, answer)


@pytest.mark.spec("ML2-04")
def test_a_driver_hands_down_a_segment_that_lives_as_long_as_its_ports(
    context: ServerContext,
) -> None:
    env = PortsEnvironment(context, (handing_down(), OvsMechanismDriver()))
    network = env.network()
    env.host("h1", bridge_mappings={"phys": "br-phys"}, tunnel_types=[])
    one, two = (env.create(network, ADMIN, binding__host_id="h1") for _ in range(2))
    assert one["binding:vif_type"] == "ovs"
    upper, lower = env.levels(one)
    assert (upper["driver"], lower["driver"]) == ("fabric", "openvswitch")
    below = env.segment(SegmentId(UUID(lower["segment_id"])))
    assert (below.provider.physical_network, below.network_id) == ("phys", network)
    assert env.levels(two)[1] == lower
    env.delete(one, ADMIN)
    assert env.segment(below.id) == below
    env.update(two, ADMIN, binding__host_id="")
    assert env.segment(below.id) is None
    three = env.create(network, ADMIN, binding__host_id="h1")
    number = env.segment(SegmentId(UUID(env.levels(three)[1]["segment_id"]))).provider
    assert number == below.provider  # the number was given back


def test_an_unused_dynamic_segment_is_released(context: ServerContext) -> None:
    env = PortsEnvironment(context, (handing_down(), refusing("lower"), binding("plain")))
    port = env.create(env.network(), ADMIN, binding__host_id="h1")
    assert port["binding:vif_type"] == "plain"
    assert [level["driver"] for level in env.levels(port)] == ["fabric", "plain"]
    env = PortsEnvironment(context, (handing_down(), refusing("lower")))
    network = env.network()
    port = env.create(network, ADMIN, binding__host_id="h1")
    assert reasons(port) == ["lower (level 1): not mine", "lower: not mine"]
    segments = context.read(lambda view: view.resources.of_network(Kind.SEGMENT, network))
    assert len(segments) == 1


def test_an_unavailable_dynamic_segment_is_a_reason(context: ServerContext) -> None:
    env = PortsEnvironment(context, (handing_down(physical="unknown"),))
    (reason,) = reasons(env.create(env.network(), ADMIN, binding__host_id="h1"))
    assert reason.startswith("fabric: its segment cannot be had: ")


# The loop alone.


# The sub-resource.


@pytest.mark.spec("API-06")
def test_bindings_are_shown_below_their_port(env: PortsEnvironment, network: NetworkId) -> None:
    env.host("h1")
    handler = PortBindingHandler(env.handler, env.binder)
    port = env.create(network, ADMIN, binding__host_id="h1", binding__profile={"a": "b"})
    find = Query(filters={"port_id": (port["id"],)})
    (shown,) = env.context.read(lambda view: handler.find(view, ADMIN, find))
    assert shown == {
        "port_id": port["id"],
        "project_id": "admin",
        "host": "h1",
        "vnic_type": "normal",
        "vif_type": "ovs",
        "vif_details": port["binding:vif_details"],
        "profile": {"a": "b"},
        "status": "ACTIVE",
    }
    one = env.context.read(lambda view: handler.show(view, ADMIN, f"{port['id']}/h1"))
    assert one == shown
    for missing in (f"{port['id']}/h2", f"{uuid4()}/h1", "no/h1"):
        with pytest.raises(NotFound):
            env.context.read(lambda view, id=missing: handler.show(view, ADMIN, id))
    free = Query(filters={"port_id": (env.create(network)["id"],)})
    assert env.context.read(lambda view: handler.find(view, ADMIN, free)) == ()
    with pytest.raises(NotSupported):
        env.context.run(ADMIN, lambda unit: handler.act(unit, "x", "deactivate", {}))
