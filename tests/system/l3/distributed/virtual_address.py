"""Two instances that share an address by VRRP, as users run keepalived."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from attrs import frozen

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.l3.routed_networks import Guest, RoutedNetworks, Segment

ADVERT = 1
"""Seconds between two advertisements."""
PRIORITIES = (150, 100)
_CONFIG = """
global_defs {{
    vrrp_garp_master_refresh 0
}}
vrrp_instance shared{version} {{
    interface {device}
    virtual_router_id {vrid}
    priority {priority}
    advert_int {advert}
    state BACKUP
    virtual_ipaddress {{
        {address}
    }}
}}
"""


@frozen(kw_only=True)
class SharedAddress:
    """An address of each IP version, its port of the API, and the two instances."""

    port: Any
    members: tuple[Guest, Guest]

    def address(self, version: int) -> str:
        found = (str(each["ip_address"]) for each in self.port.fixed_ips)
        return next(each for each in found if ip_address(each).version == version)

    def holder(self) -> Guest | None:
        """Return the instance that alone has the addresses; ``None``: neither or both."""
        found = [each for each in self.members if self._has_addresses(each.instance)]
        return found[0] if len(found) == 1 else None

    def _has_addresses(self, instance: Instance) -> bool:
        shown = instance.run(["ip", "-o", "address", "show", "up"])
        return all(f" {self.address(version)}/" in shown for version in (4, 6))


@contextmanager
def shared_address(
    site: RoutedNetworks, segment: Segment, hosts: tuple[ServedHost, ServedHost], directory: Path
) -> Iterator[SharedAddress]:
    """Run two instances on two hosts whose keepalived share addresses of a segment.

    Remove all of it at the end.
    """
    group = _make_group(site.network)
    port = site.network.create_port(network_id=segment.network.id, name="vip")
    pairs = [{"ip_address": each["ip_address"]} for each in port.fixed_ips]
    members = [
        site.guest(
            f"member{number}", segment, host, port_security_enabled=True,
            security_groups=[group.id], allowed_address_pairs=pairs,
        )
        for number, host in enumerate(hosts, 1)
    ]  # fmt: skip
    shared = SharedAddress(port=port, members=(members[0], members[1]))
    started: list[subprocess.Popen[bytes]] = []
    try:
        for priority, member in zip(PRIORITIES, members, strict=True):
            started.append(_start(shared, member, priority, directory))
        wait_until(lambda: shared.holder() is members[0])
        yield shared
    finally:
        for process in started:
            process.terminate()
            process.wait()
        for host, member in zip(hosts, members, strict=True):
            site.network.delete_port(member.port.id)
            host.unplug_port(member.port)
        site.network.delete_port(port.id)
        site.network.delete_security_group(group.id)


def _make_group(network: Any) -> Any:
    """Make a security group that admits pings and VRRP."""
    group = network.create_security_group(name="shared address")
    for ethertype, protocol in (
        ("IPv4", "icmp"), ("IPv6", "ipv6-icmp"), ("IPv4", "112"), ("IPv6", "112"),
    ):  # fmt: skip
        network.create_security_group_rule(
            security_group_id=group.id, direction="ingress", ethertype=ethertype, protocol=protocol
        )
    return group


def _start(
    shared: SharedAddress, member: Guest, priority: int, directory: Path
) -> subprocess.Popen[bytes]:
    device = member.instance.device or "eth0"
    text = "".join(
        _CONFIG.format(
            version=version, device=device, vrid=50 + version, priority=priority, advert=ADVERT,
            address=f"{shared.address(version)}/{32 if version == 4 else 128}",
        )
        for version in (4, 6)
    )  # fmt: skip
    config = directory / f"{member.port.name}.conf"
    config.write_text(text)
    files = [
        word
        for option, suffix in (("-p", "pid"), ("-r", "vrrp"), ("-c", "check"))
        for word in (option, str(config.with_suffix(f".{suffix}")))
    ]
    return member.instance.spawn(["keepalived", "-n", "-l", "-P", "-f", str(config), *files])
