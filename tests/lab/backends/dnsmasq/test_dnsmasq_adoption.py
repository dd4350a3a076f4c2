"""Networks that a former driver served: their namespaces are adopted, and compared later."""

from __future__ import annotations

from ipaddress import ip_address

from netfw.drivers.values.events import KeysChanged
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.process import run_command
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import ServedNetwork, make_network, wanted
from netfw.testing.lab.wait import wait_until
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver
from tests.lab.backends.dnsmasq.environment import DnsmasqHost

PARAMETER = "net.ipv6.conf.default.accept_ra"


def namespace(host: DnsmasqHost, net: ServedNetwork) -> str:
    return host.driver.location(net.id, net.value.server).netns


def run_there(host: DnsmasqHost, net: ServedNetwork, *words: str) -> str:
    done = netns.run_in(namespace(host, net), run_command, words)
    assert done.ok, done.message
    return done.output


def spoil(host: DnsmasqHost, net: ServedNetwork) -> None:
    """Change what the kernel does not announce to a driver that begins later."""
    run_there(host, net, "iptables", "-t", "mangle", "-F")
    sysctl.write(PARAMETER, "1", namespace(host, net))
    assert not is_repaired(host, net)


def is_repaired(host: DnsmasqHost, net: ServedNetwork) -> bool:
    rules = run_there(host, net, "iptables", "-t", "mangle", "-S")
    return "--checksum-fill" in rules and sysctl.read(PARAMETER, namespace(host, net)) == "0"


def test_rules_and_parameters_lost_while_no_driver_ran_are_reported(host: DnsmasqHost) -> None:
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    pid = host.pid(net)
    host.driver.close()
    spoil(host, net)
    host.events.clear()
    host.driver = host.make_driver()
    assert host.put(net, port).ok
    wait_until(
        lambda: any(net.key in each.keys for each in host.events if isinstance(each, KeysChanged)),
        "the driver requesting another converge",
    )
    assert host.put(net).ok
    assert is_repaired(host, net)
    assert host.pid(net) == pid


def test_adopted_network_without_drift_is_not_reported(host: DnsmasqHost) -> None:
    net, other = make_network(), make_network()
    assert host.put(net, other).ok
    host.driver.close()
    spoil(host, other)
    host.events.clear()
    host.driver = host.make_driver()
    assert host.put(net).ok
    assert host.put(other).ok  # compared after *net*
    wait_until(lambda: any(isinstance(each, KeysChanged) for each in host.events), "an event")
    reported = [each.keys for each in host.events if isinstance(each, KeysChanged)]
    assert reported == [frozenset({other.key})]


def test_an_audit_repairs_an_adopted_network(host: DnsmasqHost) -> None:
    # This holds for a driver that is not watched, too.
    net = make_network()
    assert host.put(net).ok
    host.driver.close()
    spoil(host, net)
    host.driver = DnsmasqDhcpDriver(host.interface, host.settings)
    assert host.put(net).ok
    host.driver.observe(None)
    assert host.driver.converge(Update(put=wanted(net), complete=True)).ok
    assert is_repaired(host, net)


def test_network_that_changed_while_no_driver_ran_is_converged_at_once(host: DnsmasqHost) -> None:
    # Its namespace is observed as a whole: addresses, routes, rules and parameters.
    net = make_network()
    assert host.put(net).ok
    host.driver.close()
    spoil(host, net)
    host.driver = host.make_driver()
    gateway = ip_address(str(net.subnets[0].cidr[77]))
    assert host.put(net.with_subnet(0, gateway=gateway)).ok
    assert is_repaired(host, net)
    assert f"via {gateway}" in run_there(host, net, "ip", "route", "show", "default")


def test_lost_addresses_of_an_adopted_network_are_restored_at_once(host: DnsmasqHost) -> None:
    net = make_network()
    assert host.put(net).ok
    device = host.driver.location(net.id, net.value.server).device
    host.driver.close()
    run_there(host, net, "ip", "address", "flush", "dev", device, "scope", "global")
    host.driver = host.make_driver()
    assert host.put(net).ok
    (address,) = net.value.server.addresses
    assert str(address) in run_there(host, net, "ip", "-br", "address", "show", "dev", device)
