"""Conntrack helpers on the Linux router driver, with FTP and TFTP through source NAT."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.errors import PartlyInvalid
from netfw.model.router import ConntrackHelper, HelperProtocol, Router
from netfw.model.values.ids import ConntrackHelperId
from netfw.plan import Update
from netfw.testing.conformance.router.case import MakeDriver, RouterCase
from netfw.testing.conformance.router.environment import RouterEnvironment
from netfw.testing.conformance.router.factories import Site, make_site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import TIMEOUT, wait_until
from netfw_drivers.l3_extensions.conntrack_helper import ConntrackHelperExtension
from tests.lab.backends.l3_extensions.dialogues import (
    FTP_PORT,
    TFTP_PORT,
    requested_address,
    transfer_starts,
)
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = [pytest.mark.services, pytest.mark.spec("L3-80")]


def helper(name: str, protocol: HelperProtocol, port: int) -> ConntrackHelper:
    return ConntrackHelper(id=ConntrackHelperId(uuid4()), helper=name, protocol=protocol, port=port)


FTP = helper("ftp", HelperProtocol.TCP, FTP_PORT)
TFTP = helper("tftp", HelperProtocol.UDP, TFTP_PORT)


def contribution(
    driver: RouterDriver, site: Site, *helpers: ConntrackHelper
) -> tuple[RouterContribution, ...]:
    """Return what the extension contributes to a router with *helpers*."""
    extension = ConntrackHelperExtension()
    router = Router(id=site.router, conntrack_helpers=helpers)
    grant = driver.grant(extension.grant_request())
    view = ExtendedRouter(router=router, state=site.state)
    made = extension.contribute(site.router, view, grant)
    return () if made is None else (made,)


class TestConntrackHelper(RouterCase):
    """Connections whose contents name addresses and ports, with and without helpers."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment() as environment:
            yield environment

    def ends(self, site: Site) -> tuple[Instance, Instance]:
        """Return an instance behind the router and one outside, which reach each other."""
        client, server = self.instance(site), self.outside(site)
        self.arrives(client, site.external.address(1))
        assert isinstance(client, LabMachine)
        assert isinstance(server, LabMachine)
        return client.instance, server.instance

    def test_helpers_translate_what_the_protocol_says(self, make_driver: MakeDriver) -> None:
        driver, site = make_driver(), make_site()
        inside, to = site.nets[0].address(20), site.external.address(1)
        self.bring(driver, site)
        client, server = self.ends(site)
        assert requested_address(client, inside, server, to) == str(inside)
        assert not transfer_starts(client, inside, server, to)
        helped = site.with_state(contributions=contribution(driver, site, FTP, TFTP))
        self.bring(driver, helped)
        outside_address = str(site.outside_address)
        assert requested_address(client, inside, server, to) == outside_address
        assert transfer_starts(client, inside, server, to, TIMEOUT)
        again = make_driver()
        update = Update(put=helped.wanted())
        again.grant(ConntrackHelperExtension().grant_request())
        assert not again.plan(update, again.observe(None))  # type: ignore[attr-defined]
        self.bring(again, site)
        wait_until(
            lambda: requested_address(client, inside, server, to) == str(inside),
            seconds=self.environment.timeout,
        )

    def test_every_allowed_helper_of_this_kernel_is_taken(self, make_driver: MakeDriver) -> None:
        driver, site = make_driver(), make_site()
        names = {
            HelperProtocol.TCP: ("ftp", "h323", "irc", "pptp", "sane", "sip"),
            HelperProtocol.UDP: ("amanda", "h323", "netbios-ns", "sip", "snmp", "tftp"),
        }
        helpers = [
            helper(name, protocol, 7000 + number)
            for protocol, several in names.items()
            for number, name in enumerate(several)
        ]
        helped = site.with_state(contributions=contribution(driver, site, *helpers))
        self.bring(driver, helped)

    def test_a_helper_that_the_kernel_lacks_is_left_out_alone(
        self, make_driver: MakeDriver
    ) -> None:
        driver, site = make_driver(), make_site()
        inside, to = site.nets[0].address(20), site.external.address(1)
        absent = helper("quake", HelperProtocol.UDP, 27960)
        helped = site.with_state(contributions=contribution(driver, site, absent, FTP))
        self.environment.admit(site.ports)
        outcome = driver.converge(Update(put=helped.wanted()))
        error = outcome.failed[site.key]
        assert isinstance(error, PartlyInvalid), str(outcome)
        assert error.problems.keys() == {
            f"IPv{version} conntrack helper quake for udp port 27960" for version in (4, 6)
        }
        assert "quake" in str(error)
        self.environment.await_wired(site.ports)
        client, server = self.ends(site)
        assert requested_address(client, inside, server, to) == str(site.outside_address)
        self.bring(driver, site.with_state(contributions=contribution(driver, site, FTP)))
