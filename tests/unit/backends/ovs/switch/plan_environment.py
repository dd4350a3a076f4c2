"""A switch in memory that plans are executed on."""

from collections.abc import Mapping

from netfw.drivers.values.switch_values import SwitchKey, SwitchValue
from netfw.ovs.openflow.encode import canonical, cookie_of
from netfw.ovs.openflow.flow_cache import FlowCache
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.br_int import admission_key
from netfw_drivers.ovs.switch.plan.outline import PlanOutline, outline
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import DomainMembers, SwitchState
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    Database,
)

State = Mapping[SwitchKey, SwitchValue]


class PlanEnvironment:
    """A driver's memory and a database, brought from state to state."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings, self.database = settings, Database()
        self.state, self.members = SwitchState(), DomainMembers()
        self.flows = {bridge: FlowCache() for bridge in settings.bridges}

    def outline(self, update: Update[SwitchKey, SwitchValue]) -> PlanOutline:
        observed = self.database.observed(self.state, self.members)
        return outline(update, observed, self.settings)

    def do(self, update: Update[SwitchKey, SwitchValue]) -> PlanOutline:
        found = self.outline(update)
        for stage in (*found.draft.before(), *found.draft.after()):
            self.database.run(stage.operations)
        for bridge, flows in self.flows.items():
            put, drop = found.groups.put.get(bridge, {}), found.groups.drop.get(bridge, ())
            flows.confirm(flows.plan(put, drop))
        self.state.commit(found.put, found.drop)
        self.members.commit(found.live, found.concerned)
        cookies = {
            member.number: self.flows["br-int"].observed.get(
                canonical(admission_key(member.number))
            )
            for member in self.members.ports.values()
        }
        self.database.admissions = {
            number: cookie_of(found) for number, found in cookies.items() if found is not None
        }
        return found

    def wired(self, **state: State) -> None:
        for part in state.values():
            self.do(Update(put=part))
