"""Rules and addresses of port forwardings, as values."""

from ipaddress import ip_interface
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.router_contribution import RuleChain, RuleTable
from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.router import Router
from netfw.model.values.ids import FloatingIpId, PortForwardingId, PortId
from netfw.model.values.port_range import PortRange
from netfw.testing.conformance.router.factories import Site, make_site
from netfw_drivers.l3_extensions.port_forwarding import PortForwardingExtension

SITE = make_site()
GRANT = Grant(owner=PortForwardingExtension.NAME, cookie=0, cookie_mask=0, prefix="x-")
ADDRESS = "203.0.113.60"


def floating_ip(number=60, **values):
    given = {
        "id": FloatingIpId(UUID(int=number)), "network_id": SITE.external.id,
        "address": f"203.0.113.{number}", "router_id": SITE.router, **values,
    }  # fmt: skip
    return FloatingIp(**given)


SHARED = floating_ip()


def forwarding(external, internal, protocol="tcp", number=1, of=SHARED):
    return PortForwarding(
        id=PortForwardingId(UUID(int=number)), floating_ip_id=of.id,
        protocol=ForwardedProtocol(protocol), external_ports=PortRange(*external),
        internal_ports=PortRange(*internal), internal_port_id=PortId(UUID(int=7)),
        internal_address="10.0.1.20",
    )  # fmt: skip


def contribute(*related, site: Site = SITE):
    view = ExtendedRouter(router=Router(id=site.router), state=site.state, related=related)
    return PortForwardingExtension().contribute(site.router, view, GRANT)


@pytest.mark.spec("L3-80")
@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
@pytest.mark.parametrize(
    ("external", "internal", "dport", "to"),
    [
        ((2222, 2222), (22, 22), "2222", "10.0.1.20:22"),
        ((80, 80), (80, 80), "80", "10.0.1.20"),
        ((5000, 5009), (6000, 6009), "5000:5009", "10.0.1.20:6000-6009/5000"),
        ((5000, 5009), (5000, 5009), "5000:5009", "10.0.1.20"),
        ((5000, 5009), (22, 22), "5000:5009", "10.0.1.20:22"),
        ((65534, 65535), (1, 2), "65534:65535", "10.0.1.20:1-2/65534"),
    ],
)
def test_ports_are_mapped(protocol, external, internal, dport, to):
    made = contribute(SHARED, forwarding(external, internal, protocol))
    (rule,) = made.rules
    assert (rule.table, rule.chain, rule.ip_version) == (RuleTable.NAT, RuleChain.PREROUTING, 4)
    assert rule.floating_ip == SHARED.id
    assert " ".join(rule.words) == (
        f"-d {ADDRESS}/32 -p {protocol} -m {protocol} --dport {dport} -m comment "
        f"--comment pf-{UUID(int=1)} -j DNAT --to-destination {to}"
    )


def test_each_floating_ip_has_its_address_once():
    other = floating_ip(61)
    made = contribute(
        SHARED, forwarding((1, 1), (1, 1)), forwarding((2, 2), (2, 2), number=2),
        other, forwarding((1, 1), (3, 3), number=3, of=other),
    )  # fmt: skip
    assert made.owner == PortForwardingExtension.NAME
    assert made.addresses == (ip_interface(f"{ADDRESS}/32"), ip_interface("203.0.113.61/32"))
    assert [rule.words[1] for rule in made.rules] == [f"{ADDRESS}/32"] * 2 + ["203.0.113.61/32"]


@pytest.mark.parametrize(
    "related",
    [
        (),
        (SHARED,),
        (forwarding((1, 1), (1, 1)),),
        (
            evolve(SHARED, port_id=PortId(UUID(int=8)), fixed_address="10.0.1.21"),
            forwarding((1, 1), (1, 1)),
        ),
        (evolve(SHARED, address="2001:db8::1"), forwarding((1, 1), (1, 1))),
    ],
)
def test_nothing_is_contributed_without_a_forwarded_port(related):
    assert contribute(*related) is None


def test_nothing_is_contributed_without_a_gateway():
    inside = SITE.with_full(gateway=None)
    assert contribute(SHARED, forwarding((1, 1), (1, 1)), site=inside) is None
