"""Addresses that keepalived has not applied yet.  Values only."""

from __future__ import annotations

from ipaddress import ip_interface
from uuid import uuid4

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import FloatingIpNat
from netfw.model.values.address import as_address
from netfw.model.values.ids import FloatingIpId, NetworkId, RouterId
from netfw.plan import Update
from netfw_drivers.linux_router.config.keepalived import VirtualAddress
from netfw_drivers.linux_router.plan.unapplied_addresses import unapplied_errors
from tests.unit.backends.linux_router.samples import KEY, STATE


def nat(floating: str, router: RouterId = KEY.router) -> FloatingIpNat:
    return FloatingIpNat(
        router=router,
        external_network=NetworkId(uuid4()),
        floating_address=as_address(floating),
        fixed_address=as_address("10.0.0.9"),
    )


def test_router_and_the_floating_ips_without_their_addresses_fail():
    missing, present, elsewhere = (FloatingIpKey(FloatingIpId(uuid4())) for _ in range(3))
    address = "203.0.113.50"
    put = {
        KEY: STATE,
        missing: nat(address),
        present: nat("203.0.113.51"),
        elsewhere: nat(address, RouterId(uuid4())),
    }
    unapplied = [VirtualAddress("qg-1", ip_interface(address))]
    errors = unapplied_errors(Update(put=put), KEY.router, unapplied)
    assert errors.keys() == {KEY, missing}
    assert all(address in str(error) and error.retryable for error in errors.values())
    assert unapplied_errors(Update(put=put), KEY.router, ()) == {}


def test_error_names_a_few_addresses_only():
    many = [VirtualAddress("qg-1", ip_interface(f"203.0.113.{n}")) for n in range(50, 60)]
    (error,) = unapplied_errors(Update(put={KEY: STATE}), KEY.router, many).values()
    assert "203.0.113.52/32 and 7 more" in str(error)
