"""The command line of a network's dnsmasq.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.drivers.dhcp import DhcpLocation, DhcpNetwork
from netfw.drivers.support.lease_options import INFINITE
from netfw.model.subnet import Subnet
from netfw.model.values.ids import NetworkId
from netfw_drivers.dnsmasq.config.dhcp_hosts import network_domain
from netfw_drivers.dnsmasq.config.dhcp_opts import network_opts
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.config.subnet_modes import Mode, served, subnet_tag

_IPV6_MTU = 1280
"""Smallest MTU of IPv6."""


def command_line(
    id: NetworkId, network: DhcpNetwork, location: DhcpLocation, settings: Settings
) -> tuple[str, ...]:
    """Render the command line of a network; another one needs another process."""
    return (
        settings.command,
        *_alone(settings),
        *_paths(NetworkPaths(settings.confs, id)),
        *_listening(location, settings),
        *_serving(network, settings),
        *_announcing(network, location, settings),
        *_naming(network, settings),
        *_logging(NetworkPaths(settings.confs, id), settings),
    )


def _alone(settings: Settings) -> Iterator[str]:
    """Yield options that isolate dnsmasq from the host's configuration."""
    yield f"--conf-file={settings.config_file or '/dev/null'}"
    yield "--no-hosts"
    if not settings.local_resolv:
        yield "--no-resolv"
    yield "--strict-order"
    if settings.user:
        yield f"--user={settings.user}"


def _paths(files: NetworkPaths) -> Iterator[str]:
    yield f"--pid-file={files.pid}"
    yield f"--dhcp-hostsdir={files.host}"
    yield f"--hostsdir={files.addn_hosts}"
    yield f"--dhcp-optsdir={files.opts}"
    yield f"--dhcp-leasefile={files.leases}"


def _listening(location: DhcpLocation, settings: Settings) -> Iterator[str]:
    yield "--except-interface=lo"
    if settings.bridged:
        yield "--bind-interfaces"
        yield f"--interface={location.device}"
        return
    yield "--bind-dynamic"
    yield f"--interface={location.device}"
    yield "--interface=tap*"
    yield f"--bridge-interface={location.device},tap*"


def _serving(network: DhcpNetwork, settings: Settings) -> Iterator[str]:
    """Yield the options of DHCP.

    Ports are known.  Unknown clients are not answered, not even refused: another server may know
    them.  Known clients keep their address, whichever server gave it (``authoritative``).
    """
    yield "--dhcp-authoritative"
    yield "--dhcp-ignore=tag:!known,tag:!dhcpv6"
    yield "--dhcp-match=set:ipxe,175"
    yield "--dhcp-userclass=set:ipxe6,iPXE"
    subnets = [*served(network.subnets)]
    for subnet, mode in subnets:
        yield _range(subnet, mode, settings)
    if subnets:
        count = sum(subnet.cidr.num_addresses for subnet, _ in subnets)
        yield f"--dhcp-lease-max={min(count, settings.lease_max)}"
    yield f"--dhcp-option-force=option:mtu,{network.mtu}"
    if settings.broadcast_reply:
        yield "--dhcp-broadcast"


def _range(subnet: Subnet, mode: Mode, settings: Settings) -> str:
    lease = "infinite" if settings.lease == INFINITE else f"{settings.lease}s"
    size = subnet.cidr.netmask if subnet.ip_version == 4 else subnet.cidr.prefixlen
    start = subnet.cidr.network_address
    return f"--dhcp-range=set:{subnet_tag(subnet)},{start},{mode.word},{size},{lease}"


def _announcing(network: DhcpNetwork, location: DhcpLocation, settings: Settings) -> Iterator[str]:
    """Yield the options of router advertisements; their lifetime is 0, as dnsmasq is no router.

    Ranges of addresses are announced all or none: there is no option for one of them.  Where
    dnsmasq only announces, it reads no file of options.
    """
    modes = [mode for _, mode in served(network.subnets)]
    if any(mode.announces and mode.gives_addresses for mode in modes):
        yield "--enable-ra"
    if any(mode.announces for mode in modes):
        mtu = network.mtu if network.mtu >= _IPV6_MTU else "off"
        yield f"--ra-param={location.device},mtu:{mtu},0,0"
    if not any(mode.gives_addresses or mode.gives_options for mode in modes):
        for line in network_opts(network, settings).splitlines():
            yield f"--dhcp-option={line}"


def _naming(network: DhcpNetwork, settings: Settings) -> Iterator[str]:
    domain = network_domain(network, settings)
    if domain:
        yield f"--domain={domain}"
    for server in settings.dns_servers:
        yield f"--server={server}"


def _logging(files: NetworkPaths, settings: Settings) -> Iterator[str]:
    if settings.log_directory is not None:
        yield "--log-queries"
        yield "--log-dhcp"
        yield f"--log-facility={files.log(settings.log_directory)}"
