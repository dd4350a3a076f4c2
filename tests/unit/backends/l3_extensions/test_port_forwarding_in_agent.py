"""Port forwarding in an L3 agent: contributions and statuses."""

from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l3.router_state import NOT_CONTRIBUTED
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.subscription import Service
from netfw.model.floating_ip import ForwardedProtocol, PortForwarding
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import PortForwardingId, PortId
from netfw.model.values.port_range import PortRange
from netfw_drivers.l3_extensions.port_forwarding import PortForwardingExtension
from tests.unit.agents.l3.distributed import (
    CENTRAL,
    DVR,
    ELSEWHERE,
    distributed_environments,
    instance,
)
from tests.unit.agents.l3.environment import EDGE, HERE, assigned, environments, floating_ip

ONE = floating_ip(20, EDGE)
SHARED = floating_ip(30, EDGE, None, port_id=None)
FORWARDING = PortForwarding(
    id=PortForwardingId(UUID(int=1)), floating_ip_id=SHARED.id, revision=1,
    protocol=ForwardedProtocol.TCP, external_ports=PortRange.single(2222),
    internal_ports=PortRange.single(22), internal_port_id=PortId(UUID(int=1)),
    internal_address="10.1.0.11",
)  # fmt: skip


@pytest.fixture
def environment():
    with environments() as make:
        yield make


@pytest.mark.spec("L3-80")
def test_floating_ip_of_forwarded_ports_has_the_status_of_its_router(environment):
    found = environment(SHARED, FORWARDING, extensions=[PortForwardingExtension()])
    found.ready()
    (contribution,) = found.router.routers()[EDGE.id].contributions
    assert [each.ip for each in contribution.addresses] == [SHARED.address]
    assert found.report(SHARED) == ("ACTIVE", "")
    assert not found.router.floating_ips()
    found.source.put(evolve(SHARED, revision=2))
    found.ready()
    report = found.source.status(ref(SHARED), Service.L3)
    assert (report.revision, report.status) == (2, Status.ACTIVE)
    found.source.remove(ref(FORWARDING))
    found.ready()
    assert found.router.routers()[EDGE.id].contributions == ()
    assert found.report(SHARED) == ("DOWN", NOT_CONTRIBUTED)


@pytest.mark.spec("L3-80")
def test_floating_ip_of_forwarded_ports_is_down_without_the_extension(environment):
    found = environment(SHARED, FORWARDING)
    found.ready()
    assert found.report(SHARED) == ("DOWN", NOT_CONTRIBUTED)


@pytest.mark.spec("L3-80")
def test_floating_ip_of_forwarded_ports_fails_and_recovers_with_its_router(environment):
    found = environment(ONE, SHARED, extensions=[PortForwardingExtension()])
    found.ready()
    found.router.machine.refused[RouterKey(EDGE.id)] = "no such target"
    found.source.put(FORWARDING)
    found.until(lambda status: found.report(SHARED)[0] == "ERROR")
    assert "no such target" in found.report(SHARED)[1]
    assert found.report(ONE) == ("ACTIVE", "")
    found.router.machine.refused.clear()
    found.ready(pace=1.0)
    assert (found.report(EDGE), found.report(SHARED)) == (("ACTIVE", ""), ("ACTIVE", ""))


@pytest.mark.spec("L3-80")
def test_floating_ip_changes_between_a_port_and_forwarded_ports(environment):
    found = environment(ONE, extensions=[PortForwardingExtension()])
    found.ready()
    bare = evolve(ONE, port_id=None, fixed_address=None, revision=2)
    found.source.put(bare)
    found.source.put(evolve(FORWARDING, floating_ip_id=ONE.id))
    found.ready()
    assert not found.router.floating_ips()
    assert len(found.router.routers()[EDGE.id].contributions) == 1
    assert found.report(bare) == ("ACTIVE", "")
    found.source.remove(ref(FORWARDING))
    found.source.put(evolve(ONE, revision=3))
    found.ready()
    assert found.router.floating_ips().keys() == {ONE.id}
    assert found.router.routers()[EDGE.id].contributions == ()


@pytest.mark.spec("L3-80", "L3-63")
def test_forwarded_ports_of_a_distributed_router_are_at_its_central_part():
    shared = evolve(SHARED, router_id=DVR.id)
    with distributed_environments() as make:
        extensions = [PortForwardingExtension()]
        found = make(
            *CENTRAL, shared, FORWARDING, assigned(DVR),
            agent_mode="dvr_snat", extensions=extensions,
        )  # fmt: skip
        found.ready()
        (contribution,) = found.router.routers()[DVR.id].contributions
        assert [each.ip for each in contribution.addresses] == [shared.address]
        assert found.report(shared) == ("ACTIVE", "")
        mine = instance(11, HERE)
        compute = make(*ELSEWHERE, shared, FORWARDING, mine, extensions=extensions)
        compute.ready()
        assert compute.router.routers()[DVR.id].contributions == ()
        assert compute.report(shared) is None
