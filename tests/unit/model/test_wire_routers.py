"""Routers, floating IPs and port forwardings on the wire."""

from __future__ import annotations

from netfw.model import (
    ExternalGateway,
    FixedIp,
    FloatingIp,
    Kind,
    PortForwarding,
    PortRange,
    Router,
)
from netfw.model.wire import parse, render
from tests.unit.model.wire_samples import (
    ID_A,
    ID_B,
    ID_C,
    A,
    B,
    C,
    problems,
)


def test_a_router_is_read_with_its_gateway() -> None:
    body = {
        "id": A,
        "external_gateway_info": {
            "network_id": B,
            "enable_snat": False,
            "external_fixed_ips": [{"subnet_id": C, "ip_address": "192.0.2.7"}],
        },
    }
    gateway = ExternalGateway(
        network_id=ID_B,
        enable_snat=False,
        fixed_ips=[FixedIp(subnet_id=ID_C, address="192.0.2.7")],
    )
    assert parse(Kind.ROUTER, body) == Router(id=ID_A, gateway=gateway)
    assert parse(Kind.ROUTER, {"id": A, "external_gateway_info": None}) == Router(id=ID_A)
    assert problems(Kind.ROUTER, id=A, external_gateway_info={"network": B}) == {
        "external_gateway_info.network_id": "is required",
        "external_gateway_info.network": "unknown attribute, did you mean 'network_id'?",
    }


def test_a_virtual_router_id_is_on_the_wire_only_if_there_is_one() -> None:
    router = Router(id=ID_A, ha=True, vrid=7)
    assert render(router)["vrid"] == 7
    assert parse(Kind.ROUTER, render(router)) == router
    assert "vrid" not in render(Router(id=ID_A, ha=True))
    for vrid in (0, 256):
        assert problems(Kind.ROUTER, id=A, vrid=vrid) == {"vrid": f"{vrid} is outside 1 to 255"}


def test_a_floating_ip_keeps_its_two_addresses_apart() -> None:
    body = {
        "id": A,
        "floating_network_id": B,
        "floating_ip_address": "192.0.2.7",
        "fixed_ip_address": "10.0.0.5",
        "port_id": C,
    }
    assert parse(Kind.FLOATING_IP, body) == FloatingIp(
        id=ID_A, network_id=ID_B, address="192.0.2.7", fixed_address="10.0.0.5", port_id=ID_C
    )


def test_forwarded_ports_are_read_as_one_port_or_as_a_range() -> None:
    body = {
        "id": A,
        "floatingip_id": B,
        "protocol": "TCP",
        "internal_port_id": C,
        "internal_ip_address": "10.0.0.5",
        "external_port_range": "1000:1009",
        "internal_port": 22,
    }
    read = parse(Kind.PORT_FORWARDING, body)
    assert isinstance(read, PortForwarding)
    assert (read.external_ports, read.internal_ports) == (PortRange(1000, 1009), PortRange(22, 22))
    written = render(read)
    assert "external_port" not in written
    assert (written["internal_port"], written["internal_port_range"]) == (22, "22:22")
    assert problems(Kind.PORT_FORWARDING, **body, internal_port_range="23:23") == {
        "internal_port_range": "contradicts internal_port"
    }
    assert problems(Kind.PORT_FORWARDING, **body | {"external_port_range": "0:70000"}).keys() == {
        "external_port_range"
    }
