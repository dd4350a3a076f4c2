"""Whether one router can tell subnets apart.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from netfw.errors import InvalidInput
from netfw.model.subnet import Subnet


def check_apart(new: Subnet, others: Iterable[Subnet], place: str) -> None:
    """Accept *new* beside the subnets that a router has.

    :raises InvalidInput: at *place*, it is one of them, or their addresses overlap.
    """
    for other in others:
        if other.id == new.id:
            raise InvalidInput({place: f"the router has a port on subnet {new.id} already"})
        if other.cidr.version == new.cidr.version and other.cidr.overlaps(new.cidr):
            raise InvalidInput(
                {
                    place: f"{new.cidr} of subnet {new.id} overlaps {other.cidr} of subnet "
                    f"{other.id}, which the router is connected to"
                }
            )
