"""Text that would be more than one value in a server's files: `DhcpDriver` promise 8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from netfw.drivers.dhcp import DhcpDriver, DhcpKey
from netfw.errors import InvalidInput
from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.dhcp.case import DhcpCase
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant, make_network, wanted

MARK = "h0st1le"
"""In every hostile text, so that it can be looked for."""
_LINES = {
    "a new line": f"x\ndhcp-script=/{MARK}",
    "a return": f"x\rdhcp-script=/{MARK}",
    "a zero": f"x\0{MARK}",
    "a vertical tab": f"x\x0b{MARK}",
    "a next line": f"x\x85{MARK}",
    "a line separator": f"x\u2028{MARK}",
    "an escape": f"x\x1b[2J{MARK}",
}
_SYNTAX = {
    "one more value": f"x,10.0.0.66,{MARK}",
    "one more word": f"x {MARK}",
    "a comment": f"x #{MARK}",
    "a tag": f"set:{MARK}",
    "a quote": f'x"{MARK}',
    "a path": f"../../{MARK}",
    "brackets": f"[{MARK}::1]",
    "an equals sign": f"dhcp-host={MARK}",
}


def forged(name: str = "bootfile-name", value: str = "x", ip_version: int = 4) -> DhcpOption:
    """Return an option that the model refuses, as a source without checks could send it."""
    option = DhcpOption(name="bootfile-name", value="x")
    for field, text in {"name": name, "value": value, "ip_version": ip_version}.items():
        object.__setattr__(option, field, text)
    return option


def invalid_ports(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each free-text field of a port, with *text* injected."""
    yield "hostname", {"hostname": text}
    yield "domain", {"domain": text}
    yield "option value", {"options": (forged(value=text),)}
    yield "option name", {"options": (forged(name=text),)}
    yield "IPv6 option value", {"options": (forged("dns-server", text, 6),)}


class DhcpInjectionConformance(DhcpCase):
    """Text of users in a name never becomes a line or an option of the configuration."""

    @proves(DhcpDriver, 8)
    @pytest.mark.parametrize("what", _LINES)
    def test_text_of_several_lines_is_refused_for_its_port_alone(
        self, driver: DhcpDriver, what: str
    ) -> None:
        net = make_network()
        plain = net.tenant(20)
        bad = {
            where: net.tenant(30 + n, **fields)
            for n, (where, fields) in enumerate(invalid_ports(_LINES[what]))
        }
        outcome = self.attempt(driver, net, plain, *bad.values())
        for where, tenant in bad.items():
            assert isinstance(outcome.failed.get(tenant.key), InvalidInput), f"{where}: {outcome}"
        assert outcome.done == {net.key, plain.key}
        assert not self.environment.contains(MARK)
        assert not driver.present() & {tenant.key for tenant in bad.values()}

    @proves(DhcpDriver, 8)
    def test_others_are_served_beside_a_port_that_is_refused(self, driver: DhcpDriver) -> None:
        net = make_network()
        plain, bad = net.tenant(20), net.tenant(30, hostname=_LINES["a new line"])
        outcome = self.attempt(driver, net, plain, bad)
        assert outcome.failed.keys() == {bad.key}
        self.assert_nothing_for(bad)
        self.leased(plain)
        mended = bad.but(hostname="mended")
        self.bring(driver, mended)
        assert self.leased(mended)[1].ip == mended.ip

    @proves(DhcpDriver, 8)
    def test_a_port_that_becomes_invalid_is_as_it_was_or_gone(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant(20, hostname="decent")
        self.bring(driver, net, tenant)
        _, before = self.leased(tenant)
        outcome = self.attempt(driver, tenant.but(hostname=_LINES["a new line"]))
        assert isinstance(outcome.failed.get(tenant.key), InvalidInput), str(outcome)
        assert not self.environment.contains(MARK)
        after = self.client(tenant).lease(expected=False)
        assert after in (before, None)

    @proves(DhcpDriver, 8)
    def test_a_network_with_text_of_several_lines_is_refused_alone(
        self, driver: DhcpDriver
    ) -> None:
        fields: list[dict[str, Any]] = [
            {"dns_domain": _LINES["a new line"]},
            {"options": (forged(value=_LINES["a new line"]),)},
            {"options": (forged(name=_LINES["a new line"]),)},
        ]
        bad = [make_network(**changes) for changes in fields]
        plain = make_network()
        tenant = plain.tenant()
        outcome = self.attempt(driver, plain, tenant, *bad)
        for net in bad:
            assert isinstance(outcome.failed.get(net.key), InvalidInput), str(outcome)
            assert not self.traces(net)
        assert outcome.done == {plain.key, tenant.key}
        assert not self.environment.contains(MARK)
        self.leased(tenant)

    @proves(DhcpDriver, 8)
    @pytest.mark.parametrize("what", _SYNTAX)
    def test_syntax_is_refused_or_taken_literally(self, driver: DhcpDriver, what: str) -> None:
        """Check that other ports and options are unaffected; the driver may accept or refuse it."""
        net = make_network()
        plain = net.tenant(20, hostname="plain")
        bad = [
            net.tenant(30 + n, **fields)
            for n, (_, fields) in enumerate(invalid_ports(_SYNTAX[what]))
        ]
        outcome = self.attempt(driver, net, plain, *bad)
        assert {net.key, plain.key} <= outcome.done, str(outcome)
        assert all(isinstance(error, InvalidInput) for error in outcome.failed.values())
        assert self.leased(plain)[1].hostname.partition(".")[0] == "plain"
        taken = [tenant for tenant in bad if tenant.key in outcome.done]
        for tenant in taken:
            _, lease = self.leased(tenant)
            name = tenant.value.hostname
            assert not name or name in (lease.hostname, f"{lease.hostname}.{lease.domain}")

    def attempt(self, driver: DhcpDriver, *things: ServedNetwork | Tenant) -> Outcome[DhcpKey]:
        """Put *things*; ignore refusals."""
        self.admit(*things)
        return driver.converge(Update(put=wanted(*things)))
