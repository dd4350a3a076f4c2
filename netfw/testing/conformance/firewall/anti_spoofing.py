"""Sources: the addresses a port may send from, and traffic that passes without a rule."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallCapability, FirewallDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.model.values.address import Mac
from netfw.model.values.protocol import ICMPV6, UDP
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.case import FirewallCase
from netfw.testing.conformance.firewall.connection_script import ConnectionScript
from netfw.testing.conformance.firewall.environment import FirewallTestPort, answer
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    OUT,
    State,
    a_group,
    everything,
    group,
    nothing,
    pair,
    port,
    rule,
    trusted,
)
from netfw.testing.conformance.firewall.packets import (
    MLD2_REPORT,
    MLD_DONE,
    MLD_QUERY,
    MLD_REPORT,
    NEIGHBOUR_SOLICITATION,
    ROUTER_ADVERTISEMENT,
    ROUTER_SOLICITATION,
)
from netfw.testing.conformance.firewall.rules import of_all_kinds

_ALL_NODES, _ALL_ROUTERS, _ALL_LISTENERS = "ff02::1", "ff02::2", "ff02::16"
_ALL_SERVERS = "ff02::1:2"
_NONE4, _NONE6 = IPv4Address(0), IPv6Address(0)
_OTHER_MAC = Mac("02:00:00:00:00:99")


class FirewallAntiSpoofingConformance(FirewallCase):
    """The sources that a port may use."""

    def open_port(
        self, driver: FirewallDriver, *pairs: AllowedSource
    ) -> tuple[FirewallTestPort, FirewallTestPort]:
        """Return a port that is filtered by source only, and one outside."""
        one, outside = self.make_ports(2)
        self.apply(driver, self.open_state(one, outside, *pairs))
        return one, outside

    def open_state(
        self, one: FirewallTestPort, outside: FirewallTestPort, *pairs: AllowedSource
    ) -> State:
        id = a_group()
        return {**port(one, id, pairs=pairs), **trusted(outside), **everything(id)}

    @proves(FirewallDriver, 2)
    def test_another_address_is_no_source(self, driver: FirewallDriver) -> None:
        one, outside = self.open_port(driver)
        for version, other in ((4, IPv4Address("10.99.0.1")), (6, IPv6Address("fd00:99::1"))):
            honest = one.udp(outside, 9, version=version)
            self.assert_passes(one, outside, honest)
            self.assert_blocked(one, outside, evolve(honest, source=other))
            self.assert_blocked(one, outside, evolve(honest, source=outside.own(version)))
            self.assert_blocked(one, outside, one.ping(outside, version=version, source=other))

    @proves(FirewallDriver, 2)
    def test_another_mac_is_no_source(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, outside = self.open_port(driver)
        for version in FAMILIES:
            sent = one.udp(outside, 9, version=version)
            self.assert_blocked(one, outside, evolve(sent, source_mac=_OTHER_MAC))

    @proves(FirewallDriver, 2)
    def test_a_spoofed_sender_takes_nothing_away_from_the_real_one(
        self, driver: FirewallDriver
    ) -> None:
        """Check that no switch on the path learns from dropped packets."""
        self.require(driver, FirewallCapability.FILTERING)
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, other, outside = self.make_ports(3)
        self.apply(driver, {**self.open_state(one, outside), **trusted(other)})
        self.assert_passes(outside, other, outside.arp(other))
        self.assert_passes(other, outside, other.arp(outside))
        for version in FAMILIES:
            sent = one.udp(outside, 9, version=version)
            self.assert_blocked(one, outside, evolve(sent, source_mac=other.mac))
            self.assert_blocked(one, outside, one.arp(outside, source_mac=other.mac))
            self.assert_passes(outside, other, outside.udp(other, 9, version=version))

    @proves(FirewallDriver, 2)
    def test_arp_is_about_oneself(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, outside = self.open_port(driver)
        other = IPv4Address("10.99.0.1")
        for asks in (one.arp(outside), one.arp(outside, answer=True, target_mac=outside.mac)):
            self.assert_passes(one, outside, asks, evolve(asks, sender_mac=one.mac))
            self.assert_blocked(one, outside, evolve(asks, sender=other))
            self.assert_blocked(one, outside, evolve(asks, sender=outside.address))
            self.assert_blocked(one, outside, evolve(asks, sender_mac=_OTHER_MAC))
            self.assert_blocked(one, outside, evolve(asks, source_mac=_OTHER_MAC))
            forged = evolve(asks, source_mac=_OTHER_MAC, sender_mac=one.mac)
            self.assert_blocked(one, outside, forged)

    @proves(FirewallDriver, 2)
    def test_probes_of_addresses_are_about_oneself(self, driver: FirewallDriver) -> None:
        """Check that no port can deny others their addresses in duplicate address detection."""
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, outside = self.make_ports(2)
        pairs = [pair(one, "10.98.0.0/24"), pair(one, "fd00:98::/64")]
        probe = one.arp(outside, sender=_NONE4)
        asks = one.to_group(_ALL_NODES, ICMPV6, icmp=NEIGHBOUR_SOLICITATION, source=_NONE6)
        own4, own6 = (one.address, "10.98.0.7"), (one.address6, one.link_local, "fd00:98::7")
        others4 = outside.address, "10.99.0.1"
        others6 = outside.address6, outside.link_local, "fd00:99::1"
        stateless = FirewallCapability.STATELESS_GROUPS in driver.describe().capabilities
        for stateful in (True, False) if stateless else (True,):
            id = a_group()
            state = {**port(one, id, pairs=pairs), **trusted(outside)}
            self.apply(driver, {**state, **everything(id, stateful=stateful)})
            for targets, check in ((own4, self.assert_passes), (others4, self.assert_blocked)):
                check(one, outside, *(evolve(probe, target=IPv4Address(t)) for t in targets))
            for targets6, check in ((own6, self.assert_passes), (others6, self.assert_blocked)):
                check(one, outside, *(evolve(asks, claims=IPv6Address(t)) for t in targets6))
            forged = evolve(asks, claims=one.address6, source_mac=_OTHER_MAC)
            self.assert_blocked(one, outside, evolve(probe, target=one.address, answer=True,
                source_mac=_OTHER_MAC), forged)  # fmt: skip

    @proves(FirewallDriver, 2)
    def test_arp_of_others_arrives(self, driver: FirewallDriver) -> None:
        one, outside = self.open_port(driver)
        self.assert_passes(outside, one, outside.arp(one))
        self.assert_passes(outside, one, outside.arp(one, answer=True, target_mac=one.mac))

    @proves(FirewallDriver, 2)
    def test_neighbour_advertisements_are_about_oneself(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, outside = self.open_port(driver)
        for own in (one.address6, one.link_local):
            self.assert_passes(one, outside, one.advertisement(outside, own, source=own))
            self.assert_passes(one, outside, one.advertisement(outside, own))
        for other in (outside.address6, outside.link_local, IPv6Address("fd00:99::1")):
            self.assert_blocked(one, outside, one.advertisement(outside, other))
            forged = one.advertisement(outside, one.address6, source=other)
            self.assert_blocked(one, outside, forged)
            self.assert_blocked(one, outside, evolve(forged, claims=other))

    @proves(FirewallDriver, 2)
    def test_the_link_local_address_of_the_mac_is_a_source(self, driver: FirewallDriver) -> None:
        one, outside = self.open_port(driver)
        sent = one.udp(outside, 9, version=6, source=one.link_local)
        self.assert_passes(one, outside, sent)
        self.assert_blocked(one, outside, evolve(sent, source=outside.link_local))
        self.assert_blocked(one, outside, evolve(sent, source=IPv6Address("fe80::1")))

    @proves(FirewallDriver, 2)
    def test_a_reply_comes_from_oneself_as_well(self, driver: FirewallDriver) -> None:
        one, outside = self.open_port(driver)
        request = outside.udp(one, 9)
        self.assert_passes(outside, one, request)
        self.assert_blocked(one, outside, answer(request, source=IPv4Address("10.99.0.1")))
        self.assert_passes(one, outside, answer(request))

    @proves(FirewallDriver, 2)
    def test_an_allowed_pair_is_a_source(self, driver: FirewallDriver) -> None:
        """Check addresses and prefixes of both families; in ARP and neighbour discovery too."""
        one, outside = self.make_ports(2)
        pairs = [
            pair(one, prefix)
            for prefix in ("10.99.0.1/32", "10.98.0.0/24", "fd00:99::1/128", "fd00:98::/64")
        ]
        self.apply(driver, self.open_state(one, outside, *pairs))
        inside4, beyond4 = ("10.99.0.1", "10.98.0.200"), ("10.99.0.2", "10.98.1.0")
        inside6, beyond6 = ("fd00:99::1", "fd00:98::ffff"), ("fd00:99::2", "fd00:98:0:1::1")
        for addresses, check in ((inside4, self.assert_passes), (beyond4, self.assert_blocked)):
            for address in map(IPv4Address, addresses):
                check(one, outside, one.udp(outside, 9, source=address))
                if FirewallCapability.SPOOF_GUARD in driver.describe().capabilities:
                    check(one, outside, one.arp(outside, sender=address))
        for addresses6, check in ((inside6, self.assert_passes), (beyond6, self.assert_blocked)):
            for address6 in map(IPv6Address, addresses6):
                check(one, outside, one.udp(outside, 9, version=6, source=address6))
                if FirewallCapability.SPOOF_GUARD in driver.describe().capabilities:
                    check(one, outside, one.advertisement(outside, address6))

    @proves(FirewallDriver, 2)
    def test_a_pair_is_of_its_own_mac(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, outside = self.make_ports(2)
        pairs = [pair(one, "10.99.0.0/24", _OTHER_MAC), pair(one, "fd00:99::/64", _OTHER_MAC)]
        self.apply(driver, self.open_state(one, outside, *pairs))
        for version, address in ((4, IPv4Address("10.99.0.1")), (6, IPv6Address("fd00:99::1"))):
            sent = one.udp(outside, 9, version=version, source=address)
            self.assert_passes(one, outside, evolve(sent, source_mac=_OTHER_MAC))
            self.assert_blocked(one, outside, sent)
            own = one.udp(outside, 9, version=version)
            self.assert_passes(one, outside, own)
            self.assert_blocked(one, outside, evolve(own, source_mac=_OTHER_MAC))
        asks = one.arp(outside, sender=IPv4Address("10.99.0.1"))
        self.assert_blocked(one, outside, asks)
        self.assert_passes(one, outside, evolve(asks, source_mac=_OTHER_MAC))

    @proves(FirewallDriver, 2)
    def test_a_pair_of_everything_and_a_pair_that_is_taken_away(
        self, driver: FirewallDriver
    ) -> None:
        one, outside = self.make_ports(2)
        state = self.open_state(one, outside)
        (own,) = (v for v in state.values() if isinstance(v, FilteredPort) and not v.trusted)
        wide = evolve(own, sources=own.sources | {pair(one, "0.0.0.0/0"), pair(one, "::/0")})
        strange = [
            one.udp(outside, 9, source=IPv4Address("198.51.100.7")),
            one.udp(outside, 9, version=6, source=IPv6Address("2001:db8::7")),
        ]
        for _ in range(2):
            self.apply(driver, state)
            self.assert_blocked(one, outside, *strange)
            self.apply(driver, {**state, one.key: wide})
            self.assert_passes(one, outside, *strange)

    @proves(FirewallDriver, 1)
    def test_dhcp_clients_need_no_rule(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **trusted(outside), **nothing(id)})
        ask = one.to_group("255.255.255.255", UDP, 67, source_port=68)
        self.assert_passes(one, outside, evolve(ask, source=_NONE4), ask)
        self.assert_passes(one, outside, one.udp(outside, 67, source_port=68))  # it renews
        ask6 = one.to_group(_ALL_SERVERS, UDP, 547, source_port=546)
        self.assert_passes(one, outside, ask6)
        offer = outside.udp(one, 68, source_port=67)
        offer6 = outside.udp(one, 546, version=6, source_port=547)
        offer6 = evolve(offer6, source=outside.link_local, target=one.link_local)
        self.assert_passes(outside, one, offer, offer6)
        self.assert_blocked(outside, one, outside.udp(one, 67, source_port=67))

    @proves(FirewallDriver, 1)
    def test_an_instance_cannot_be_a_dhcp_server(self, driver: FirewallDriver) -> None:
        one, outside = self.open_port(driver)
        for number in (67, 547, 68, 20067):  # clients accept a reply from any port
            offer = one.udp(outside, 68, source_port=number)
            to_all = one.to_group("255.255.255.255", UDP, 68, source_port=number)
            offer6 = one.udp(outside, 546, version=6, source_port=number)
            linked = evolve(offer6, source=one.link_local)
            self.assert_blocked(one, outside, offer, to_all, offer6, linked)
            self.assert_blocked(one, outside, evolve(offer, pieces=2, body=b"offer" * 100))

    @proves(FirewallDriver, 1)
    def test_an_instance_cannot_be_a_router(self, driver: FirewallDriver) -> None:
        one, outside = self.open_port(driver)
        frame = one.to_group(_ALL_NODES, ICMPV6, icmp=ROUTER_ADVERTISEMENT)
        self.assert_blocked(one, outside, frame)
        direct = one.icmp(outside, ROUTER_ADVERTISEMENT, version=6, source=one.link_local)
        self.assert_blocked(one, outside, direct)

    @proves(FirewallDriver, 1)
    def test_what_an_instance_sends_to_be_found_needs_no_rule(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **trusted(outside), **nothing(id)})
        asks = one.to_group(
            _ALL_NODES, ICMPV6, icmp=NEIGHBOUR_SOLICITATION, claims=outside.address6
        )
        self.assert_passes(one, outside, asks, evolve(asks, source=one.address6))
        self.assert_passes(one, outside, evolve(asks, source=_NONE6, claims=one.address6))
        self.assert_passes(one, outside, one.advertisement(outside, one.address6))
        router = one.to_group(_ALL_ROUTERS, ICMPV6, icmp=ROUTER_SOLICITATION)
        self.assert_passes(one, outside, router, evolve(router, source=_NONE6))
        for report in (MLD_REPORT, MLD_DONE, MLD2_REPORT):
            listens = one.to_group(_ALL_LISTENERS, ICMPV6, icmp=report)
            self.assert_passes(one, outside, listens)
        self.assert_passes(one, outside, one.arp(outside))

    @proves(FirewallDriver, 1)
    def test_what_an_instance_must_receive_needs_no_rule(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **trusted(outside), **nothing(id)})
        for kind in (ROUTER_ADVERTISEMENT, MLD_QUERY, MLD_REPORT, MLD_DONE, MLD2_REPORT):
            self.assert_passes(outside, one, outside.to_group(_ALL_NODES, ICMPV6, icmp=kind))
        asks = outside.to_group(
            _ALL_NODES, ICMPV6, icmp=NEIGHBOUR_SOLICITATION, claims=one.address6
        )
        self.assert_passes(outside, one, asks)
        self.assert_passes(outside, one, outside.advertisement(one, outside.address6))
        self.assert_blocked(outside, one, outside.ping(one, version=6))

    @proves(FirewallDriver, 8)
    def test_a_trusted_port_passes_everything(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        self.apply(driver, trusted(one, outside))
        for a, b in ((one, outside), (outside, one)):
            self.assert_passes(a, b, *of_all_kinds(a, b))
            self.assert_passes(a, b, a.udp(b, 68, source_port=67))
            self.assert_passes(a, b, a.udp(b, 9, source=IPv4Address("10.99.0.1")))
            self.assert_passes(a, b, a.to_group(_ALL_NODES, ICMPV6, icmp=ROUTER_ADVERTISEMENT))
            self.assert_passes(a, b, a.arp(b, sender=IPv4Address("10.99.0.1")))

    @proves(FirewallDriver, 4, 8)
    def test_to_be_trusted_or_not_is_a_change_like_any_other(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        state = {**trusted(outside), **group(id, rule(id, OUT, UDP))}
        for _ in range(2):
            self.apply(driver, {**state, **trusted(one)})
            self.assert_passes(outside, one, outside.tcp(one, 80))
            doomed = self.opened(outside, one, 443)
            self.apply(driver, {**state, **port(one, id)})
            self.assert_cut(doomed)
            self.assert_blocked(outside, one, outside.tcp(one, 81))
            self.opened(one, outside, 53, protocol=UDP)

    @proves(FirewallDriver, 7)
    def test_equal_addresses_on_two_networks_are_two(self, driver: FirewallDriver) -> None:
        """Check that a connection of one network opens nothing on the other, and ends alone."""
        one, two = self.make_ports(2)
        one_twin, two_twin = self.twin(one), self.twin(two)
        id, closed = a_group(), a_group()
        state = {
            **port(one, id), **port(two, id), **everything(id),
            **port(one_twin, closed), **port(two_twin, closed), **nothing(closed),
        }  # fmt: skip
        self.apply(driver, state)
        for version in FAMILIES:
            talk = self.opened(one, two, 80, version=version)
            request = one.udp(two, 9, version=version)
            self.assert_passes(one, two, request)
            self.assert_blocked(two_twin, one_twin, talk.back(), answer(request))
            self.assert_blocked(one_twin, two_twin, talk.forth(), request)
            self.assert_lives(talk)

    @proves(FirewallDriver, 7)
    def test_a_connection_ends_on_its_own_network_alone(self, driver: FirewallDriver) -> None:
        one, two = self.make_ports(2)
        one_twin, two_twin = self.twin(one), self.twin(two)
        id, other = a_group(), a_group()
        state = {
            **port(one, id), **port(two, id),
            **port(one_twin, other), **port(two_twin, other), **everything(other),
        }  # fmt: skip
        self.apply(driver, {**state, **everything(id)})
        for version in FAMILIES:
            self.apply(driver, {**state, **everything(id)})
            first = self.opened(one, two, 80, version=version)
            second = self.open(ConnectionScript(one_twin, two_twin, first.opening))
            self.apply(driver, {**state, **nothing(id)})
            self.assert_cut(first)
            self.assert_lives(second)
