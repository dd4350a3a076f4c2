"""Values of a trace that do not depend on a host: ports, and decisions of the desired state."""

from __future__ import annotations

from attrs import field, frozen

from netfw.errors import NotFound
from netfw.model.values.address import as_address


def strings(values: object) -> tuple[str, ...]:
    """Return a list of plain data as strings."""
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()


@frozen(kw_only=True)
class TracedPort:
    """A port as a host, or the API, describes it."""

    id: str
    name: str = ""
    network: str
    network_name: str = ""
    mac: str
    addresses: tuple[str, ...] = field(default=(), converter=strings)
    host: str = ""
    admin_state_up: bool = True
    device_owner: str = ""
    device_id: str = ""

    @property
    def title(self) -> str:
        return f"port {self.name or self.id}"

    @property
    def network_title(self) -> str:
        return f"network {self.network_name or self.network}"


@frozen(kw_only=True)
class Decision:
    """What the desired state of a host decides about a packet."""

    what: str
    allowed: bool
    lines: tuple[str, ...] = field(default=(), converter=strings)
    in_switch: bool = True
    """Whether the switch enforces it; otherwise a trace does not see it."""


def address_of(port: TracedPort, version: int) -> str:
    """Return the first address of a version.

    :raises NotFound: it has none.
    """
    for address in port.addresses:
        if as_address(address).version == version:
            return address
    raise NotFound(f"{port.title} has no IPv{version} address")
