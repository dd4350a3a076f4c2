"""The lab's DHCP clients receive from a real server what it is configured to send."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Network
from pathlib import Path

import pytest
from attrs import evolve

from netfw.errors import BackendBroken
from netfw.model.values.route import Route
from netfw.testing.lab.dhcp_client import Dhclient4, Dhclient6, Udhcpc, solicit
from netfw.testing.lab.dhcp_lease import Announcement, ClientLease, Lease6
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab

MAC = "fa:16:3e:00:00:09"
SAYS = (
    "--dhcp-range=10.0.0.0,static,255.255.255.0,3600s",
    "--dhcp-range=fd00::,static,64,3600s",
    "--enable-ra",
    f"--dhcp-host={MAC},guest,10.0.0.9,[fd00::9]",
    "--dhcp-option=option:router,10.0.0.1",
    "--dhcp-option=option:mtu,1400",
    "--dhcp-option=121,192.168.0.0/17,10.0.0.3,0.0.0.0/0,10.0.0.1",
    "--dhcp-option=249,192.168.0.0/17,10.0.0.3",
    "--dhcp-option=option:dns-server,10.0.0.7,10.0.0.8",
    "--dhcp-option=option:ntp-server,10.0.0.5",
    "--dhcp-option=150,10.1.2.3",
    "--dhcp-option=option:bootfile-name,boot.img",
    "--domain=example.org",
    "--dhcp-option=option6:dns-server,[fd00::7]",
    "--dhcp-option=option6:domain-search,a.example.org",
    "--dhcp-option=option6:bootfile-url,http://[fd00::5]/",
)
LEASE = ClientLease(
    address=IPv4Interface("10.0.0.9/24"),
    server=IPv4Address("10.0.0.2"),
    seconds=3600,
    gateways=(IPv4Address("10.0.0.1"),),
    dns=(IPv4Address("10.0.0.7"), IPv4Address("10.0.0.8")),
    routes=frozenset(
        {
            Route(destination="192.168.0.0/17", nexthop="10.0.0.3"),
            Route(destination="0.0.0.0/0", nexthop="10.0.0.1"),
        }
    ),
    microsoft_routes=frozenset({Route(destination="192.168.0.0/17", nexthop="10.0.0.3")}),
    mtu=1400,
    domain="example.org",
    hostname="guest",
    options={42: bytes([10, 0, 0, 5]), 67: b"boot.img", 150: bytes([10, 1, 2, 3])},
)
REST6 = Lease6(
    dns=(IPv6Address("fd00::7"),), search=("a.example.org",), options={59: b"http://[fd00::5]/"}
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(1, bridges=["br-int"]) as lab:
        yield lab


@pytest.fixture(scope="module")
def guest(lab: Lab) -> Instance:
    (host,) = lab.hosts.values()
    addresses = ["10.0.0.2/24", "fd00::2/64"]
    host.instance("server", Plug(bridge="br-int", device="tapserver", addresses=addresses))
    guest = host.instance("guest", Plug(bridge="br-int", device="tapguest", mac=MAC))
    guest.configure(())
    return guest


@contextmanager
def serving(lab: Lab, *says: str) -> Iterator[None]:
    """Run a server until the block ends."""
    (host,) = lab.hosts.values()
    with tempfile.NamedTemporaryFile() as leases:
        process = host.instances["server"].spawn(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts",
             "--no-resolv", "--port=0", "--interface=eth0", "--bind-interfaces", "--user=root",
             f"--dhcp-leasefile={leases.name}", "--pid-file=", "--log-facility=-", *says],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if b"sockets bound" in line:
                    break
            yield
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def without_extras(lease: ClientLease | None) -> ClientLease | None:
    """Return the lease without the options that servers add by themselves."""
    if lease is None:
        return None
    kept = {n: value for n, value in lease.options.items() if n in LEASE.options}
    return evolve(lease, options=kept)


@pytest.mark.parametrize("kind", [Udhcpc, Dhclient4])
def test_a_client_gets_renews_and_releases_what_the_server_gives(lab: Lab, guest: Instance, kind):
    client = kind(guest)
    with serving(lab, *SAYS):
        assert without_extras(client.lease()) == LEASE, client.log()
        assert without_extras(client.renew()) == LEASE, client.log()
        client.release()
        assert without_extras(client.lease()) == LEASE, client.log()
        client.leave()
    client.close()
    assert "10.0.0.9" not in guest.run(["ip", "address"])


def test_a_renewal_sees_what_changed(lab: Lab, guest: Instance):
    client = Udhcpc(guest)
    with serving(lab, *SAYS):
        assert client.lease()
    with serving(lab, "--dhcp-authoritative", *SAYS, "--dhcp-option-force=option:mtu,1300"):
        renewed = client.renew()
        assert renewed is not None
        assert renewed.mtu == 1300
    client.close()


@pytest.mark.parametrize("kind", [Udhcpc, Dhclient4, Dhclient6])
def test_without_an_answer_there_is_no_lease_and_no_long_wait(lab: Lab, guest: Instance, kind):
    client = kind(guest)
    began = time.monotonic()
    assert client.lease(timeout=0.5) is None
    assert time.monotonic() - began < 5
    client.close()


def test_a_refused_renewal_is_no_lease(lab: Lab, guest: Instance):
    client = Udhcpc(guest)
    with serving(lab, *SAYS):
        assert client.lease()
    others = [say.replace("10.0.0.", "10.9.0.") for say in SAYS]
    with serving(lab, "--dhcp-authoritative", "--dhcp-range=10.0.0.0,static", *others):
        assert client.renew() is None
    client.close()


def test_dhcpv6_gives_addresses_and_the_rest_or_the_rest_alone(lab: Lab, guest: Instance):
    stateful, stateless = Dhclient6(guest), Dhclient6(guest, stateless=True)
    with serving(lab, *SAYS):
        given = stateful.lease()
        assert given == Lease6(
            addresses=(IPv6Address("fd00::9"),),
            dns=REST6.dns,
            search=REST6.search,
            options=REST6.options,
        ), stateful.log()
        assert stateful.renew() == given
        stateful.release()
        assert stateful.lease() == given
        stateful.leave()
        assert stateless.lease() == REST6, stateless.log()
    stateful.close()
    stateless.close()
    assert "fd00::9" not in guest.run(["ip", "-6", "address"])


def test_an_announcement_is_read(lab: Lab, guest: Instance):
    with serving(lab, *SAYS, "--ra-param=eth0,mtu:1400,0,900"):
        found = solicit(guest)
        assert found is not None
        assert found.source is not None
        assert evolve(found, source=None) == Announcement(
            managed=True,
            other=True,
            lifetime=900,
            mtu=1400,
            prefixes={IPv6Network("fd00::/64"): False},
            dns=REST6.dns,
            search=REST6.search,
        )
    assert solicit(guest, timeout=0.3) is None


def test_files_are_gone_with_the_client(guest: Instance, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client = Udhcpc(guest)
    assert list(tmp_path.iterdir())
    client.close()
    assert not list(tmp_path.iterdir())


def test_a_client_that_is_not_installed_is_named(guest: Instance, monkeypatch):
    monkeypatch.setattr("netfw.testing.lab.dhcp_client.search_path", lambda: "/nowhere")
    with pytest.raises(BackendBroken, match=r"not installed: udhcpc \(apt install udhcpc"):
        Udhcpc(guest)
