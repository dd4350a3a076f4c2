"""Values of a router that contradict themselves are refused where they are made."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from uuid import UUID

import pytest

from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    MAX_HA_PEERS,
    CentralRouter,
    FloatingIpNat,
    FullRouter,
    Gateway,
    HighAvailability,
    LocalRouter,
    RouterDriverEntry,
    RouterPart,
    RouterPort,
    RouterState,
)

ID = UUID(int=1)
PORT = RouterPort(id=ID, network=ID, mac="fa:16:3e:00:00:01", addresses=())
GATEWAY = Gateway(port=PORT)


def test_a_host_has_the_full_router_or_parts_of_a_distributed_one() -> None:
    local, central = LocalRouter(), CentralRouter(gateway=GATEWAY)
    assert RouterState(full=FullRouter()).parts == {RouterPart.FULL}
    assert RouterState(local=local, central=central).parts == {RouterPart.LOCAL, RouterPart.CENTRAL}
    with pytest.raises(ValueError, match="a full part, or a local or central one"):
        RouterState()
    for other in ({"local": local}, {"central": central}):
        with pytest.raises(ValueError, match="neither a local nor a central part"):
            RouterState(full=FullRouter(), **other)


def test_a_gateway_has_one_next_hop_per_family() -> None:
    hops = [ip_address(text) for text in ("203.0.113.1", "2001:db8::1", "203.0.113.2")]
    assert Gateway(port=PORT, next_hops=tuple(hops[:2])).next_hops == tuple(hops[:2])
    with pytest.raises(ValueError, match="next_hops: 2 of IPv4"):
        Gateway(port=PORT, next_hops=tuple(hops))


def test_a_floating_ip_stays_in_its_family() -> None:
    with pytest.raises(ValueError, match="different families"):
        FloatingIpNat(
            router=ID,
            external_network=ID,
            floating_address=ip_address("203.0.113.5"),
            fixed_address=ip_address("2001:db8::5"),
        )


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_metadata_port_is_a_tcp_port(port: int) -> None:
    with pytest.raises(ValueError, match=r"metadata_port: -?\d+ is not within"):
        RouterState(full=FullRouter(), metadata_port=port)


@pytest.mark.spec("L3-40")
def test_vrid_priority_and_peers_of_a_highly_available_router_are_bounded() -> None:
    peers = tuple(IPv4Address("169.254.192.1") + n for n in range(MAX_HA_PEERS))
    for vrid, priority in ((1, 1), (255, 254)):
        ha = HighAvailability(port=PORT, vrid=vrid, priority=priority, peers=peers)
        assert (ha.vrid, ha.priority, ha.peers) == (vrid, priority, peers)
    for vrid in (0, 256):
        with pytest.raises(ValueError, match=r"vrid: \d+ is not within 1..255"):
            HighAvailability(port=PORT, vrid=vrid)
    for priority in (0, 255):
        with pytest.raises(ValueError, match=r"priority: \d+ is not within 1..254"):
            HighAvailability(port=PORT, vrid=1, priority=priority)
    with pytest.raises(ValueError, match="peers: 255, at most 254"):
        HighAvailability(port=PORT, vrid=1, peers=(*peers, IPv4Address("169.254.193.1")))


def test_each_key_of_a_router_driver_takes_its_own_value() -> None:
    state = RouterState(full=FullRouter())
    assert entry_error(RouterDriverEntry, RouterKey(ID), state) is None
    for key in (AgentGatewayKey(ID), FloatingIpKey(ID)):
        assert "RouterState is no value" in str(entry_error(RouterDriverEntry, key, state))
