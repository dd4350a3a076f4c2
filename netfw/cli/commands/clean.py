"""``netfw clean``: removes what the drivers of an agent made on this host."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from netfw.cli.agents.component_factory import dhcp_components, l2_components, l3_components
from netfw.cli.runtime.arguments import add_file_arguments, add_json_argument, file_arguments
from netfw.cli.runtime.output import print_lines
from netfw.cli.runtime.progress import ProgressLine
from netfw.drivers.host_driver import HostCapability
from netfw.errors import BackendLocked, NotSupported

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from netfw.agents.common.agent import HostAgent
    from netfw.drivers.host_driver import HostDriver
    from netfw.drivers.reconciler import Reconciler
    from netfw.plan import Plan, Update

LEFT = 3
"""Exit status when something is there to be removed, or could not be removed."""
_MOST_LINES = 10_000
PARTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "switch": ("l2", ("switch",)),
    "firewall": ("l2", ("firewall", "hybrid", "retired")),
    "dhcp": ("dhcp", ("metadata", "dhcp", "interface")),
    "routers": ("l3", ("metadata", "router", "interface")),
}
"""What can be removed: the agent whose drivers made it, and these, in the order of removal."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "clean",
        help="remove what the drivers of an agent made on this host",
        description="List what the drivers of an agent made on this host, and with --yes remove "
        "it: of the switch the wiring of ports and networks and the tunnels to other hosts "
        "(bridges, their links and the flows of an empty host stay, and drop everything); of the "
        "firewall the chains, ipsets and flows; of DHCP and routers the namespaces, ports on the "
        "switch, processes and files.  Nothing else is touched.  While the agent runs it is "
        "refused: stop it first.  Traffic of this host ends with it; an agent that is started "
        "again makes everything again.  Exit status: 0 nothing is left, 1 it cannot be done, 2 "
        "wrongly configured, 3 something is left.",
    )
    parser.add_argument("part", choices=list(PARTS), help="what to remove")
    add_file_arguments(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--dry-run", action="store_true", help="list it, and remove nothing (the default)"
    )
    action.add_argument("--yes", action="store_true", help="remove it")
    add_json_argument(parser)
    parser.set_defaults(func=clean)


def clean(arguments: argparse.Namespace) -> int:
    """List or remove a part; see ``netfw clean --help`` for the status."""
    agent, names = PARTS[arguments.part]
    files = file_arguments(arguments)
    with _components(agent, files) as parts:
        drivers = dict(_named_drivers(parts, names))
        if arguments.yes:
            _acquire_locks(parts.agent)
            return _remove(drivers, agent, as_json=arguments.json)
        plans = {name: _plan(driver, agent) for name, driver in drivers.items()}
    _print_plans(plans, as_json=arguments.json)
    if not any(plans.values()):
        return 0
    print("netfw: nothing was removed: stop the agent, and repeat with --yes", file=sys.stderr)
    return LEFT


def _components(agent: str, files: Sequence[str]) -> AbstractContextManager[Any]:
    makers = {"l2": l2_components, "dhcp": dhcp_components, "l3": l3_components}
    return makers[agent](files)


def _named_drivers(
    parts: object, names: Sequence[str]
) -> Iterator[tuple[str, HostDriver[Any, Any]]]:
    """Yield the drivers of *parts* that these attributes have."""
    for name in names:
        found = getattr(parts, name)
        several = found if isinstance(found, list) else [found]
        for driver in several:
            if driver is not None:
                yield f"{name} {driver.describe().name}", driver


def _removal(driver: HostDriver[Any, Any], agent: str) -> Update[Any, Any]:
    """Return the update that removes what *agent* has of *driver*.

    Agents share the switch, and an interface driver knows the ports of all of them: those of DHCP
    are known by the names of their devices.
    """
    from netfw.drivers.interface import InterfaceDriver
    from netfw.plan import Update

    if not isinstance(driver, InterfaceDriver):
        return Update(complete=True)
    own = frozenset(
        port
        for port, device in driver.devices().items()
        if (device.name == driver.device_name(port)) == (agent == "dhcp")
    )
    return Update(drop=own)


def _plan(driver: HostDriver[Any, Any], agent: str) -> Plan:
    info = driver.describe()
    if HostCapability.PLAN not in info.capabilities:
        raise NotSupported(
            f"the driver {info.name!r} cannot say what it made; --yes removes it without a list"
        )
    reconciler = cast("Reconciler[Any, Any, Any]", driver)
    removal = _removal(driver, agent)
    return reconciler.plan(removal, reconciler.observe(None if removal.complete else removal))


def _print_plans(plans: Mapping[str, Plan], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: plan.to_dict() for name, plan in plans.items()}, indent=2))
        return
    for name, plan in plans.items():
        print(f"{name}: {len(plan)} to be removed" if plan else f"{name}: nothing is left")
        lines = list(plan.lines())
        print_lines(f"  {line}" for line in lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            print(f"  and {len(lines) - _MOST_LINES} more")


def _acquire_locks(agent: HostAgent[Any]) -> None:
    """Acquire the locks of an agent: some drivers have none of their own.

    :raises BackendLocked: the agent runs.
    """
    try:
        agent.acquire_locks()
    except BackendLocked as exc:
        raise BackendLocked(f"nothing was removed, since an agent runs: {exc}") from exc


def _remove(drivers: Mapping[str, HostDriver[Any, Any]], agent: str, *, as_json: bool) -> int:
    """Remove what *drivers* made for *agent*."""
    failed: dict[str, str] = {}
    removed: dict[str, int] = {}
    with ProgressLine() as progress:
        for number, (name, driver) in enumerate(drivers.items(), start=1):
            progress.show(f"netfw clean: {name}, {number} of {len(drivers)}")
            outcome = driver.converge(_removal(driver, agent))
            removed[name] = len(outcome.done)
            failed |= {f"{name}: {key}": str(error) for key, error in outcome.failed.items()}
            failed |= {f"{name}: {key}": f"it waits: {w}" for key, w in outcome.waiting.items()}
    if as_json:
        print(json.dumps({"removed": removed, "left": failed}, indent=2))
    else:
        for name in drivers:
            print(f"{name}: removed")
        print_lines(f"left: {key}: {why}" for key, why in failed.items())
    return LEFT if failed else 0
