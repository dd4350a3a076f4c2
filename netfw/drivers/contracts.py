"""The list of all contracts, for tools that go over every one."""

from __future__ import annotations

import importlib
import pkgutil

import netfw.drivers
from netfw.drivers.base import Driver


def all_contracts() -> list[type[Driver]]:
    """Every contract of netfw, by the name of its entry-point group."""
    found = {
        member.GROUP: member
        for module in pkgutil.iter_modules(netfw.drivers.__path__, "netfw.drivers.")
        for member in vars(importlib.import_module(module.name)).values()
        if isinstance(member, type) and issubclass(member, Driver) and "GROUP" in vars(member)
    }
    return [found[group] for group in sorted(found)]
