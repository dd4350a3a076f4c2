"""Routes that a user requested, of a router or for the hosts of a subnet."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from netfw.model.values.address import IpAddress, IpNetwork, as_address, as_network
from netfw.model.values.validation import Problem, Validated


@frozen(kw_only=True)
class Route(Validated):
    """The next hop of packets to a destination."""

    destination: IpNetwork = field(converter=as_network)
    nexthop: IpAddress = field(converter=as_address)

    def _problems(self) -> Iterator[Problem]:
        if self.destination.version != self.nexthop.version:
            yield "nexthop", f"{self.nexthop} is of another family than {self.destination}"
