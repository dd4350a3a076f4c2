"""Text that would be syntax in a DHCP server's files, or a command: from the API to dnsmasq."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from openstack.exceptions import BadRequestException

from netfw.cli.demo.server import Cloud
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, leased

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]

MARK = "evil"
OPTIONS = {
    "a line more in a value": ("tftp-server", f"x\ndhcp-script=/tmp/{MARK}"),
    "a line more by CR": ("tftp-server", f"x\rconf-file=/tmp/{MARK}"),
    "a line more in a name": ("tftp-server\nserver-ip-address", MARK),
    "the end of a C string": ("bootfile-name", f"a\x00{MARK}"),
    "a line separator": ("bootfile-name", f"a\u2028{MARK}"),
    "another option's tag": ("tag:!known,router", f"10.0.0.66\n{MARK}"),
    "an option of dnsmasq": ("dhcp-option=3", MARK),
    "a quote that is open": ("bootfile-name", f'"{MARK}'),
    "an escape": ("bootfile-name", f"a\\n{MARK}"),
    "a comment": ("bootfile-name", f"# {MARK}"),
    "addresses and more": ("router", f"10.0.0.1,option:dns-server,{MARK}"),
    "a number that is none": ("mtu", f"1400 {MARK}"),
    "more than an option holds": ("bootfile-name", MARK * 100),
}
NAMES = ["a\nb", "a,b", "a b", "a#b", 'a"b', "a\\b", "a/../b", "*", "[::1]", "x" * 64, "-a", "$(x)"]
NAMES += ["ab--C"]  # dnsmasq takes it for an internationalised name
HARMLESS = [
    f"'; touch /tmp/{MARK}; '",
    f"$(touch /tmp/{MARK})",
    f"../../{MARK}",
    f"{MARK}\u202e\u00a0",
    f"<script>{MARK}</script>",
    "%s%n{0}",
]
"""What nobody but people reads: names and descriptions."""


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("kind", OPTIONS)
def test_hostile_options_are_refused_by_the_api(cloud: Cloud, kind: str) -> None:
    name, value = OPTIONS[kind]
    option = {"opt_name": name, "opt_value": value}
    network = cloud.network.create_network(name="hostile")
    try:
        with pytest.raises(BadRequestException, match="extra_dhcp_opts"):
            cloud.network.create_port(network_id=network.id, extra_dhcp_opts=[option])
        port = cloud.network.create_port(network_id=network.id)
        with pytest.raises(BadRequestException, match="extra_dhcp_opts"):
            cloud.network.update_port(port.id, extra_dhcp_opts=[option])
        assert not cloud.network.get_port(port.id).extra_dhcp_opts
        cloud.network.delete_port(port.id)
    finally:
        cloud.network.delete_network(network.id)


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("name", NAMES)
def test_hostile_dns_names_are_refused_by_the_api(cloud: Cloud, name: str) -> None:
    with pytest.raises(BadRequestException, match="dns_domain"):
        cloud.network.create_network(name="hostile", dns_domain=name)
    network = cloud.network.create_network(name="hostile")
    try:
        for field in ("dns_name", "dns_domain"):
            with pytest.raises(BadRequestException, match=field):
                cloud.network.create_port(network_id=network.id, **{field: name})
        assert not list(cloud.network.ports(network_id=network.id))
    finally:
        cloud.network.delete_network(network.id)


@pytest.mark.spec("DHCP-48")
def test_hostile_names_of_things_reach_no_file_and_no_command(cloud: Cloud) -> None:
    for name in HARMLESS:
        with DhcpNet(cloud, name, description=name) as net:
            net.subnet(4, name=name, description=name)
            _, _, lease = net.boot(0, name=name, description=name)
            assert lease.hostname != name
            text = _text(net)
            assert MARK not in text
            assert "%s" not in text
            for serving in net.serving_hosts():
                assert not serving.host.call(Path(f"/tmp/{MARK}").exists)


@pytest.mark.spec("DHCP-48", "DHCP-03")
def test_what_only_the_driver_can_refuse_is_left_out_of_its_port_alone(net: DhcpNet) -> None:
    # There are more suppressed options than a line of dnsmasq's files has room for.
    options = [{"opt_name": str(n), "opt_value": "", "ip_version": 6} for n in range(100, 164)]
    port = net.port(0, extra_dhcp_opts=options)
    client = net.client(port)
    leased(client, port)
    neighbour, other, lease = net.boot(0)
    (serving,) = net.serving_hosts()
    message = f"port {port.id}"
    wait_until(lambda: "options[63].value" in serving.dhcp.status()["degraded"].get(message, ""))
    assert net.served_ports(serving) == {port.id, neighbour.id}
    for each in (port, neighbour):
        wait_until(lambda each=each: _status(net, each) == "ACTIVE")

    fewer = [{**option, "opt_value": None} for option in options[10:]]
    net.cloud.network.update_port(port.id, extra_dhcp_opts=fewer)
    wait_until(lambda: not serving.dhcp.status()["degraded"], serving.dhcp.status)
    assert leased(client, port)
    assert leased(other, neighbour) == lease


def _status(net: DhcpNet, port: Any) -> str:
    return str(net.cloud.network.get_port(port.id).status)


def _text(net: DhcpNet) -> str:
    """Return all files that its servers read, and the command lines of their hosts."""
    found = []
    for serving in net.serving_hosts():
        for folder, _, names in os.walk(net.files(serving)):
            for name in names:
                with suppress(FileNotFoundError):  # a temporary file, which got its name meanwhile
                    found.append(Path(folder, name).read_text())
        found.append(serving.host.run(["ps", "-eww", "-o", "args"]))
    return "".join(found)
