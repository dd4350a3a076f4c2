"""Tables of a pipeline, one decision about a packet each."""

from __future__ import annotations

from attrs import frozen

from netfw.flows.action import TABLES
from netfw.flows.flow import Action, Flow
from netfw.flows.match import ANYTHING, Match
from netfw.flows.register import RegisterField

__all__ = ["Table"]


@frozen(kw_only=True)
class Table:
    """A table of a pipeline, with the number that operators see.

    ``leads_to`` names the tables that its flows may send packets on to, ``back_to`` those of them
    that come earlier, ``learns_into`` the tables of learned flows, ``writes`` the register fields
    they may set.  ``miss`` are the actions on a packet that no flow matches.
    """

    number: int
    name: str
    asks: str
    leads_to: tuple[str, ...] = ()
    back_to: tuple[str, ...] = ()
    learns_into: tuple[str, ...] = ()
    writes: tuple[RegisterField, ...] = ()
    miss: tuple[Action, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.number not in TABLES:
            raise ValueError(f"table {self.name}: there are tables 0 to 253, not {self.number}")

    def flow(
        self,
        match: Match,
        *actions: Action | tuple[()],
        priority: int = 0x8000,
        cookie: int = 0,
        idle_timeout: int = 0,
        hard_timeout: int = 0,
    ) -> Flow:
        """Make a flow of this table.  No actions, or ``drop()``, drop the packet."""
        return Flow(
            table=self.number,
            priority=priority,
            match=match,
            actions=tuple([action for action in actions if not isinstance(action, tuple)]),
            cookie=cookie,
            idle_timeout=idle_timeout,
            hard_timeout=hard_timeout,
        )

    def miss_flow(self, cookie: int = 0) -> Flow:
        """Make the flow for packets that no other flow of this table matches."""
        return self.flow(ANYTHING, *self.miss, priority=0, cookie=cookie)
