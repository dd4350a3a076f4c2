"""``netfw plan``: prints what an agent would change on this host, and changes nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import evolve

from netfw.cli.agents.component_factory import (
    add_agent_arguments,
    dhcp_components,
    l2_components,
    l3_components,
)
from netfw.cli.runtime.arguments import file_arguments
from netfw.cli.runtime.output import print_error, print_lines
from netfw.drivers.host_driver import HostCapability
from netfw.errors import ConfigError, NotFound, NotSupported

if TYPE_CHECKING:
    from netfw.agents.common.driver_update import DriverUpdate
    from netfw.agents.dhcp.agent import DhcpAgent
    from netfw.agents.l2.agent import L2Agent
    from netfw.agents.l3.agent import L3Agent
    from netfw.drivers.reconciler import Reconciler
    from netfw.drivers.state_source import StateSource
    from netfw.plan import Plan, Update

CHANGES = 3
"""Exit status when something would change or is refused."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="say what an agent would change on this host, without changing it",
        description="Say what netfw-ovs-agent, or another agent, would change on this host, as "
        "devices, database rows, flows, files and processes, without changing anything.  Exit "
        "status: 0 nothing is to be done, 1 it cannot be said, 2 wrongly configured, 3 something "
        "would change, waits or is refused.",
    )
    add_agent_arguments(parser, "netfw-metadata-agent changes nothing on a host")
    parser.set_defaults(func=show_plan)


def show_plan(arguments: argparse.Namespace) -> int:
    """Print the plans of the host's drivers; see ``netfw plan --help`` for the status."""
    try:
        plans = PLANNERS[arguments.agent](file_arguments(arguments))
    except ConfigError as exc:
        print_error(exc)
        return 2
    if arguments.json:
        print(json.dumps({name: plan.to_dict() for name, plan in plans.items()}, indent=2))
    else:
        for name, plan in plans.items():
            print(f"{name}: {len(plan)} to be done" if plan else f"{name}: nothing to be done")
            print_lines(f"  {line}" for line in plan.lines())
    return CHANGES if any(p or p.waiting or p.refused for p in plans.values()) else 0


def _l2_plans(files: Sequence[str]) -> dict[str, Plan]:
    with l2_components(files) as parts:
        return plans_of(parts.source, parts.agent)


def _dhcp_plans(files: Sequence[str]) -> dict[str, Plan]:
    with dhcp_components(files) as parts:
        return _job_agent_plans(parts.source, parts.agent)


def _l3_plans(files: Sequence[str]) -> dict[str, Plan]:
    with l3_components(files) as parts:
        parts.agent.start()
        return _job_agent_plans(parts.source, parts.agent)


def _job_agent_plans(source: StateSource, agent: DhcpAgent | L3Agent) -> dict[str, Plan]:
    from netfw.agents.common.replica import Replica

    agent.apply_delta(Replica(source, agent.subscription, agent.resources).pull())
    return plans_in_turn(agent.everything())


PLANNERS: Final[Mapping[str, Callable[[Sequence[str]], dict[str, Plan]]]] = {
    "l2": _l2_plans,
    "l3": _l3_plans,
    "dhcp": _dhcp_plans,
}


def plans_of(source: StateSource, agent: L2Agent) -> dict[str, Plan]:
    """Return the plan of each driver for the desired state of *source*.

    :raises BackendUnavailable: the source or the switch does not answer.
    :raises NotSupported: a driver cannot plan.
    """
    from netfw.agents.common.replica import Replica

    replica = Replica(source, agent.subscription, agent.resources)
    agent.start()
    agent.rescan()
    agent.apply_delta(replica.pull())
    switch, *others = agent.everything()
    plans = {part.name: _plan(part) for part in others}
    stuck = frozenset(key for plan in plans.values() for key in (*plan.refused, *plan.waiting))
    held = evolve(switch, update=on_hold(switch.update, stuck))
    return {switch.name: _plan(held), **plans}


def plans_in_turn(parts: Iterable[DriverUpdate]) -> dict[str, Plan]:
    """Return the plans of drivers that depend on each other, in the order of execution.

    :raises BackendUnavailable: a machine does not answer.
    :raises NotSupported: a driver cannot plan.
    """
    plans: dict[str, Plan] = {}
    coming: set[Hashable] = set()
    for part in parts:
        plan = _plan(part)
        later = {
            key: f"it needs the operations for {part.follows[key]} above; plan again after them"
            for key, error in plan.refused.items()
            if isinstance(error, NotFound) and part.follows.get(key) in coming
        }
        refused = {key: error for key, error in plan.refused.items() if key not in later}
        plans[part.name] = evolve(plan, waiting={**plan.waiting, **later}, refused=refused)
        coming |= {owner for operation in plan for owner in operation.owners}
    return plans


def on_hold(update: Update[Any, Any], keys: frozenset[Hashable]) -> Update[Any, Any]:
    """Return *update* with *keys* on hold: the filters of these ports cannot be made."""
    from netfw.drivers.values.switch_values import Admission, Wiring

    put = {
        key: evolve(value, admission=Admission.HOLD)
        if key in keys and isinstance(value, Wiring) and value.admission is Admission.LIVE
        else value
        for key, value in update.put.items()
    }
    return evolve(update, put=put)


def _plan(part: DriverUpdate) -> Plan:

    info = part.driver.describe()
    if HostCapability.PLAN not in info.capabilities:
        raise NotSupported(f"the driver {info.name!r} cannot say what it would do")
    reconciler = cast("Reconciler[Any, Any, Any]", part.driver)
    plan = reconciler.plan(part.update, reconciler.observe(None))
    return evolve(
        plan,
        refused={**plan.refused, **part.refused},
        waiting={**plan.waiting, **part.waiting},
        notes=part.notes,
    )
