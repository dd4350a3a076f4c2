"""Source: what a port may send as."""

from __future__ import annotations

from attrs import field, frozen

from netfw.model.address import IpNetwork, Mac, no_scope


@frozen
class AllowedSource:
    """A MAC address together with the addresses it may be used with."""

    mac: Mac = field(converter=Mac)
    prefix: IpNetwork = field(validator=no_scope)
