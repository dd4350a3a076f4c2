"""Limits of floating IPs and gateways in an L3 agent: a changed policy reaches them."""

from uuid import UUID

import pytest
from attrs import evolve

from netfw.model.qos import BandwidthLimit, DscpMarking, QosPolicy
from netfw.model.resource import ref
from netfw.model.router import ExternalGateway
from netfw.model.security_group import Direction
from netfw.model.values.ids import QosPolicyId, QosRuleId
from netfw_drivers.l3_extensions.fip_qos import FloatingIpQosExtension
from netfw_drivers.l3_extensions.gateway_ip_qos import GatewayIpQosExtension
from tests.unit.agents.l3.distributed import DVR, ELSEWHERE, distributed_environments, instance
from tests.unit.agents.l3.environment import EDGE, EDGE_OUT, HERE, environments, floating_ip

pytestmark = pytest.mark.spec("L3-80")

SLOW = QosPolicy(
    id=QosPolicyId(UUID(int=1)),
    name="slow",
    revision=1,
    rules=(BandwidthLimit(id=QosRuleId(UUID(int=2)), max_kbps=1000),),
)
ONE, TWO = floating_ip(20, EDGE, qos_policy_id=SLOW.id), floating_ip(21, EDGE, "10.1.0.12")


@pytest.fixture
def environment():
    with environments() as make:
        yield make


def limits(found, router=EDGE):
    """Return the rates of addresses, as the driver has them."""
    found.ready()
    return {
        str(qos.address): (str(qos.fixed_address), [rule.max_kbps for rule in qos.rules])
        for contribution in found.router.routers()[router.id].contributions
        for qos in contribution.qos
    }


def with_rate(kbps, revision):
    rule = BandwidthLimit(id=QosRuleId(UUID(int=2)), max_kbps=kbps, direction=Direction.INGRESS)
    return evolve(SLOW, rules=(rule,), revision=revision)


def test_floating_ips_have_the_limits_of_their_policies(environment):
    found = environment(ONE, TWO, SLOW, extensions=[FloatingIpQosExtension()])
    assert limits(found) == {"10.9.0.20": ("10.1.0.11", [1000])}
    found.source.put(with_rate(500, 2))
    assert limits(found) == {"10.9.0.20": ("10.1.0.11", [500])}
    found.source.put(evolve(TWO, qos_policy_id=SLOW.id, revision=2))
    assert limits(found).keys() == {"10.9.0.20", "10.9.0.21"}
    found.source.put(evolve(ONE, qos_policy_id=None, revision=2))
    assert limits(found) == {"10.9.0.21": ("10.1.0.12", [500])}
    found.source.remove(ref(TWO))
    assert limits(found) == {}


def test_a_changed_policy_concerns_its_routers_alone(environment):
    found = environment(ONE, SLOW, extensions=[FloatingIpQosExtension()])
    found.ready()
    seen = found.router.routers()
    found.source.put(with_rate(500, 2))
    found.ready()
    now = found.router.routers()
    assert [id for id in now if now[id] is not seen[id]] == [EDGE.id]


def test_gateways_have_the_limits_of_their_policies_apart_from_floating_ips(environment):
    gateway = ExternalGateway(network_id=EDGE.gateway.network_id, qos_policy_id=SLOW.id)
    limited = evolve(EDGE, gateway=gateway, revision=2)
    found = environment(limited, ONE, SLOW, extensions=[GatewayIpQosExtension()])
    own = str(EDGE_OUT.fixed_ips[0].address)
    assert limits(found) == {own: ("None", [1000]), "10.9.0.20": ("10.1.0.11", [])}
    found.source.put(with_rate(500, 2))
    assert limits(found)[own] == ("None", [500])
    found.source.put(evolve(EDGE, revision=3))
    assert limits(found) == {}


def test_rules_that_are_no_limits_are_left_out(environment, caplog):
    mark = DscpMarking(id=QosRuleId(UUID(int=3)), dscp_mark=8)
    extensions = [FloatingIpQosExtension(), GatewayIpQosExtension()]
    gateway = ExternalGateway(network_id=EDGE.gateway.network_id, qos_policy_id=SLOW.id)
    found = environment(
        evolve(EDGE, gateway=gateway, revision=2), ONE, evolve(SLOW, rules=(mark,)),
        extensions=extensions,
    )  # fmt: skip
    assert limits(found) == {}
    logged = [record.getMessage() for record in caplog.records if "has no effect" in record.msg]
    assert {text.split(" ", 1)[0] for text in logged} == {"floating", "router"}


def test_floating_ips_of_a_distributed_router_are_limited_where_they_are():
    here = instance(11, HERE)
    floating = evolve(
        floating_ip(20, DVR, str(here.fixed_ips[0].address)),
        port_id=here.id, host=HERE, qos_policy_id=SLOW.id,
    )  # fmt: skip
    with distributed_environments() as make:
        found = make(*ELSEWHERE, here, floating, SLOW, extensions=[FloatingIpQosExtension()])
        assert limits(found, DVR) == {"10.9.0.20": (str(here.fixed_ips[0].address), [1000])}
