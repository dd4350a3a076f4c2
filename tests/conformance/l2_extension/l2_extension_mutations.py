"""Mutations of the extension for QoS: each breaks one promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import evolve

from netfw import flows as of
from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.qos.extension import QosExtension
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


class FakeL2Extension(QosExtension):
    """Limits of ports, with a count of its calls for the mutations."""

    VERSION: ClassVar[int] = 2

    def __init__(self) -> None:
        self.start_counting()

    def start_counting(self) -> None:
        """Start; a method of its own, so that a mutation can do more where the driver is made."""
        self.calls = 0

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        self.calls += 1
        return super().contribute(key, value, grant)


def changed(
    made: SwitchContribution | None, change: Callable[[of.Flow], of.Flow]
) -> SwitchContribution | None:
    """Return the contribution *made* with *change* made to each flow."""
    return made and evolve(made, flows=tuple(change(flow) for flow in made.flows))


def metered(flow: of.Flow, change: Callable[[of.Meter], of.Action]) -> of.Flow:
    """Return *flow* with *change* made to its meter, if it has one."""
    first, *rest = flow.actions
    return evolve(flow, actions=(change(first), *rest)) if isinstance(first, of.Meter) else flow


@MUTATIONS.override("grant_request", breaks(AgentExtension, 1))
def request_more_after_calls(driver, original):
    """Request another meter once the extension was called."""
    return evolve(original(), meters=5 if driver.calls else 4)


@MUTATIONS.override("contribute", breaks(AgentExtension, 2))
def count_calls_in_priority(driver, original, key, value, grant):
    """Return another priority with each call."""
    made = original(key, value, grant)
    return changed(made, lambda flow: evolve(flow, priority=driver.calls))


@MUTATIONS.override("contribute", breaks(AgentExtension, 2))
def prefer_first_port(driver, original, key, value, grant):
    """Return a lower priority for all ports but the first one that was seen."""
    made = original(key, value, grant)
    driver.__dict__.setdefault("first", key)
    return made if key == driver.first else changed(made, lambda flow: evolve(flow, priority=7))


@MUTATIONS.override("contribute_base", breaks(AgentExtension, 2))
def count_calls_in_base(driver, original, grant):
    """Return another default after each call for a port."""
    return SwitchContribution(owner=grant.owner, guaranteed_kbps=driver.calls)


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def name_another_owner(driver, original, key, value, grant):
    """Contribute in the name of another extension."""
    return SwitchContribution(owner="other")


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def return_flows_as_list(driver, original, key, value, grant):
    """Return flows that another caller may change."""
    made = original(key, value, grant)
    return made and evolve(made, flows=list(made.flows))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def use_table_of_others(driver, original, key, value, grant):
    """Put flows into a table that is not granted."""
    return changed(original(key, value, grant), lambda flow: evolve(flow, table=58))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def change_granted_cookie(driver, original, key, value, grant):
    """Change the granted part of the cookie."""
    made = original(key, value, grant)
    return changed(made, lambda flow: evolve(flow, cookie=flow.cookie ^ 1 << 40))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def jump_to_table_of_others(driver, original, key, value, grant):
    """Send packets to a table that is not granted."""
    made = original(key, value, grant)
    return changed(made, lambda flow: evolve(flow, actions=(*flow.actions[:-1], of.goto(94))))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def use_meter_of_first_port(driver, original, key, value, grant):
    """Give every port the meter of port 1."""
    meter = of.limited(of.BitLimit(1, 10, 10))
    return changed(original(key, value, grant), lambda flow: metered(flow, lambda _: meter))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def omit_limit_of_meter(driver, original, key, value, grant):
    """Use a meter without saying its limit."""
    made = original(key, value, grant)
    return changed(made, lambda flow: metered(flow, lambda meter: of.Meter(meter.id)))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def give_one_meter_two_limits(driver, original, key, value, grant):
    """Use one meter of the port for all its limits."""
    own = grant.meters[0] + value.device.ofport

    def share(meter):
        return of.limited(evolve(meter.limit, meter=own))

    return changed(original(key, value, grant), lambda flow: metered(flow, share))


@MUTATIONS.override("contribute_base", breaks(AgentExtension, 3))
def name_another_owner_in_base(driver, original, grant):
    """Return a default in the name of another extension."""
    return SwitchContribution(owner="other")


@MUTATIONS.override("contribute_base", breaks(AgentExtension, 3))
def use_table_of_others_in_base(driver, original, grant):
    """Return a default of a table that is not granted."""
    flow = of.Flow(table=58, priority=0, match=of.ANYTHING, actions=of.drop(), cookie=grant.cookie)
    return SwitchContribution(owner=grant.owner, flows=(flow,))


@MUTATIONS.override("contribute_base", breaks(AgentExtension, 3))
def jump_to_table_of_others_in_base(driver, original, grant):
    """Return a default that sends packets to a table that is not granted."""
    first = next(iter(grant.tables.values())).number
    flow = of.Flow(
        table=first, priority=0, match=of.ANYTHING, actions=(of.goto(94),), cookie=grant.cookie
    )
    return SwitchContribution(owner=grant.owner, flows=(flow,))


@MUTATIONS.override("contribute", breaks(L2Extension, 2))
def match_packets_of_all_ports(driver, original, key, value, grant):
    """Return flows that match the packets of all ports."""
    made = original(key, value, grant)
    return changed(made, lambda flow: evolve(flow, match=of.ANYTHING, actions=of.drop()))


@MUTATIONS.override("contribute", breaks(L2Extension, 2))
def share_flows_in_network(driver, original, key, value, grant):
    """Return flows that are the same for all ports of the network."""
    made = original(key, value, grant)
    shared = changed(made, lambda flow: evolve(flow, match=of.ANYTHING, actions=of.drop()))
    return shared and evolve(shared, flows=(), network_flows=shared.flows)


@MUTATIONS.override("contribute")
def contribute_nothing(driver, original, key, value, grant):
    """Return no contribution, so that most tests have nothing to look at."""
