"""What an agent extension asks of the driver it extends, and what it is given.

Numbers in the data plane (tables, register bits, marks, cookies) belong to whoever was granted
them: two extensions cannot collide, and a clean-up knows whose flow or chain it looks at.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from attrs import field, frozen

from netfw.model.device_names import check_device_name


class PipelineHook(enum.StrEnum):
    """Where on its way a packet is led through an extension's table."""

    FROM_PORT = "from-port"
    """It left a port, as itself where the switch guards it; no firewall has judged it yet."""
    TO_PORT = "to-port"
    """It is about to be delivered to a port of this host, which a firewall in the switch has let
    through; one that filters outside of the switch has not seen it yet."""
    SENT = "sent"
    """It left a port and was let through by all that filters in the switch."""
    RECEIVED = "received"
    """It is let through to a port of this host, after all who stand at ``TO_PORT``."""
    DROPPED = "dropped"
    """It was refused.  The extension may look at it, not save it."""


@frozen(kw_only=True)
class TableRequest:
    """A table of the extension's own."""

    name: str
    hook: PipelineHook | None = None
    """Where packets enter it; ``None``: only from the extension's own tables."""


@frozen
class RegisterRequest:
    """Some bits that travel with a packet: in a register, or in a router's mark."""

    name: str
    bits: int = field()

    @bits.validator
    def _check(self, _: object, bits: int) -> None:
        if not 0 < bits <= 32:
            raise ValueError(f"bits of {self.name!r}: {bits} is not within 1..32")


@frozen(kw_only=True)
class GrantRequest:
    """Everything one extension needs, known before the first resource is."""

    owner: str = field()
    tables: tuple[TableRequest, ...] = ()
    registers: tuple[RegisterRequest, ...] = ()
    marks: tuple[RegisterRequest, ...] = ()
    meters: int = 0
    """How many meters for each port."""

    @owner.validator
    def _check_owner(self, _: object, owner: str) -> None:
        check_device_name(owner)  # it ends up in chain names and cookies' log lines

    def __attrs_post_init__(self) -> None:
        for what in (self.tables, self.registers, self.marks):
            names = [claim.name for claim in what]
            if len(names) != len(set(names)):
                raise ValueError(f"{self.owner} claims one name twice: {sorted(names)}")


@frozen(kw_only=True)
class TableGrant:
    """A table number, and where a packet goes that the extension has nothing to say about."""

    number: int
    then: int | None
    """The table to go on to; ``None`` after ``PipelineHook.DROPPED``: the packet ends there."""


@frozen(kw_only=True)
class RegisterGrant:
    """Bits ``first`` to ``first + bits - 1`` of register ``register``, or of the mark."""

    register: int | None
    first: int
    bits: int


@frozen(kw_only=True)
class Grant:
    """What a claim was given.  The same claims give the same grants, also after a restart.

    On a switch, flows of the extension are in its tables and carry its cookie.  Their packets
    go on to its tables and to where ``TableGrant.then`` says; flows that they learn keep to the
    same.  They may change the packet itself and the bits that were granted, and send it to a
    port that they name, to the one it came by, or to the controller.  They may use connection
    tracking, which is forgotten before a firewall looks, queues, and conjunctions, whose ids
    mean something within a table only.  All else that goes along with a packet is not theirs to
    write (other registers, metadata, marks, the tunnel, the port that it came by), nor are
    meters, nor outputs that stand for many ports: ``NORMAL``, ``FLOOD`` and ``ALL`` do not know
    whose network a packet belongs to.
    """

    owner: str
    cookie: int
    """Carried by every flow of this extension, under ``cookie_mask``."""
    cookie_mask: int
    prefix: str
    """What the names of the extension's chains and sets begin with."""
    tables: Mapping[str, TableGrant] = field(factory=dict)
    registers: Mapping[str, RegisterGrant] = field(factory=dict)
    marks: Mapping[str, RegisterGrant] = field(factory=dict)
