"""Parts of networks and ports that cannot be served: `DhcpDriver` promise 10."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver, DhcpKey
from netfw.errors import PartlyInvalid
from netfw.model.subnet import Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.dhcp.case import DhcpCase, MakeDriver
from netfw.testing.conformance.dhcp.factories import (
    ServedNetwork,
    Tenant,
    a_subnet,
    make_network,
    wanted,
)

_BOOT_FILE = 67
_GOOD = DhcpOption(name="bootfile-name", value="kernel")
_UNSENDABLE = {
    "an unknown name": DhcpOption(name="no-such-option", value="x"),
    "an option of the protocol": DhcpOption(name="54", value="10.0.0.1"),
    "a number that is none": DhcpOption(name="mtu", value="-5"),
    "an address that is none": DhcpOption(name="ntp-server", value="noon"),
}


class DhcpUnservablePartsConformance(DhcpCase):
    """What cannot be served is named, and takes nothing from the rest."""

    @proves(DhcpDriver, 10)
    @pytest.mark.parametrize("what", _UNSENDABLE)
    def test_an_option_that_cannot_be_sent_is_left_out_of_its_port(
        self, driver: DhcpDriver, what: str
    ) -> None:
        net = make_network()
        tenant = net.tenant(20, options=(_UNSENDABLE[what], _GOOD))
        outcome = self._offer(driver, net, tenant)
        self._assert_names(outcome, tenant.key, "options[0]")
        assert outcome.done == {net.key}, str(outcome)
        assert tenant.key in driver.present()
        assert self.leased(tenant)[1].options[_BOOT_FILE] == b"kernel"

    @proves(DhcpDriver, 10)
    def test_an_option_that_cannot_be_sent_is_left_out_of_its_network(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network(options=(_GOOD, _UNSENDABLE["a number that is none"]))
        tenant = net.tenant(20)
        outcome = self._offer(driver, net, tenant)
        self._assert_names(outcome, net.key, "options[1]")
        assert outcome.done == {tenant.key}, str(outcome)
        assert net.key in driver.present()
        assert self.leased(tenant)[1].options[_BOOT_FILE] == b"kernel"
        mended = net.but(options=(_GOOD,))
        self.bring(driver, mended)

    @proves(DhcpDriver, 10)
    def test_a_later_change_beside_an_option_that_cannot_be_sent_applies(
        self, make_driver: MakeDriver
    ) -> None:
        net = make_network()
        tenant = net.tenant(20, options=(_GOOD,))
        driver = make_driver()
        self.bring(driver, net, tenant)
        client, _ = self.leased(tenant)
        changed = tenant.but(
            options=(_UNSENDABLE["an unknown name"], evolve(_GOOD, value="another"))
        )
        self._assert_names(self._offer(driver, changed), tenant.key, "options[0]")
        assert self.renewed(client).options[_BOOT_FILE] == b"another"
        again = make_driver().converge(Update(put=wanted(net, changed), complete=True))
        self._assert_names(again, tenant.key, "options[0]")
        assert self.renewed(client).options[_BOOT_FILE] == b"another"

    @proves(DhcpDriver, 10)
    @pytest.mark.parametrize("first", [True, False])
    def test_a_subnet_that_cannot_be_served_takes_nothing_from_the_others(
        self, driver: DhcpDriver, first: bool
    ) -> None:
        good, bad = a_subnet(), _subnet("::ffff:10.0.0.0/120")
        net = make_network(*((bad, good) if first else (good, bad)))
        tenant = net.tenant(20, on=(1 if first else 0,))
        outcome = self._offer(driver, net, tenant)
        self._assert_served(outcome, net, f"subnets[{0 if first else 1}]")
        assert self.leased(tenant)[1].ip == tenant.ip
        later = net.tenant(30, on=(1 if first else 0,))
        self.bring(driver, later)
        assert self.leased(later)[1].ip == later.ip

    @proves(DhcpDriver, 10)
    @pytest.mark.parametrize("gateway", ["::1", "::", "ff02::1"])
    def test_a_gateway_that_is_none_takes_nothing_from_the_others(
        self, driver: DhcpDriver, gateway: str
    ) -> None:
        net = make_network(a_subnet(), _subnet("fd77::/64", gateway))
        tenant = net.tenant(20)
        outcome = self._offer(driver, net, tenant)
        self._assert_served(outcome, net, "subnets[1]")
        assert self.leased(tenant)[1].ip == tenant.ip

    def _offer(self, driver: DhcpDriver, *things: ServedNetwork | Tenant) -> Outcome[DhcpKey]:
        self.admit(*things)
        return driver.converge(Update(put=wanted(*things)))

    def _assert_served(self, outcome: Outcome[DhcpKey], net: ServedNetwork, part: str) -> None:
        """Check that a network is served, but for *part* if the driver cannot serve that."""
        assert net.key in outcome.in_force, str(outcome)
        if net.key in outcome.failed:
            self._assert_names(outcome, net.key, part)

    def _assert_names(self, outcome: Outcome[DhcpKey], key: DhcpKey, part: str) -> None:
        error = outcome.failed.get(key)
        assert isinstance(error, PartlyInvalid), str(outcome)
        assert [field for field in error.problems if field.startswith(part)], str(error)


def _subnet(prefix: str, gateway: str | None = None) -> Subnet:
    block = ip_network(prefix)
    by = None if gateway is None else ip_address(gateway)
    return evolve(a_subnet(gateway=None, dns_nameservers=()), cidr=block, gateway=by)
