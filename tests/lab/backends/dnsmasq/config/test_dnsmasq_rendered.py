"""What clients make of what is rendered, and the facts on which the rendering stands."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from attrs import evolve

from netfw.drivers.support.dhcp_options import option_value
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.testing.conformance.dhcp.factories import MTU, a_subnet, a_subnet6, make_network
from netfw_drivers.dnsmasq.config.dhcp_hosts import ignore_line
from netfw_drivers.dnsmasq.config.render import render_port
from tests.lab.backends.dnsmasq.config.environment import Rig


def option(name: str, value: str, version: int = 4) -> DhcpOption:
    return DhcpOption(name=name, value=value, ip_version=version)


OPTIONS = (
    option("bootfile-name", "pxe/a,b#c = d's [e] {f}"),
    option("66", "boot.example.org"),
    option("150", "192.0.2.1,192.0.2.2"),
    option("43", "01:04:de:ad:be:ef"),
    option("224", "option:router,192.0.2.66"),
    option("225", "192.0.2.1"),
    option("226", "300"),
    option("227", "a: b"),
    option("ntp-server", "192.0.2.3"),
)
BOOT = option("bootfile-name", "common")


@pytest.mark.spec("DHCP-43", "DHCP-48")
def test_options_of_a_port_arrive_as_they_were_asked_for(tmp_path: Path) -> None:
    net = make_network()
    tenant = net.tenant(options=OPTIONS)
    numbers = {43: 3, 66: 1, 67: 0, 150: 2, 224: 4, 225: 5, 226: 6, 227: 7, 42: 8}
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        lease = rig.lease(tenant.mac, requested=numbers)
    assert lease is not None
    received = {number: lease.options.get(number) for number in numbers}
    assert received == {number: option_value(OPTIONS[at]) for number, at in numbers.items()}


@pytest.mark.spec("DHCP-43")
def test_port_with_fewer_options_than_others_does_not_crash_dnsmasq(tmp_path: Path) -> None:
    # An empty T1, or a boot file that no client requested, crashes dnsmasq 2.90.
    ntp = option("ntp-server", "192.0.2.3")
    net = make_network(options=(BOOT, ntp, option("mtu", "1400")))
    left_out = tuple(option(name, "") for name in ("67", "T1", "ntp-server", "router", "6"))
    plain, spared = net.tenant(20), net.tenant(30, options=left_out)
    with Rig(tmp_path, net) as rig:
        rig.put(plain, spared)
        full, bare = rig.lease(plain.mac), rig.lease(spared.mac)
        assert rig.lives
    assert full is not None
    assert bare is not None
    assert (full.options[67], full.mtu) == (b"common", 1400)
    assert bare == evolve(
        full, address=bare.address, hostname=bare.hostname, gateways=(), dns=(), options={}
    )


@pytest.mark.spec("DHCP-41")
def test_a_line_without_an_address_comes_before_that_of_the_ipv4_address(tmp_path: Path) -> None:
    net = make_network(a_subnet(), a_subnet6(Ipv6Mode.STATELESS))
    url = option("bootfile-url", "http://own/", 6)
    tenant, turned = (net.tenant(place, on=(0, 1), options=(url,)) for place in (20, 30))
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        lease = rig.lease(tenant.mac)
        assert lease is not None
        assert lease.ip == tenant.ip
        received = rig.lease6(tenant.mac, stateless=True)
        assert received is not None
        assert received.options.get(59) == b"http://own/"
        text = render_port(turned.port, turned.value, net.value, rig.settings)
        lines = text.host.splitlines(keepends=True)
        assert len(lines) == 2
        rig.write(turned, evolve(text, host="".join(reversed(lines))))
        assert rig.lease(turned.mac, expected=False) is None, "the order means nothing any more"


@pytest.mark.spec("DHCP-41")
def test_of_several_addresses_the_first_of_each_ipv6_subnet_and_one_of_ipv4_is_given(
    tmp_path: Path,
) -> None:
    stateful = Ipv6Mode.STATEFUL
    net = make_network(a_subnet(), a_subnet(), a_subnet6(stateful), a_subnet6(stateful))
    tenant = net.tenant(20, on=(0, 1, 2, 3))
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        lease = rig.lease(tenant.mac)
        assert lease is not None
        assert lease.ip == tenant.ip
        assert rig.lease6(tenant.mac) is not None
        six = [str(address) for address in tenant.addresses if address.version == 6]
        rig.await_(lambda: all(f" {a} " in rig.files.leases.read_text() for a in six), "one of two")


@pytest.mark.spec("DHCP-41")
def test_a_port_is_known_by_its_mac_whatever_its_instance_calls_itself(tmp_path: Path) -> None:
    net = make_network()
    tenant = net.tenant()
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        for name in ("0102030405", "00aabbccdd"):
            lease = rig.lease(tenant.mac, called=name)
            assert lease is not None
            assert lease.ip == tenant.ip
            (line,) = rig.files.leases.read_text().splitlines()
            assert line.endswith(" *")


@pytest.mark.spec("DHCP-44", "DHCP-49")
def test_an_instance_keeps_its_address_though_the_server_lost_all_leases(tmp_path: Path) -> None:
    net = make_network()
    tenant, unknown = net.tenant(20), net.tenant(30)
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        client = rig.client(tenant.mac)
        lease = client.lease()
        assert lease is not None
        rig.kill()
        rig.files.leases.unlink()
        rig.start()
        assert client.renew() == lease
        assert rig.lease(unknown.mac, expected=False) is None
        assert "NAK" not in rig.log()


@pytest.mark.spec("DHCP-46")
def test_what_dnsmasq_reads_by_itself_and_what_it_keeps(tmp_path: Path) -> None:
    # These are the facts behind ``needs_reload`` and tombstones.
    net = make_network()
    tenant, successor = net.tenant(20), net.tenant(20)
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        lease = rig.lease(tenant.mac)
        assert lease is not None
        gone = render_port(tenant.port, tenant.value, net.value, rig.settings)
        rig.write(tenant, evolve(gone, host=ignore_line(tenant.mac)))
        assert rig.lease(tenant.mac, expected=False) is None, "a tombstone counts at once"
        rig.put(successor)
        rig.await_(lambda: "duplicate dhcp-host IP address" in rig.log(), "no such line")
        device, address = "tap0", str(tenant.ip)
        rig.server.run(["dhcp_release", device, address, str(tenant.mac)])
        assert rig.lease(successor.mac, expected=False) is None, "its address was another's"
        rig.reload()
        found = rig.lease(successor.mac)
        assert found is not None
        assert found.ip == successor.ip


@pytest.mark.spec("DHCP-46")
def test_dnsmasq_dies_of_a_reload_after_it_answered_a_port_with_options(tmp_path: Path) -> None:
    # This is why it is started anew then.  If this fails, dnsmasq was mended: see ``is_tagged``.
    net = make_network()
    plain, special = net.tenant(20), net.tenant(30, options=(BOOT,))
    with Rig(tmp_path, net) as rig:
        rig.put(plain, special)
        assert rig.lease(plain.mac) is not None
        rig.reload()
        assert rig.lives
        assert rig.lease(special.mac) is not None
        rig.reload()
        rig.await_(lambda: not rig.lives, "dnsmasq lives")


@pytest.mark.spec("DHCP-45")
@pytest.mark.parametrize("beside", [(), (a_subnet(),)], ids=["alone", "beside-ipv4"])
def test_with_slaac_the_subnet_s_own_name_servers_are_announced(
    tmp_path: Path, beside: tuple[Subnet, ...]
) -> None:
    # Where dnsmasq does nothing else, it reads no file of options.
    slaac = a_subnet6(Ipv6Mode.SLAAC)
    net = make_network(*beside, slaac)
    with Rig(tmp_path, net) as rig:
        advertised = rig.announcement(net.tenant().mac)
    assert advertised is not None
    assert (advertised.managed, advertised.other, advertised.lifetime, advertised.mtu) == (
        False,
        False,
        0,
        MTU,
    )
    assert advertised.prefixes == {slaac.cidr: True}
    assert (advertised.dns, advertised.search) == (slaac.dns_nameservers, ("example.org",))


@pytest.mark.spec("DHCP-45")
def test_in_a_fabric_that_routes_instances_behind_other_devices_are_served(tmp_path: Path) -> None:
    net = make_network()
    tenant = net.tenant()
    with Rig(tmp_path, net, bridged=False) as rig:
        rig.put(tenant)
        lease = rig.lease(tenant.mac)
    assert lease is not None
    assert lease.ip == tenant.ip


@pytest.mark.spec("DHCP-40", "DHCP-46")
def test_dnsmasq_reads_files_and_gives_leases_back_as_a_user_without_rights() -> None:
    # That is its own user, unless an operator names one.
    net = make_network()
    tenant, successor = net.tenant(20), net.tenant(30)
    directory = Path(tempfile.mkdtemp(dir="/run"))
    directory.chmod(0o755)
    with Rig(directory, net, user=None) as rig:
        rig.await_(lambda: rig.user != 0, "it keeps the rights of root")
        rig.put(tenant)
        assert rig.lease(tenant.mac) is not None
        rig.server.run(["dhcp_release", "tap0", str(tenant.ip), str(tenant.mac)])
        rig.await_(lambda: str(tenant.ip) not in rig.files.leases.read_text(), "lease is kept")
        rig.put(successor)
        rig.reload()
        assert rig.lease(successor.mac) is not None
