"""Rules of the calls of each contract: which touch nothing, and which must not wait.  Pure."""

from __future__ import annotations

from functools import cache

from attrs import frozen

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Driver
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.server.api_extension import ApiExtension
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.notifier import Notifier
from netfw.drivers.server.type_driver import TypeDriver

WAIT_LIMIT = 20.0
"""Seconds that one call may wait, beyond the time that it computes (promise 5 of `Driver`)."""
SLEEP_LIMIT = 10.0
"""Seconds of ``time.sleep`` in one call."""

_WITHOUT_IO: dict[type, dict[str, int]] = {
    Driver: {"describe": 1},
    Reconciler: {"plan": 1},
    InterfaceDriver: {"device_name": 7},
    AgentExtension: {"grant_request": 1, "contribute": 2, "contribute_base": 2},
    ApiExtension: {"info": 1, "resources": 1, "policies": 1, "requires": 1},
    MechanismDriver: {"validate": 1, "bind": 2, "supported_qos_rules": 2},
    TypeDriver: {"network_type": 7, "ranges": 7, "validate": 7, "mtu": 7},
    ExtensionDriver: {"attributes": 6, "apply_fields": 6},
    Notifier: {"concerns": 1},
}
"""Calls that touch nothing and do not wait, each with the number of the promise."""
_WITHOUT_WAITING: dict[type, dict[str, int]] = {
    TypeDriver: {"reserve": 7, "allocate": 7, "release": 7},
    ExtensionDriver: {"store_attributes": 6, "extend": 6},
}
"""Calls that use the store of their transaction and do not wait."""


@frozen
class CallRule:
    """What one method of a driver must not do."""

    name: str
    promise: str | None = None
    """The promise that the call does not wait; ``None``: it may."""
    is_without_io: bool = False


@cache
def contract_methods(contract: type) -> tuple[str, ...]:
    """Return the methods of a driver that *contract* itself defines."""
    return tuple(
        name
        for name, member in vars(contract).items()
        if callable(member) and not name.startswith("_")
    )


def is_contract(each: type) -> bool:
    """Return whether *each* is a contract of netfw."""
    return each.__module__.startswith("netfw.drivers.") and issubclass(each, Driver)


def call_rules(driver: type) -> dict[str, CallRule]:
    """Return the rules of the methods that the contracts of *driver* define, by name."""
    contracts = [each for each in reversed(driver.__mro__) if is_contract(each)]
    rules = {name: CallRule(name) for each in contracts for name in contract_methods(each)}
    for contract in contracts:
        for listed, is_without_io in ((_WITHOUT_IO, True), (_WITHOUT_WAITING, False)):
            for name, number in listed.get(contract, {}).items():
                promise = f"promise {number} of {contract.__name__}"
                rules[name] = CallRule(name, promise, is_without_io)
    return rules
