"""What dnsmasq is told of a network and of a port: a command line, and the text of every file."""

from __future__ import annotations

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPlace, DhcpPort
from netfw.model.ids import NetworkId, PortId
from netfw.model.subnet import Subnet
from netfw_drivers.dnsmasq.files import Files
from netfw_drivers.dnsmasq.settings import INFINITE, Settings


@frozen(kw_only=True)
class NetworkText:
    """A network as dnsmasq is told it."""

    argv: tuple[str, ...]
    """The command line; another one needs another process."""
    opts: str
    """The content of ``Files.network_opts``."""
    interface: str
    """The content of ``Files.interface``."""


@frozen(kw_only=True)
class PortText:
    """A port as dnsmasq is told it: three files; one that would be empty is not wanted."""

    host: str = ""
    opts: str = ""
    names: str = ""


def render_network(
    id: NetworkId, network: DhcpNetwork, place: DhcpPlace, settings: Settings
) -> NetworkText:
    """The command line and files of a network.

    :raises InvalidInput: a text in it would be more than one value; the faulty field is named.
    """
    files = Files(settings.confs, id)
    argv = (
        settings.command,
        "--no-hosts",
        "--no-resolv",
        "--strict-order",
        "--except-interface=lo",
        "--bind-interfaces",
        f"--interface={place.device}",
        f"--pid-file={files.pid}",
        f"--dhcp-hostsdir={files.host}",
        f"--hostsdir={files.addn_hosts}",
        f"--dhcp-optsdir={files.opts}",
        f"--dhcp-leasefile={files.leases}",
        "--dhcp-match=set:ipxe,175",
        *(f"--user={settings.user}" for _ in [0] if settings.user),
        *(_range(subnet, settings) for subnet in network.subnets if subnet.enable_dhcp),
    )
    opts = "".join(
        f"tag:subnet-{subnet.id},option:router,{subnet.gateway or ''}\n"
        for subnet in network.subnets
        if subnet.enable_dhcp and subnet.ip_version == 4
    )
    return NetworkText(argv=argv, opts=opts, interface=f"{place.device}\n")


def _range(subnet: Subnet, settings: Settings) -> str:
    lease = "infinite" if settings.lease == INFINITE else f"{settings.lease}s"
    mask = subnet.cidr.netmask if subnet.ip_version == 4 else subnet.cidr.prefixlen
    return (
        f"--dhcp-range=set:subnet-{subnet.id},{subnet.cidr.network_address},static,{mask},{lease}"
    )


def render_port(id: PortId, port: DhcpPort, network: DhcpNetwork, settings: Settings) -> PortText:
    """The files of a port.

    :raises InvalidInput: a text in it would be more than one value; the faulty field is named.
    """
    served = {subnet.id for subnet in network.subnets if subnet.enable_dhcp}
    domain = port.domain or network.dns_domain or settings.domain
    hosts, names = [], []
    for fixed in port.fixed_ips:
        bare = str(fixed.address)
        name = port.hostname or "host-" + bare.replace(".", "-").replace(":", "-")
        fqdn = f"{name}.{domain}" if domain else name
        names.append(f"{bare} {fqdn} {name}\n")
        if fixed.subnet_id in served:
            shown = f"[{bare}]" if fixed.address.version == 6 else bare
            hosts.append(f"{port.mac},{fqdn},{shown}\n")
    return PortText(host="".join(hosts), names="".join(names))


def tombstone(port: DhcpPort) -> str:
    """The content of ``Files.host_of`` a port that is gone: its MAC is not answered any more."""
    return f"{port.mac},ignore\n"


def needs_reload(before: PortText | None, after: PortText | None) -> bool:
    """Whether dnsmasq, which reads new and changed files by itself, must be sent SIGHUP."""
    return before is not None and before != after
