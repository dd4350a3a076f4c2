"""The trial of a driver: it is made with its default options, described and closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.registry.loader import all_contracts, create, load
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.errors import DriverError, NetfwError

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

STAND_INS: Final[Mapping[str, str]] = {"InterfaceDriver": "null", "Transport": "socket"}
"""Drivers without needs of their own, for drivers that need one of the contract."""


@frozen(kw_only=True)
class DriverReport:
    """The result of a trial."""

    health: str
    is_usable: bool = True
    """False: the loader refuses the driver."""
    capabilities: Sequence[str] = ()
    about: str = ""
    options: Sequence[Mapping[str, Any]] = ()


def try_driver(kind: type[Driver], name: str) -> DriverReport:
    """Make the driver *name* with its default options, and report what it says of itself.

    A defect of the driver, whatever it raises, is its health.
    """
    try:
        driver = load(kind, name)
    except DriverError as exc:
        return DriverReport(health=str(exc), is_usable=False)
    health: list[str] = []
    capabilities: list[str] = []
    with _defects("", health), ExitStack() as stack:
        _make_and_describe(kind, name, stack, health, capabilities)
    return DriverReport(
        health="; ".join(health) or "ok",
        capabilities=capabilities,
        about=(driver.__doc__ or "").strip().partition("\n")[0],
        options=[_describe_option(option) for option in driver.OPTIONS],
    )


def _make_and_describe(
    kind: type[Driver], name: str, stack: ExitStack, health: list[str], capabilities: list[str]
) -> None:
    host = stack.enter_context(LocalHostResources())
    _lend(host, kind, stack)
    try:
        driver = create(kind, name, {}, host)
    except DriverError as exc:
        health.append(str(exc))
        return
    except NetfwError as exc:
        health.append(f"needs configuration: {exc}")
        return
    stack.callback(_close, driver, health)
    with _defects("describe", health):
        capabilities += sorted(str(each) for each in driver.describe().capabilities)
    with _defects("problems", health):
        health += [str(problem) for problem in driver.problems()]


def _close(driver: Driver, health: list[str]) -> None:
    with _defects("close", health):
        driver.close()


@contextmanager
def _defects(method: str, health: list[str]) -> Iterator[None]:
    """Turn what a driver raises, `SystemExit` included, into a sentence of its health."""
    try:
        yield
    except BaseException as exc:  # noqa: BLE001 - one bad driver does not hide the others
        raised = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
        where = f"{method} raises " if method else ""
        health.append(f"a defect of the driver: {where}{raised}")


def _lend(host: LocalHostResources, kind: type[Driver], stack: ExitStack) -> None:
    """Register drivers that work on any machine, for drivers that need one."""
    for contract in all_contracts():
        name = STAND_INS.get(contract.__name__)
        if name is None or contract is kind:
            continue
        with suppress(NetfwError):
            driver = create(contract, name, {}, host)
            stack.callback(driver.close)
            host.add(driver)


def _describe_option(option: Opt) -> dict[str, Any]:
    return {
        "name": option.dest,
        "type": str(option.type),
        "default": option.default,
        "help": option.help or "",
    }
