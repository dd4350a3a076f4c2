"""What somebody spoils is found by the agent's audit, though nothing calls for it."""

from ipaddress import IPv4Address

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.agents.dhcp.environment import NAMESPACE, NETWORK, Site, port_id


def there(site: Site, *words: str) -> str:
    """Return the output of ``ip`` in the namespace of the network; empty: it failed."""
    done = site.host.attempt(["ip", "-n", NAMESPACE, *words])
    return done.output if done.status == 0 else ""


def addresses(site: Site) -> str:
    return there(site, "-br", "-4", "address")


@pytest.mark.nightly
@pytest.mark.spec("DHCP-26", "DHCP-27", "DHCP-40", "DHCP-49")
def test_an_audit_puts_right_files_addresses_and_routes(site):
    site.dhcp.options["agent"]["audit_interval"] = 1
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease = client.lease()
    assert lease is not None
    file = site.dhcp.directory / "dhcp" / NETWORK / "host" / port_id(11)
    written, device = file.read_text(), f"tap{port_id(0)}"[:14]
    file.write_text("fa:16:3e:66:66:66,10.0.0.66\n")
    there(site, "address", "replace", "10.0.0.66/24", "dev", device)
    there(site, "address", "delete", "10.0.0.2/24", "dev", device)
    there(site, "route", "delete", "default")
    wait_until(lambda: file.read_text() == written, "the file")
    wait_until(
        lambda: "10.0.0.2/24" in addresses(site) and "0.66" not in addresses(site), "addresses"
    )
    wait_until(lambda: "via 10.0.0.1" in there(site, "route"), "the default route")
    assert client.lease().ip == IPv4Address("10.0.0.11")


@pytest.mark.spec("DHCP-26", "DHCP-27")
def test_rules_and_parameters_lost_while_the_agent_was_down_are_restored(site):
    # This happens soon after the start, before the first audit: the interval is the default.
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    assert client.lease() is not None
    pid = site.pid()
    site.dhcp.stop()
    inside = ["ip", "netns", "exec", NAMESPACE]
    site.host.run([*inside, "iptables", "-t", "mangle", "-F"])
    site.host.run([*inside, "sysctl", "-qw", "net.ipv6.conf.default.accept_ra=1"])
    site.dhcp.start()
    rules = [*inside, "iptables", "-t", "mangle", "-S"]
    wait_until(lambda: "--checksum-fill" in site.host.run(rules), "the rule")
    parameter = [*inside, "sysctl", "-n", "net.ipv6.conf.default.accept_ra"]
    wait_until(lambda: site.host.run(parameter).strip() == "0", "the parameter")
    assert site.pid() == pid
