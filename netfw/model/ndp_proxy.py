"""NDP proxies: inside IPv6 addresses for which the gateway of a router answers."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from netfw.model.values.address import IpAddress, as_address
from netfw.model.values.common_fields import Named
from netfw.model.values.ids import NdpProxyId, PortId, RouterId
from netfw.model.values.validation import Problem


@frozen(kw_only=True)
class NdpProxy(Named):
    """An IPv6 address of a port that the external network reaches by the router's gateway."""

    id: NdpProxyId
    router_id: RouterId
    port_id: PortId
    address: IpAddress = field(converter=as_address)

    def _problems(self) -> Iterator[Problem]:
        if self.address.version != 6:
            yield "address", f"{self.address} is not an IPv6 address"
