"""Grant requests of agent extensions to the driver that they extend, and the grants.

Numbers in the dataplane (tables, register bits, marks, cookies) belong to the extension that was
granted them: two extensions cannot collide, and a clean-up can tell the owner of a flow or chain.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from attrs import field, frozen

from netfw.model.values.device_names import check_device_name


class PipelineHook(enum.StrEnum):
    """A point of the pipeline at which packets enter an extension's table."""

    FROM_PORT = "from-port"
    """Packets from a port, past the switch's spoofing guard and before any firewall."""
    TO_PORT = "to-port"
    """Packets to a port of this host, after a firewall in the switch and before one outside the
    switch."""
    SENT = "sent"
    """Packets from a port that all filters in the switch have allowed."""
    RECEIVED = "received"
    """Packets that are allowed to a port of this host, after all tables at ``TO_PORT``."""
    DROPPED = "dropped"
    """Dropped packets.  The extension may read them, and cannot save them."""


@frozen(kw_only=True)
class TableRequest:
    """A request for a table."""

    name: str
    hook: PipelineHook | None = None
    """Point at which packets enter it; ``None``: only from the extension's own tables."""


@frozen
class RegisterRequest:
    """A request for bits that travel with a packet: in a register, or in a router's mark."""

    name: str
    bits: int = field()

    @bits.validator
    def _check(self, _: object, bits: int) -> None:
        if not 0 < bits <= 32:
            raise ValueError(f"bits of {self.name!r}: {bits} is not within 1..32")


@frozen(kw_only=True)
class GrantRequest:
    """Everything that one extension needs, known before the first resource."""

    owner: str = field()
    tables: tuple[TableRequest, ...] = ()
    registers: tuple[RegisterRequest, ...] = ()
    marks: tuple[RegisterRequest, ...] = ()
    meters: int = 0
    """Number of meters for each port."""

    @owner.validator
    def _check_owner(self, _: object, owner: str) -> None:
        try:
            check_device_name(owner)  # it ends up in chain names and cookies' log lines
        except ValueError as exc:
            raise ValueError(f"the owner has to be like the name of a device; {exc}") from None

    def __attrs_post_init__(self) -> None:
        for what in (self.tables, self.registers, self.marks):
            names = [request.name for request in what]
            if len(names) != len(set(names)):
                raise ValueError(f"{self.owner} requests one name twice: {sorted(names)}")


@frozen(kw_only=True)
class TableGrant:
    """A table number, and the next table of packets that the extension does not handle."""

    number: int
    then: int | None
    """The next table; ``None`` after ``PipelineHook.DROPPED``: the packet ends there."""


@frozen(kw_only=True)
class RegisterGrant:
    """Bits ``first`` to ``first + bits - 1`` of register ``register``, or of the mark."""

    register: int | None
    first: int
    bits: int


@frozen(kw_only=True)
class Grant:
    """The answer to a grant request.  Equal requests give equal grants, also after a restart.

    On a switch, flows of the extension are in its tables and carry its cookie.  Their packets
    continue in its tables or in ``TableGrant.then``; the same holds for flows that they learn.
    They may change the packet itself and the granted bits, and send it to a named port, to its
    input port, or to the controller.  They may use connection tracking, whose state is cleared
    before a firewall, queues, and conjunctions, whose ids are local to a table.  They may not
    write other state of a packet (other registers, metadata, marks, the tunnel, the input port),
    and may not use outputs to many ports: ``NORMAL``, ``FLOOD`` and ``ALL`` ignore the network of
    a packet.  A meter limits what they send to the controller, or what passes them: a packet beyond
    that limit reaches none of the receivers that it still has.
    """

    owner: str
    cookie: int
    """Carried by every flow of this extension, under ``cookie_mask``."""
    cookie_mask: int
    prefix: str
    """Prefix of the names of the extension's chains and sets."""
    tables: Mapping[str, TableGrant] = field(factory=dict)
    registers: Mapping[str, RegisterGrant] = field(factory=dict)
    marks: Mapping[str, RegisterGrant] = field(factory=dict)
    meters: tuple[int, ...] = ()
    """The number of a port in the switch is added to each: its meters."""
