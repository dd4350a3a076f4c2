"""Files of dhclient, the client to which a provider delegates prefixes.  Pure.

It requests one prefix for each subnet, as an identity association of its own.  Its lease file is
the record of what was delegated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Network
from typing import Final
from uuid import UUID

from attrs import field, frozen

from netfw.model.values.address import Mac, parse_mac
from netfw.model.values.ids import RouterId, SubnetId

MAX_PREFIXES: Final = 64
"""Limit of prefixes that one router requests."""
PREFIX_LENGTH: Final = 64
_DUID_UUID: Final = b"\x00\x04"
"""Type of an identifier that is a UUID (RFC 6355)."""
_IAIDS: Final = 1 << 32
_DEVICE = re.compile(r"^# device (\S{1,15}) mac ([0-9a-f:]{17})$", re.MULTILINE)
_NUMBER = re.compile(
    r"^# prefix ([0-9]{1,3}) for subnet ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$",
    re.MULTILINE,
)
_LEASE = re.compile(r"^lease6 \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ASSOCIATION = re.compile(
    r'^  ia-pd (?:((?:[0-9a-f]{2}:){3}[0-9a-f]{2})|"([ -~]{4})") \{\n(.*?)^  \}',
    re.MULTILINE | re.DOTALL,
)
"""An identifier whose octets are all printable is written as text, and nothing in it is escaped."""
_PREFIX = re.compile(
    r"^    iaprefix (\S{1,64}) \{\n\s+starts ([0-9]{1,12});\n"
    r"\s+preferred-life ([0-9]{1,10});\n\s+max-life ([0-9]{1,10});",
    re.MULTILINE,
)
_RELEASED = re.compile(r"^  released;", re.MULTILINE)


@frozen(kw_only=True)
class PrefixClient:
    """The client of one router."""

    device: str
    """The device of the gateway."""
    mac: Mac
    subnets: Mapping[int, SubnetId] = field(hash=False)
    """The subnets by the number of their association.  A number stays as long as its subnet."""

    @property
    def count(self) -> int:
        """Number of associations: those below the highest one are requested, too."""
        return max(self.subnets, default=-1) + 1

    def iaid(self, number: int) -> int:
        """Return the identifier of an association: it follows from the MAC address, as that of
        each host of a highly available router."""
        return (int(str(self.mac).replace(":", "")[-8:], 16) + number) % _IAIDS


def render_client(client: PrefixClient) -> str:
    """Return the configuration; what the client needs beyond it are its arguments."""
    lines = [f"# device {client.device} mac {client.mac}"]
    lines += [f"# prefix {number} for subnet {id}" for number, id in sorted(client.subnets.items())]
    return "\n".join([*lines, f'interface "{client.device}" {{', "  request;", "}", ""])


def parse_client(text: str) -> PrefixClient | None:
    """Return the client that has the configuration *text*; None: it is not complete."""
    found = _DEVICE.search(text)
    mac = None if found is None else parse_mac(found[2])
    if found is None or mac is None:
        return None
    numbers = _NUMBER.findall(text)
    subnets = {int(number): SubnetId(UUID(id)) for number, id in numbers}
    return PrefixClient(device=found[1], mac=mac, subnets=subnets)


def render_identity(router: RouterId) -> str:
    """Return the first lease file: the client of *router* has one identifier on every host."""
    octets = _DUID_UUID + router.bytes
    return 'default-duid "' + "".join(f"\\{octet:03o}" for octet in octets) + '";\n'


@frozen(kw_only=True, order=True)
class Delegation:
    """A prefix that was delegated."""

    preferred_until: float
    valid_until: float
    """Time in seconds since the epoch."""
    prefix: IPv6Network = field(order=str)


def parse_leases(text: str) -> dict[int, tuple[Delegation, ...]]:
    """Return the prefixes of each association, by its identifier, in the newest complete lease."""
    leases = _LEASE.findall(text)
    if not leases or _RELEASED.search(leases[-1]):
        return {}
    return {
        _parse_iaid(octets, text): tuple(_delegations(content))
        for octets, text, content in _ASSOCIATION.findall(leases[-1])
    }


def _parse_iaid(octets: str, text: str) -> int:
    """Return the identifier that is written as *octets* or as *text*; the other one is empty."""
    return int.from_bytes(text.encode("ascii") or bytes.fromhex(octets.replace(":", "")))


def _delegations(content: str) -> Iterator[Delegation]:
    for text, starts, preferred, valid in _PREFIX.findall(content):
        try:
            prefix = IPv6Network(text)
        except ValueError:
            continue
        if prefix.prefixlen <= PREFIX_LENGTH:
            yield Delegation(
                preferred_until=int(starts) + int(preferred),
                valid_until=int(starts) + int(valid),
                prefix=IPv6Network((prefix.network_address, PREFIX_LENGTH)),
            )


def find_prefixes(
    client: PrefixClient, leases: Mapping[int, tuple[Delegation, ...]], now: float
) -> dict[SubnetId, IPv6Network | None]:
    """Return the prefix of each subnet at the time *now*; None: it had one, which expired.

    A subnet for which nothing was delegated yet is left out.
    """
    found: dict[SubnetId, IPv6Network | None] = {}
    for number, subnet in client.subnets.items():
        delegations = leases.get(client.iaid(number))
        if delegations is not None:
            valid = [each for each in delegations if each.valid_until > now]
            found[subnet] = max(valid).prefix if valid else None
    return found
