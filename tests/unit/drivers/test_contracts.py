"""Every contract has the form that vendors are promised."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Generic, Union, get_args, get_origin, get_type_hints

import attrs
import pytest

import netfw.drivers
from netfw.drivers.base import Driver
from netfw.drivers.server.query import Body

DRV_01 = {
    "InterfaceDriver": "netfw.interface_drivers",
    "DhcpDriver": "netfw.dhcp_drivers",
    "RouterDriver": "netfw.router_drivers",
    "FirewallDriver": "netfw.firewall_drivers",
    "SwitchDriver": "netfw.switch_drivers",
    "TypeDriver": "netfw.type_drivers",
    "MechanismDriver": "netfw.mechanism_drivers",
    "ExtensionDriver": "netfw.extension_drivers",
    "L2Extension": "netfw.l2_extensions",
    "L3Extension": "netfw.l3_extensions",
    "MetadataDriver": "netfw.metadata_drivers",
    "IpamDriver": "netfw.ipam_drivers",
    "Transport": "netfw.transports",
    "StateSource": "netfw.state_sources",
    "ApiExtension": "netfw.api_extensions",
    "Notifier": "netfw.notifiers",
    "CorePlugin": "netfw.core_plugins",
    "ServicePlugin": "netfw.service_plugins",
}


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(netfw.drivers.__path__, "netfw.drivers."):
        yield importlib.import_module(found.name)


def contracts() -> list[type[Driver]]:
    return [
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Driver)
        and value.__module__ == module.__name__
        and "GROUP" in vars(value)
    ]


def family(contract: type[Driver]) -> list[type[Driver]]:
    """Return the contract and its bases, without those that all drivers share."""
    return [cls for cls in contract.__mro__ if cls not in (*Driver.__mro__, Generic)]


def methods(contract: type[Driver]) -> dict[str, Callable[..., object]]:
    """Return the public methods of this contract, without those that all drivers share."""
    return {
        name: value
        for cls in reversed(family(contract))
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and not name.startswith("_") and not hasattr(Driver, name)
    }


def parts(hint: object) -> Iterator[object]:
    """Yield the parts of *hint*; a body in the form of the API is left out (decision 15)."""
    if hint == Body:
        return
    yield hint
    for part in get_args(hint):
        yield from parts(part)


every_contract = pytest.mark.parametrize("contract", contracts(), ids=lambda c: c.__name__)


@pytest.mark.spec("DRV-01", "DRV-10")
def test_every_interface_of_the_spec_is_there_with_a_group_of_its_own() -> None:
    assert sorted((c.__name__, c.GROUP) for c in contracts()) == sorted(DRV_01.items())


@every_contract
@pytest.mark.spec("DRV-01")
def test_a_contract_is_a_short_file_of_its_own(contract: type[Driver]) -> None:
    path = Path(inspect.getfile(contract))
    assert len(path.read_text().splitlines()) <= 150
    assert [other for other in contracts() if inspect.getfile(other) == str(path)] == [contract]


@every_contract
@pytest.mark.spec("DRV-01")
def test_a_contract_has_two_to_eight_methods_some_of_them_abstract(contract: type[Driver]) -> None:
    assert 2 <= len(methods(contract)) <= 8
    assert contract.__abstractmethods__ & methods(contract).keys()
    assert contract.VERSION == 2


@every_contract
@pytest.mark.spec("DRV-01")
def test_a_contract_numbers_its_promises(contract: type[Driver]) -> None:
    numbers = [int(n) for n in re.findall(r"^ *(\d+)\. ", inspect.getdoc(contract) or "", re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 2


@every_contract
@pytest.mark.spec("DRV-01")
def test_a_contract_says_when_it_is_called_and_what_it_may_raise(contract: type[Driver]) -> None:
    prose = " ".join(inspect.getdoc(cls) or "" for cls in family(contract))
    for topic in ("transaction", "thread|parallel"):
        assert re.search(topic, prose), f"says nothing of {topic}"
    sentences = [prose, *(inspect.getdoc(method) or "" for method in methods(contract).values())]
    assert any("raise" in sentence for sentence in sentences)


@every_contract
def test_every_method_is_documented(contract: type[Driver]) -> None:
    for name in methods(contract):
        assert inspect.getdoc(getattr(contract, name)), name


@every_contract
@pytest.mark.spec("DRV-02")
def test_arguments_and_results_are_typed_values(contract: type[Driver]) -> None:
    for name, method in methods(contract).items():
        hints = get_type_hints(method)
        parameters = [p for p in inspect.signature(method).parameters if p != "self"]
        assert {*parameters, "return"} == hints.keys(), f"{name} is not fully annotated"
        for part in (part for hint in hints.values() for part in parts(hint)):
            assert part not in (Any, dict, list, object), f"{name} takes or gives a bare {part}"
            assert get_origin(part) not in (dict, list), f"{name} takes or gives a mutable {part}"


def values() -> list[type]:
    return [
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and attrs.has(value)
    ]


@pytest.mark.parametrize("value", values(), ids=lambda v: v.__name__)
@pytest.mark.spec("DRV-02")
def test_values_are_frozen_documented_and_typed_throughout(value: type) -> None:
    assert value.__setattr__ is not object.__setattr__, "not frozen"
    assert inspect.getdoc(value)
    hints = get_type_hints(value)
    for field in attrs.fields(value):
        for part in parts(hints[field.name]):
            assert part not in (Any, dict, list), f"{field.name}: {part}"
            assert get_origin(part) not in (dict, list, set), f"{field.name} can be changed"


@pytest.mark.parametrize("value", values(), ids=lambda v: v.__name__)
def test_values_with_three_fields_are_made_by_keyword(value: type) -> None:
    given = [field for field in attrs.fields(value) if not field.inherited]
    if len(given) > 3:
        assert all(field.kw_only for field in given)


@pytest.mark.parametrize(
    "union", ["SwitchKey", "FirewallKey", "DhcpKey", "MetadataKey", "RouterDriverKey"]
)
def test_keys_of_one_driver_are_distinguishable_and_hashable(union: str) -> None:
    found = next(vars(module)[union] for module in modules() if hasattr(module, union))
    assert get_origin(found) in (Union, UnionType)
    for kind in get_args(found):
        assert attrs.has(kind), f"{kind} is a bare id: two kinds of it could not be told apart"
        assert kind.__hash__ is not None
