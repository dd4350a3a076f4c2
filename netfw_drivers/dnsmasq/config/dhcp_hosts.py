"""Host files (``host``): names and addresses of ports.  Pure.

Parts of a line, and the reasons (verified with dnsmasq 2.90):

``tag:!none``
    dnsmasq searches lines with tags first; a line that requires the absence of a tag is found in
    the first of two searches.  With 5,000 leases a new file costs a third.
``id:*``
    A port is identified by its MAC address alone, whatever client identifier its boot loader or its
    system sends.  dnsmasq does not search for identifiers then, which costs a third again.
``set:``
    The port has options of its own.  **dnsmasq dies of SIGHUP once it has answered a port whose
    line has one** (2.86 to 2.90): it has to be restarted instead, see ``is_tagged``.

Of several lines with one MAC address the last that fits is taken: the port's first IPv4 address is
there.  A line without an address fits always, so that it comes before all others.  Several IPv6
addresses are one line: dnsmasq looks at one alone, and gives one address of each subnet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support.dhcp_option_text import check_domain, render_client_id
from netfw.drivers.support.dhcp_options import CLIENT_ID
from netfw.errors import InvalidInput
from netfw.model.port import FixedIp
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import SubnetId
from netfw.model.values.text_validation import quote
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.config.subnet_modes import Mode, served

_LIKE_TIME = re.compile(r"[0-9]+[wdhmsWDHMS]?")
_WORDS = {"ignore", "infinite"}
_LENGTH = 253


@frozen
class HostName:
    """Name of an address, without and with its domain."""

    host: str
    full: str


def network_domain(network: DhcpNetwork, settings: Settings) -> str:
    """Return the domain of the network's ports; empty: none."""
    return (network.dns_domain or settings.domain).removesuffix(".")


def port_hostname(
    port: DhcpPort, address: IpAddress, network: DhcpNetwork, settings: Settings
) -> HostName:
    """Return the name of *address* of *port*, which was validated before."""
    domain = port.domain.removesuffix(".") or network_domain(network, settings)
    host = port.hostname.removesuffix(".") or default_hostname(address)
    return HostName(host, f"{host}.{domain}" if domain else host)


def default_hostname(address: IpAddress) -> str:
    """Return the default host name of an address: the address in full."""
    if address.version == 4:
        return "host-" + str(address).replace(".", "-")
    digits = address.packed.hex("-", 2)
    return f"host-{digits}"


def validate_hostname(full: str) -> None:
    """Validate a name for a host file.

    :raises ValueError: it is invalid, or dnsmasq would misread it.
    """
    check_domain(full)
    if len(full) > _LENGTH:
        raise ValueError(f"is longer than {_LENGTH} characters with its domain")
    if full.lower() in _WORDS or _LIKE_TIME.fullmatch(full) or _is_address(full):
        raise ValueError(f"is a word of dnsmasq's, a time or an address: {quote(full)}")


def _is_address(text: str) -> bool:
    if not text[-1:].isdigit():
        return False
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


_FIRST = "tag:!none"
_ANY_CLIENT_ID = "id:*"
_SET = ",set:"
LINE_LENGTH = 1023
"""Limit of a line: dnsmasq reads the rest as another line."""


def host_lines(
    port: DhcpPort, network: DhcpNetwork, settings: Settings, tags: tuple[str, ...]
) -> str:
    """Render the host file of a port; empty: it gets no answer.

    :param tags: tags that its options need.
    :raises InvalidInput: its identifier is none, or it has more than a line has room for; the field
        is named.
    """
    entry = _Entry(
        port=port,
        network=network,
        settings=settings,
        modes={subnet.id: mode for subnet, mode in served(network.subnets)},
        tags=tuple(f"set:{tag}" for tag in tags),
        clients=_client_ids(port),
    )
    lines = [",".join(words) for words in entry.lines()]
    if any(len(line) > LINE_LENGTH for line in lines):
        field = "options" if len(",".join(entry.tags)) > LINE_LENGTH // 2 else "fixed_ips"
        raise InvalidInput({field: "are more than dnsmasq can read in a line: have fewer"})
    return "".join(f"{line}\n" for line in lines)


def ignore_line(mac: Mac | str) -> str:
    """Render the line that makes dnsmasq ignore a MAC address, whatever other files have."""
    return f"{mac},{_FIRST},ignore\n"


def is_tagged(host: str) -> bool:
    """Return whether dnsmasq must not be sent SIGHUP once it has read the file *host*.

    2.86 to 2.90 die of it as soon as the port got a lease.  Stop and start it instead: that takes
    less time than SIGHUP, too.
    """
    return _SET in host


@frozen(kw_only=True)
class _Entry:
    """Port with the common parts of its lines."""

    port: DhcpPort
    network: DhcpNetwork
    settings: Settings
    modes: Mapping[SubnetId, Mode]
    tags: tuple[str, ...]
    clients: Mapping[int, str]

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the lines in order: the one without an address is first."""
        mac = self.port.mac
        if self._needs_options_alone():
            yield (mac, _FIRST, *self._id(6), *self.tags)
        for fixed in reversed([*self._given(4)]):
            client = self._id(4) or (_ANY_CLIENT_ID,)
            yield (mac, _FIRST, *client, self._name(fixed), str(fixed.address), *self.tags)
        given = [*self._given(6)]
        if given:
            addresses = (f"[{fixed.address}]" for fixed in given)
            yield (mac, _FIRST, *self._id(6), self._name(given[0]), *addresses, *self.tags)

    def _needs_options_alone(self) -> bool:
        """Return whether the port has own options and configures its IPv6 address by SLAAC."""
        modes = {self.modes.get(fixed.subnet_id) for fixed in self.port.fixed_ips}
        return bool(self.tags) and any(mode is not None and mode.gives_options for mode in modes)

    def _given(self, version: int) -> Iterator[FixedIp]:
        """Yield the addresses that dnsmasq gives the port."""
        for fixed in self.port.fixed_ips:
            mode = self.modes.get(fixed.subnet_id)
            if mode is not None and mode.gives_addresses and fixed.address.version == version:
                yield fixed

    def _name(self, fixed: FixedIp) -> str:
        return port_hostname(self.port, fixed.address, self.network, self.settings).full

    def _id(self, version: int) -> tuple[str, ...]:
        return (f"id:{self.clients[version]}",) if version in self.clients else ()


def _client_ids(port: DhcpPort) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for at, option in enumerate(port.options):
        if option.name.lower() in CLIENT_ID.get(option.ip_version, ()):
            try:
                found[option.ip_version] = render_client_id(option.value)
            except ValueError as exc:
                raise InvalidInput({f"options[{at}].value": str(exc)}) from exc
    return found
