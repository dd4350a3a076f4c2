"""Values of a trace: ports, hops of a packet, and decisions of the desired state.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, field, frozen

from netfw.diagnosis.trace_values import Decision, TracedPort, strings


@frozen(kw_only=True)
class HopStep:
    """A flow that the packet matched on a host, in names."""

    bridge: str
    table: int
    name: str = ""
    """The name of the table; empty: the driver does not say."""
    asks: str = ""
    match: str = ""
    priority: int | None = None
    actions: tuple[str, ...] = field(default=(), converter=strings)
    remarks: tuple[str, ...] = field(default=(), converter=strings)
    foreign: bool = False
    """Whether the flow is not one of netfw's."""
    miss: bool = False
    """Whether it passed on by the last flow of the table."""


@frozen(kw_only=True)
class HopOutput:
    """Where a packet leaves the switch of a host."""

    kind: str
    """``device``, ``tunnel`` or ``physical``."""
    device: str = ""
    port: str = ""
    """The id of the port that has the device; empty: none of netfw."""
    tunnel_type: str = ""
    tunnel_id: int = 0
    local: str = ""
    remote: str = ""
    physical_network: str = ""
    vlan: int | None = None


@frozen(kw_only=True)
class Hop:
    """What the switch of one host does with a packet."""

    host: str
    entry: str
    """Where it enters, in words."""
    steps: tuple[HopStep, ...] = ()
    outputs: tuple[HopOutput, ...] = ()
    fields: dict[str, str] = field(factory=dict)
    problems: tuple[str, ...] = field(default=(), converter=strings)
    to_agent: bool = False
    uncertain: bool = False
    """Whether the switch tracks the packet on the way: a trace does not know the ports of its
    connection from there on."""

    def to_dict(self) -> dict[str, Any]:
        """Return the hop as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Hop:
        """Return the hop that `to_dict` wrote.

        :raises TypeError: it is none.
        """
        steps = tuple(HopStep(**each) for each in raw["steps"])
        outputs = tuple(HopOutput(**each) for each in raw["outputs"])
        return cls(**{**raw, "steps": steps, "outputs": outputs})


@frozen(kw_only=True)
class PacketTrace:
    """The way of a packet, desired and live."""

    packet: str
    source: TracedPort
    target: TracedPort
    decisions: tuple[Decision, ...]
    hops: tuple[Hop, ...]
    arrives: bool | None
    """Whether it arrives, by the live state; ``None``: it could not be followed to its end."""
    end: str
    """Where it ended, in words."""
    differences: tuple[str, ...] = ()
    """What the hosts would change: the live state differs from the desired one there."""

    @property
    def should_arrive(self) -> bool:
        """Whether it should arrive, by the desired state."""
        return all(decision.allowed for decision in self.decisions)

    @property
    def differs(self) -> bool:
        """Whether the desired and the live state decide differently, where the switch decides."""
        visible = all(decision.allowed for decision in self.decisions if decision.in_switch)
        return self.arrives is not None and self.arrives != visible

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain data."""
        return {**asdict(self), "should_arrive": self.should_arrive, "differs": self.differs}
