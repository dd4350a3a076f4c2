"""Parsers and renderers of host files and the lease file.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from attrs import frozen

from netfw.model.values.address import IpAddress, Mac, parse_mac
from netfw_drivers.dnsmasq.config.dhcp_hosts import ignore_line, is_tagged


@frozen
class HostEntry:
    """Addresses in a port's host file."""

    macs: frozenset[str]
    addresses: frozenset[IpAddress]
    tagged: bool = False
    """dnsmasq must not be sent SIGHUP once it has answered the port: see ``is_tagged``."""

    @property
    def words(self) -> frozenset[str]:
        """MAC and IP addresses as text."""
        return frozenset((*self.macs, *map(str, self.addresses)))


EMPTY_ENTRY = HostEntry(frozenset(), frozenset())
_TAGGED = "# had,set:"
_MAC_LENGTH = len("00:00:00:00:00:00")
_HEX = frozenset("0123456789abcdefABCDEF:")
_DIGITS = frozenset("0123456789")
_SET = ",set:"


def addresses_in(host: str) -> frozenset[str]:
    """Return the MAC and IP addresses in a host file, as text.

    Faster than :func:`read_host`.
    """
    found: list[str] = []
    for line in host.splitlines():
        words = line.split(_SET, 1)[0].split(",")
        six = [word[1:-1] for word in words if word[:1] == "["]
        four = words[-1:] if words[-1][:1] in _DIGITS else ()
        found += (words[0], *six, *four)
    return frozenset(found) - {""}  # of a malformed line


def read_host(text: str) -> HostEntry:
    """Parse a host file or a tombstone."""
    words = [word for line in text.splitlines() for word in line.lstrip("# ").split(",")]
    return HostEntry(
        macs=frozenset(str(mac) for word in words if (mac := _mac(word)) is not None),
        addresses=frozenset(a for word in words if (a := _address(word.strip("[]"))) is not None),
        tagged=is_tagged(text),
    )


def render_tombstone(entry: HostEntry) -> str:
    """Render the tombstone of a removed port: dnsmasq ignores its clients.

    It lists the port's addresses: dnsmasq gives them to no other port before it reads all files.
    """
    ignored = map(ignore_line, sorted(entry.macs))
    noted = (f"# {address}\n" for address in sorted(entry.addresses, key=str))
    return "".join((*ignored, *noted, f"{_TAGGED}\n" if entry.tagged else ""))


@frozen(kw_only=True)
class Lease:
    """Lease in dnsmasq's lease file."""

    address: IpAddress
    holder: str
    """MAC address of the client; for IPv6 the IAID instead."""
    client: str
    """Client identifier; ``*``: none."""
    server: str = ""
    """DUID of the server."""

    def release(self, device: str) -> tuple[str, ...]:
        """Return the command that releases the lease in the name of the client."""
        if self.address.version == 4:
            client = () if self.client == "*" else (self.client,)
            return ("dhcp_release", device, str(self.address), self.holder, *client)
        return (
            "dhcp_release6",
            *("--iface", device),
            *("--client-id", self.client),
            *("--server-id", self.server),
            *("--iaid", self.holder.lstrip("T")),
            *("--ip", str(self.address)),
        )


def read_leases(text: str) -> Iterator[Lease]:
    """Parse a lease file; skip other lines."""
    server = _server(text)
    for line in text.splitlines():
        lease = _lease(line, server)
        if lease is not None:
            yield lease


def find_leases(text: str, addresses: Iterable[IpAddress]) -> Iterator[Lease]:
    """Yield the leases of *addresses*; cheap, whatever the number of other leases."""
    for address in addresses:
        at = text.find(f" {address} ")
        if at >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            lease = _lease(text[start : end if end >= 0 else None], _server(text))
            if lease is not None:
                yield lease


def render_leases(entries: Iterable[HostEntry], expiry: int) -> str:
    """Render a lease file with the IPv4 addresses of all *entries*.

    :param expiry: expiry of the leases in seconds of the epoch; 0: never.
    """
    return "".join(
        f"{expiry} {mac} {address} * *\n"
        for entry in entries
        for mac in sorted(entry.macs)
        for address in sorted(entry.addresses, key=str)
        if address.version == 4
    )


def without_leases(text: str, addresses: Iterable[IpAddress]) -> str:
    """Return the lease file without the leases of *addresses*."""
    gone = {str(address) for address in addresses}
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not gone & set(line.split(" ")[2:3]))


def _lease(line: str, server: str) -> Lease | None:
    words = line.split(" ")
    address = _address(words[2]) if len(words) >= 5 else None
    if address is None:
        return None
    return Lease(address=address, holder=words[1], client=words[4], server=server)


def _server(text: str) -> str:
    at = text.find("\nduid ") + 1 if not text.startswith("duid ") else 0
    return text[at:].split("\n", 1)[0].removeprefix("duid ") if text.startswith("duid ", at) else ""


def _mac(word: str) -> Mac | None:
    return parse_mac(word) if len(word) == _MAC_LENGTH and word[2] == ":" else None


def _address(word: str) -> IpAddress | None:
    if word[:1] not in _HEX or not ("." in word or ":" in word):
        return None
    try:
        return ip_address(word)
    except ValueError:
        return None
