"""AllowedSource: source addresses that a port may use."""

from __future__ import annotations

from attrs import field, frozen

from netfw.model.values.address import IpNetwork, Mac, no_scope


@frozen
class AllowedSource:
    """A MAC address and a prefix that may be used together."""

    mac: Mac = field(converter=Mac)
    prefix: IpNetwork = field(validator=no_scope)
