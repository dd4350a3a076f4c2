"""What a switch's database says, as values.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import field, frozen

IFACE_ID = "iface-id"
"""Key of an interface's ``external_ids`` that names the port it belongs to."""
OWNER = "netfw-port"
"""Key of a port's ``external_ids`` that marks it as made by netfw, for the port it names."""
INDEXED = (IFACE_ID, OWNER)
"""The keys by which ports are found without looking at all of them."""


def _map() -> Mapping[str, str]:
    return field(factory=dict, hash=False)


@frozen(kw_only=True)
class Interface:
    """A row of ``Interface``, without its counters."""

    uuid: UUID
    name: str
    type: str = ""
    mac: str | None = None
    """The address that was asked for; ``mac_in_use`` is the one it has."""
    mac_in_use: str | None = None
    mtu: int | None = None
    mtu_request: int | None = None
    ofport: int | None = None
    """``None`` until the switch gave it a number; -1 when it could not, and ``error`` says why."""
    error: str | None = None
    link_state: str | None = None
    options: Mapping[str, str] = _map()
    other_config: Mapping[str, str] = _map()
    external_ids: Mapping[str, str] = _map()


@frozen(kw_only=True)
class OvsdbPort:
    """A row of ``Port``, the bridge it is on and its interfaces (more than one: a bond)."""

    uuid: UUID
    name: str
    bridge: str
    tag: int | None = None
    vlan_mode: str | None = None
    trunks: tuple[int, ...] = ()
    other_config: Mapping[str, str] = _map()
    external_ids: Mapping[str, str] = _map()
    interfaces: tuple[Interface, ...] = ()

    @property
    def interface(self) -> Interface:
        """The interface of a port that is not a bond."""
        return self.interfaces[0]

    @property
    def claims(self) -> frozenset[tuple[str, str]]:
        """What this port can be found by: the `INDEXED` keys of its rows, with their values."""
        rows = (self.external_ids, *(member.external_ids for member in self.interfaces))
        return frozenset((key, ids[key]) for ids in rows for key in INDEXED if key in ids)


@frozen(kw_only=True)
class Bridge:
    """A row of ``Bridge``.  Its ports are in :attr:`Snapshot.ports`."""

    uuid: UUID
    name: str
    datapath_type: str = ""
    datapath_id: str | None = None
    """The switch gives a bridge one when it has made it; ``None`` until then."""
    fail_mode: str | None = None
    protocols: tuple[str, ...] = ()
    mcast_snooping_enable: bool = False
    other_config: Mapping[str, str] = _map()
    external_ids: Mapping[str, str] = _map()


@frozen(kw_only=True)
class Switch:
    """The one row of ``Open_vSwitch``."""

    uuid: UUID
    cur_cfg: int = 0
    next_cfg: int = 0
    ovs_version: str | None = None
    iface_types: tuple[str, ...] = ()
    datapath_types: tuple[str, ...] = ()
    other_config: Mapping[str, str] = _map()
    external_ids: Mapping[str, str] = _map()


@frozen(kw_only=True)
class Snapshot:
    """Everything at one moment, by name."""

    switch: Switch
    bridges: Mapping[str, Bridge] = _map()  # type: ignore[assignment]
    ports: Mapping[str, OvsdbPort] = _map()  # type: ignore[assignment]


@frozen(kw_only=True)
class DatabaseChanged:
    """What is different from what was announced before; the values are the new ones.

    A restart of the database announces what changed meanwhile and nothing else: the difference is
    taken against the mirror, never guessed from the rows that the server sends again.
    """

    bridges: Mapping[str, Bridge] = _map()  # type: ignore[assignment]
    bridges_gone: frozenset[str] = frozenset()
    ports: Mapping[str, OvsdbPort] = _map()  # type: ignore[assignment]
    ports_gone: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.bridges or self.bridges_gone or self.ports or self.ports_gone)


@frozen
class Disconnected:
    """The database does not answer; what is read until it is back is refused, not old."""

    remote: str


@frozen
class Connected:
    """The database answers, and the mirror is current; `DatabaseChanged` follows a change."""

    remote: str


@frozen
class LockChanged:
    """The state of a requested lock changed; `Ovsdb.hold` returns whether it is held."""

    lock: str


SwitchEvent = DatabaseChanged | Connected | Disconnected | LockChanged
