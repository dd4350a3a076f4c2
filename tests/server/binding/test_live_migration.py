"""Inactive bindings of a port: prepared on another host, activated there, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import Binding as DriverBinding
from netfw.drivers.server.mechanism import BindingRequest, Partial, Refused
from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict, InvalidInput, NotFound
from netfw.model import NetworkId, Segment, SegmentId
from netfw.model.binding import Binding
from netfw.model.resource import Kind, ref
from netfw.model.segment import NetworkType
from netfw.model.values.common_fields import Status
from netfw.server.binding.inactive_bindings import MAX_INACTIVE
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l2.port_status import PortStatuses
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.binding.answering_drivers import Answering
from tests.server.l2.environment import ADMIN, PortsEnvironment, provider

pytestmark = pytest.mark.spec("ML2-08")


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    made = PortsEnvironment(context)
    made.host("h1", integration_bridge="br-one")
    made.host("h2", integration_bridge="br-two")
    return made


def instance_port(env: PortsEnvironment, network: NetworkId | None = None, host: str = "h1") -> Any:
    network = env.network() if network is None else network
    return env.create(network, ADMIN, binding__host_id=host, device_owner="compute:nova")


def prepare(env: PortsEnvironment, port: Any, host: str = "h2", **other: Any) -> Any:
    body = {"port_id": port["id"], "host": host, "vnic_type": "normal", "profile": {}, **other}
    return env.plugin.create(ADMIN, "binding", [body])[0]


def activate(env: PortsEnvironment, port: Any, host: str = "h2") -> Any:
    return env.plugin.member_action(ADMIN, "binding", f"{port['id']}/{host}", "activate", {})


def drop(env: PortsEnvironment, port: Any, host: str) -> None:
    env.plugin.delete(ADMIN, "binding", f"{port['id']}/{host}")


def shown(env: PortsEnvironment, port: Any) -> dict[str, str]:
    """Return the status of each binding by host."""
    query = Query(filters={"port_id": (port["id"],)})
    return {each["host"]: each["status"] for each in env.plugin.find(ADMIN, "binding", query)}


def report_active(env: PortsEnvironment, port: Any, host: str) -> None:
    value = env.value(port)
    PortStatuses(env.context)(
        [
            StatusReport(
                ref=ref(value),
                revision=value.revision,
                host=host,
                service=Service.L2,
                status=Status.ACTIVE,
            )
        ]
    )


def test_an_inactive_binding_is_bound_for_its_host_and_leaves_the_port_alone(
    env: PortsEnvironment,
) -> None:
    port = instance_port(env)
    report_active(env, port, "h1")
    made = prepare(env, port, profile={"migrating": "yes"})
    assert made == {
        "port_id": port["id"],
        "project_id": "admin",
        "host": "h2",
        "vnic_type": "normal",
        "vif_type": "ovs",
        "vif_details": {**port["binding:vif_details"], "bridge_name": "br-two"},
        "profile": {"migrating": "yes"},
        "status": "INACTIVE",
    }
    assert env.plugin.show(ADMIN, "binding", f"{port['id']}/h2") == made
    assert shown(env, port) == {"h1": "ACTIVE", "h2": "INACTIVE"}
    after = env.show(port, ADMIN)
    changed = {name for name, value in after.items() if port[name] != value}
    assert changed - {"updated_at"} == {"revision_number", "status"}
    assert after["status"] == "ACTIVE"
    binding = env.value(port).binding
    assert (binding.host, binding.prepared_hosts) == ("h1", {"h2"})


def test_activation_moves_the_port_and_leaves_an_inactive_binding(env: PortsEnvironment) -> None:
    port = instance_port(env)
    made = prepare(env, port, profile={"migrating": "yes"})
    report_active(env, port, "h1")
    before = env.show(port, ADMIN)
    changes: list[Change] = []
    env.context.precommit_hooks.append(lambda unit, change: changes.append(change))
    assert activate(env, port) == {**made, "status": "ACTIVE"}
    after = env.show(port, ADMIN)
    assert after["revision_number"] == before["revision_number"] + 1
    assert (after["binding:host_id"], after["status"]) == ("h2", "DOWN")
    assert after["binding:vif_details"]["bridge_name"] == "br-two"
    assert after["binding:profile"] == {"migrating": "yes"}
    assert shown(env, port) == {"h2": "ACTIVE", "h1": "INACTIVE"}
    assert env.value(port).binding.prepared_hosts == {"h1"}
    (change,) = changes  # floating IPs follow by the hooks of any other change of a port
    assert change.after == env.value(port)
    report_active(env, port, "h1")
    assert env.show(port, ADMIN)["status"] == "DOWN", "it is not on that host any more"
    report_active(env, port, "h2")
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
    drop(env, port, "h1")
    assert shown(env, port) == {"h2": "ACTIVE"}
    assert env.value(port).binding.prepared_hosts == frozenset()
    assert env.show(port, ADMIN)["status"] == "ACTIVE"


def test_activation_can_be_reversed(env: PortsEnvironment) -> None:
    port = instance_port(env)
    prepare(env, port)
    activate(env, port)
    activate(env, port, "h1")
    after = env.show(port, ADMIN)
    bound = {name: after[name] for name in after if name.startswith("binding:")}
    assert bound == {name: port[name] for name in bound}
    drop(env, port, "h2")
    assert env.value(port).binding == Binding(
        host="h1", vif_type="ovs", vif_details=env.value(port).binding.vif_details
    )


def test_an_old_report_does_not_count_after_a_return(env: PortsEnvironment) -> None:
    port = instance_port(env)
    prepare(env, port)
    report_active(env, port, "h1")
    activate(env, port)
    activate(env, port, "h1")
    id = env.value(port).id
    env.context.run(ADMIN, lambda unit: PortStatuses(env.context).reconsider(unit, [id]))
    assert env.show(port, ADMIN)["status"] == "DOWN"


def test_requests_that_are_refused(env: PortsEnvironment) -> None:
    port = instance_port(env)
    prepare(env, port)
    before = env.show(port, ADMIN)
    for host in ("h1", "h2"):
        with pytest.raises(Conflict, match=f"has a binding to host '{host}' already"):
            prepare(env, port, host)
    with pytest.raises(Conflict, match="is active already"):
        activate(env, port, "h1")
    with pytest.raises(Conflict, match="activate another one first"):
        drop(env, port, "h1")
    for missing in (activate, drop):
        with pytest.raises(NotFound, match="has no binding to host 'h3'"):
            missing(env, port, "h3")
        with pytest.raises(NotFound):
            missing(env, {"id": str(uuid4())}, "h1")
        with pytest.raises(NotFound):
            missing(env, {"id": "no"}, "h1")
    with pytest.raises(NotFound):
        env.plugin.update(ADMIN, "binding", f"{port['id']}/h3", {"profile": {}})
    assert env.show(port, ADMIN) == before


def test_a_host_that_no_driver_binds_is_refused_with_the_reasons(env: PortsEnvironment) -> None:
    port = instance_port(env)
    with pytest.raises(InvalidInput, match="host h9 has no Open vSwitch agent"):
        prepare(env, port, "h9")
    prepare(env, port)
    with pytest.raises(InvalidInput, match="direct is wanted"):
        env.plugin.update(ADMIN, "binding", f"{port['id']}/h2", {"vnic_type": "direct"})
    assert shown(env, port) == {"h1": "ACTIVE", "h2": "INACTIVE"}


@pytest.mark.parametrize("owner", ["", "network:dhcp", "baremetal:none"])
def test_only_ports_of_instances_have_several_bindings(env: PortsEnvironment, owner: str) -> None:
    port = env.create(env.network(), ADMIN, binding__host_id="h1", device_owner=owner)
    with pytest.raises(InvalidInput, match="only a port of an instance"):
        prepare(env, port)


def test_an_inactive_binding_can_be_deleted_when_the_instance_is_gone(
    env: PortsEnvironment,
) -> None:
    port = instance_port(env)
    prepare(env, port)
    env.update(port, ADMIN, device_owner="")
    with pytest.raises(InvalidInput, match="it is of no device"):
        activate(env, port)
    drop(env, port, "h2")
    assert shown(env, port) == {"h1": "ACTIVE"}


def test_inactive_bindings_have_a_limit(env: PortsEnvironment) -> None:
    port = instance_port(env)
    for number in range(MAX_INACTIVE):
        env.host(f"target{number}")
        prepare(env, port, f"target{number}")
    with pytest.raises(Conflict, match=f"has {MAX_INACTIVE} inactive bindings"):
        prepare(env, port)


def test_the_first_binding_of_a_port_is_active(env: PortsEnvironment) -> None:
    port = instance_port(env, host="")
    assert prepare(env, port)["status"] == "ACTIVE"
    assert env.show(port, ADMIN)["binding:host_id"] == "h2"
    assert shown(env, port) == {"h2": "ACTIVE"}


def test_bindings_change_one_by_one(env: PortsEnvironment) -> None:
    port = instance_port(env)
    prepare(env, port, profile={"a": "b"})
    changed = env.plugin.update(ADMIN, "binding", f"{port['id']}/h2", {"profile": {"c": "d"}})
    assert (changed["profile"], changed["status"]) == ({"c": "d"}, "INACTIVE")
    assert env.show(port, ADMIN)["binding:profile"] == {}
    changed = env.plugin.update(ADMIN, "binding", f"{port['id']}/h1", {"profile": {"e": "f"}})
    assert (changed["profile"], changed["status"]) == ({"e": "f"}, "ACTIVE")
    assert env.show(port, ADMIN)["binding:profile"] == {"e": "f"}
    activate(env, port)
    assert env.show(port, ADMIN)["binding:profile"] == {"c": "d"}


def test_a_port_that_is_moved_otherwise_keeps_its_other_bindings(env: PortsEnvironment) -> None:
    env.host("h3")
    port = instance_port(env)
    prepare(env, port)
    prepare(env, port, "h3")
    env.update(port, ADMIN, binding__host_id="h2")
    assert shown(env, port) == {"h2": "ACTIVE", "h3": "INACTIVE"}
    assert env.value(port).binding.prepared_hosts == {"h3"}
    env.update(port, ADMIN, binding__host_id="")
    assert shown(env, port) == {}
    assert env.value(port).binding.prepared_hosts == frozenset()


def test_dynamic_segments_live_as_long_as_any_binding(context: ServerContext) -> None:
    def below_host(request: BindingRequest) -> DriverBinding:
        if request.level:
            return Refused("only above")
        wants = provider(NetworkType.VLAN, {"h1": 111, "h2": 112}[request.host], "phys")
        return Partial(segment=request.segments[0].id, wants=wants)

    env = PortsEnvironment(context, (Answering("fabric", below_host), OvsMechanismDriver()))
    network = env.network()
    for host in ("h1", "h2"):
        env.host(host, bridge_mappings={"phys": "br-phys"}, tunnel_types=[])

    def vlans() -> set[int | None]:
        found = context.read(lambda view: view.resources.of_network(Kind.SEGMENT, network))
        providers = [cast(Segment, each).provider for each in found]
        return {each.segmentation_id for each in providers if each.physical_network}

    def vlan_of(port: Any) -> int | None:
        segment = env.segment(SegmentId(UUID(env.levels(port)[1]["segment_id"])))
        return cast(Segment, segment).provider.segmentation_id

    port, other = instance_port(env, network), instance_port(env, network, "")
    prepare(env, port)
    assert (vlan_of(port), vlans()) == (111, {111, 112})
    activate(env, port)
    assert (vlan_of(port), vlans()) == (112, {111, 112})
    env.update(other, ADMIN, binding__host_id="h1")
    env.update(other, ADMIN, binding__host_id="")
    assert vlans() == {111, 112}, "the inactive binding of the first port uses it"
    drop(env, port, "h1")
    assert vlans() == {112}
    prepare(env, port, "h1")
    env.delete(port, ADMIN)
    assert vlans() == set()


def test_a_refused_activation_changes_nothing(env: PortsEnvironment) -> None:
    def refuse(unit: UnitOfWork, change: Change) -> None:
        raise Conflict("not now")

    port = instance_port(env)
    prepare(env, port)
    before = env.show(port, ADMIN)
    env.context.precommit_hooks.append(refuse)
    with pytest.raises(Conflict, match="not now"):
        activate(env, port)
    assert env.show(port, ADMIN) == before
    assert shown(env, port) == {"h1": "ACTIVE", "h2": "INACTIVE"}
    assert not cast(Mapping[str, Any], before).keys() & {"binding:inactive", "binding:levels"}
