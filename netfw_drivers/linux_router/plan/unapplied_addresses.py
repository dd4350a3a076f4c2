"""Addresses that the keepalived of an active instance has not applied yet.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from netfw.drivers.values.router_values import FloatingIpNat, RouterDriverKey, RouterDriverValue
from netfw.errors import BackendUnavailable
from netfw.model.values.text_validation import render_names
from netfw.plan import Update
from netfw_drivers.linux_router.config.keepalived import VirtualAddress
from netfw_drivers.linux_router.distributed.router_parts import nat_part
from netfw_drivers.linux_router.plan.names import PartId, part_key


def unapplied_text(missing: Iterable[object]) -> str:
    """Return a text that names the first of *missing* addresses or routes."""
    names = sorted(map(str, missing))
    return f"keepalived has not applied {render_names(names, len(names))} yet"


def unapplied_errors(
    update: Update[RouterDriverKey, RouterDriverValue],
    router: PartId,
    missing: Collection[VirtualAddress],
) -> dict[RouterDriverKey, BackendUnavailable]:
    """Return the errors of the keys of *update* that need *missing* addresses of a router.

    The router needs all of them, a floating IP its own.
    """
    if not missing:
        return {}
    error = BackendUnavailable(unapplied_text(each.interface for each in missing))
    addresses = {each.interface.ip for each in missing}
    return {
        key: error
        for key, value in update.put.items()
        if key == part_key(router)
        or (
            isinstance(value, FloatingIpNat)
            and nat_part(value) == router
            and value.floating_address in addresses
        )
    }
