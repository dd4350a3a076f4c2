"""Allowed address pairs by network, for the ARP responder.  Pure.

The port that uses an allowed address changes without the agent: a VIP moves by its announcement.
So the responder answers for no address that is also an allowed address pair of another port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Network

from attrs import frozen

from netfw.model.port import Port
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.ids import NetworkId, PortId

Prefix = tuple[NetworkId, IpNetwork]


@frozen
class PairChange:
    """Addresses that may be answered for differently than before.

    Those of *port* alone, or of every port if that is ``None``, on *network* within *prefix*.
    """

    network: NetworkId
    prefix: IpNetwork
    port: PortId | None = None


class AddressPairIndex:
    """The ports that may use an address beside the ports that have it."""

    def __init__(self) -> None:
        self._pairs: dict[PortId, frozenset[Prefix]] = {}
        self._ports: dict[Prefix, set[PortId]] = {}
        self._lengths: dict[tuple[NetworkId, int], Counter[int]] = {}

    def update(self, id: PortId, port: Port | None) -> tuple[PairChange, ...]:
        """Update the pairs of a port, ``None``: it is gone; return what that changes."""
        pairs = frozenset[Prefix]()
        if port is not None:
            pairs = frozenset((port.network_id, pair.prefix) for pair in port.allowed_address_pairs)
        former = self._pairs.pop(id, frozenset())
        if pairs:
            self._pairs[id] = pairs
        removed = (self._discard(pair, id) for pair in former - pairs)
        added = (self._add(pair, id) for pair in pairs - former)
        return tuple(change for change in (*removed, *added) if change is not None)

    def has_other_user(self, network: NetworkId, address: IpAddress, port: PortId) -> bool:
        """Return whether another port than *port* may use *address*."""
        for length in self._lengths.get((network, address.version), ()):
            users = self._ports.get((network, _prefix(address, length)), ())
            if any(user != port for user in users):
                return True
        return False

    def _add(self, pair: Prefix, id: PortId) -> PairChange | None:
        change = self._change(pair)
        network, prefix = pair
        self._ports.setdefault(pair, set()).add(id)
        self._lengths.setdefault((network, prefix.version), Counter())[prefix.prefixlen] += 1
        return change

    def _discard(self, pair: Prefix, id: PortId) -> PairChange | None:
        network, prefix = pair
        self._ports[pair].discard(id)
        if not self._ports[pair]:
            del self._ports[pair]
        lengths = self._lengths[network, prefix.version]
        lengths[prefix.prefixlen] -= 1
        if not lengths[prefix.prefixlen]:
            del lengths[prefix.prefixlen]
        if not lengths:
            del self._lengths[network, prefix.version]
        return self._change(pair)

    def _change(self, pair: Prefix) -> PairChange | None:
        """Return what one more or one less user means, beside those that *pair* has now.

        The first one concerns all ports with an address in the prefix.  The second one concerns
        the first, whose own addresses were its own so far.  Others change nothing.
        """
        users = self._ports.get(pair, set())
        if len(users) > 1:
            return None
        return PairChange(*pair, next(iter(users), None))


def addresses_within(prefix: IpNetwork, known: Collection[IpAddress]) -> Iterator[IpAddress]:
    """Yield the addresses of *known* in *prefix*, by a search in the smaller of both."""
    if prefix.num_addresses <= len(known):
        yield from (address for address in prefix if address in known)
    else:
        yield from (address for address in known if address in prefix)


def _prefix(address: IpAddress, length: int) -> IpNetwork:
    """Return the prefix of *length* that *address* is in."""
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), length), strict=False)
    return IPv6Network((int(address), length), strict=False)
